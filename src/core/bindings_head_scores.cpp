// The scores of trained heads, as Python sees them.
#include "bindings.hpp"
#include "head_scores.hpp"

namespace labelprism {
namespace {

// A trained head: keeps its arrays alive and checked, so that scoring a single row does not check them again.
class LinearHead {
 public:
  LinearHead(Vector<std::int64_t> indptr, Vector<std::int32_t> indices, std::int64_t n_labels, Vector<float> slot_bias)
      : indptr_(indptr), indices_(indices), slot_bias_(slot_bias) {
    model_.candidates = checked_labels(indptr_, indices_, n_labels);
    require(slot_bias_.size() == indices_.size(), "there must be a bias for every candidate");
    model_.slot_bias = slot_bias_.data();
  }

  void set_dense(Matrix<float> weights, bool by_slot, std::int64_t code_shift) {
    require_units(static_cast<std::int64_t>(weights.shape(0)), by_slot);
    const auto width = static_cast<std::int64_t>(weights.shape(1));
    begin_weights({weights.data(), width, {}}, by_slot, code_shift);
    dense_ = weights;
  }

  void set_sparse(Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, std::int64_t width,
                  bool by_slot, std::int64_t code_shift) {
    const CsrView sparse = checked_csr(indptr, indices, data, width);
    require_units(sparse.n_rows, by_slot);
    begin_weights({nullptr, width, sparse}, by_slot, code_shift);
    sparse_ = {indptr, indices, data};
  }

  void set_codes(Matrix<float> codes) {
    require_weights();
    require(static_cast<std::int64_t>(codes.shape(0)) == model_.candidates.n_rows, "codes must have a row a leaf");
    const auto n_codes = static_cast<std::int64_t>(codes.shape(1));
    require(!model_.by_slot && (n_codes + 1) * model_.code_shift <= model_.weights.width, "codes need weights");
    codes_ = codes;
    model_.n_codes = n_codes;
    model_.codes = codes.data();
  }

  void set_dense_deviations(Matrix<float> weights) {
    require_weights();
    require(weights.shape(0) == indices_.size(), "deviations must have a row for every candidate");
    const auto width = static_cast<std::int64_t>(weights.shape(1));
    require(width >= model_.code_shift, "deviations must be as wide as rows");
    dense_deviations_ = weights;
    model_.deviations = {weights.data(), width, {}};
    model_.has_deviations = true;
  }

  void set_sparse_deviations(Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data,
                             std::int64_t width) {
    require_weights();
    const CsrView sparse = checked_csr(indptr, indices, data, width);
    require(sparse.n_rows == static_cast<std::int64_t>(indices_.size()), "deviations must have a row a candidate");
    require(width >= model_.code_shift, "deviations must be as wide as rows");
    sparse_deviations_ = {indptr, indices, data};
    model_.deviations = {nullptr, width, sparse};
    model_.has_deviations = true;
  }

  const HeadModel& model() const { return model_; }

  CsrView checked_rows(const Vector<std::int64_t>& indptr, const Vector<std::int32_t>& indices,
                       const Vector<float>& data) const {
    require_weights();
    return checked_csr(indptr, indices, data, model_.code_shift);
  }

  DenseView checked_rows(const Matrix<float>& X) const {
    const DenseView rows = checked_dense(X);
    require(model_.weights.dense && (!model_.has_deviations || model_.deviations.dense),
            "dense rows need dense weights");
    require(rows.n_columns == model_.code_shift && rows.n_columns % 8 == 0, "X must be as wide as the weights");
    return rows;
  }

  void check_leaves(const Vector<std::int32_t>& leaves, std::int64_t n_rows) const {
    require(static_cast<std::int64_t>(leaves.size()) == n_rows, "there must be a leaf for every row");
    bool inside = true;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      inside &= leaves.data()[i] >= 0 && leaves.data()[i] < model_.candidates.n_rows;
    }
    require(inside, "a leaf is out of range");
  }

 private:
  void require_units(std::int64_t n_units, bool by_slot) const {
    const std::int64_t expected = by_slot ? static_cast<std::int64_t>(indices_.size()) : model_.candidates.n_columns;
    require(n_units == expected, "there must be a row of weights for every unit");
  }

  void require_weights() const { require(has_weights_, "there are no weights yet"); }

  // Codes and deviations were checked against the weights before these, so they are dropped.
  void begin_weights(const UnitWeights& weights, bool by_slot, std::int64_t code_shift) {
    require(0 <= code_shift && code_shift <= weights.width, "code_shift must not exceed the width");
    model_.weights = weights;
    model_.by_slot = by_slot;
    model_.code_shift = code_shift;
    model_.n_codes = 0;
    model_.has_deviations = false;
    has_weights_ = true;
  }

  using Csr = std::tuple<Vector<std::int64_t>, Vector<std::int32_t>, Vector<float>>;
  Vector<std::int64_t> indptr_;
  Vector<std::int32_t> indices_;
  Vector<float> slot_bias_;
  Matrix<float> dense_, codes_, dense_deviations_;
  Csr sparse_, sparse_deviations_;
  HeadModel model_{};
  bool has_weights_ = false;
};

template <class View>
std::tuple<NewArray<std::int32_t>, NewArray<float>> top_k(const LinearHead& head, const View& X,
                                                          const Vector<std::int32_t>& leaves, std::int64_t k,
                                                          int n_threads) {
  require(1 <= k && k <= INT32_MAX, "k must be at least 1 and at most 2147483647");
  head.check_leaves(leaves, X.n_rows);
  const std::initializer_list<std::size_t> shape = {static_cast<std::size_t>(X.n_rows), static_cast<std::size_t>(k)};
  std::int32_t* labels;
  float* scores;
  NewArray<std::int32_t> best_labels = new_array(shape, &labels);
  NewArray<float> best_scores = new_array(shape, &scores);
  {
    const nb::gil_scoped_release release;
    head_top_k(X, head.model(), leaves.data(), k, n_threads, labels, scores);
  }
  return {best_labels, best_scores};
}

template <class View>
NewArray<float> scores(const LinearHead& head, const View& X, const Vector<std::int32_t>& leaves, int n_threads) {
  head.check_leaves(leaves, X.n_rows);
  std::vector<std::int64_t> begin(1, 0);
  const std::int64_t* indptr = head.model().candidates.indptr;
  for (std::int64_t i = 0; i < X.n_rows; ++i) {
    begin.push_back(begin.back() + indptr[leaves.data()[i] + 1] - indptr[leaves.data()[i]]);
  }
  float* out;
  NewArray<float> result = new_array({static_cast<std::size_t>(begin.back())}, &out);
  {
    const nb::gil_scoped_release release;
    head_scores(X, head.model(), leaves.data(), begin.data(), n_threads, out);
  }
  return result;
}

}  // namespace

void bind_head_scores(nb::module_& m) {
  nb::class_<LinearHead>(m, "LinearHead", "A trained head: scores the candidates of leaves.")
      .def(nb::init<Vector<std::int64_t>, Vector<std::int32_t>, std::int64_t, Vector<float>>(), array("indptr"),
           array("indices"), "n_labels"_a, array("slot_bias"))
      .def("set_dense", &LinearHead::set_dense, array("weights"), "by_slot"_a, "code_shift"_a)
      .def("set_sparse", &LinearHead::set_sparse, array("indptr"), array("indices"), array("data"), "width"_a,
           "by_slot"_a, "code_shift"_a)
      .def("set_codes", &LinearHead::set_codes, array("codes"))
      .def("set_dense_deviations", &LinearHead::set_dense_deviations, array("weights"))
      .def("set_sparse_deviations", &LinearHead::set_sparse_deviations, array("indptr"), array("indices"),
           array("data"), "width"_a)
      .def(
          "scores_csr",
          [](const LinearHead& self, Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data,
             Vector<std::int32_t> leaves,
             int n_threads) { return scores(self, self.checked_rows(indptr, indices, data), leaves, n_threads); },
          array("indptr"), array("indices"), array("data"), array("leaves"), "n_threads"_a = 1)
      .def(
          "scores_dense",
          [](const LinearHead& self, Matrix<float> X, Vector<std::int32_t> leaves, int n_threads) {
            return scores(self, self.checked_rows(X), leaves, n_threads);
          },
          array("X"), array("leaves"), "n_threads"_a = 1)
      .def(
          "top_k_csr",
          [](const LinearHead& self, Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data,
             Vector<std::int32_t> leaves, std::int64_t k,
             int n_threads) { return top_k(self, self.checked_rows(indptr, indices, data), leaves, k, n_threads); },
          array("indptr"), array("indices"), array("data"), array("leaves"), "k"_a, "n_threads"_a = 1)
      .def(
          "top_k_dense",
          [](const LinearHead& self, Matrix<float> X, Vector<std::int32_t> leaves, std::int64_t k, int n_threads) {
            return top_k(self, self.checked_rows(X), leaves, k, n_threads);
          },
          array("X"), array("leaves"), "k"_a, "n_threads"_a = 1);
}

}  // namespace labelprism
