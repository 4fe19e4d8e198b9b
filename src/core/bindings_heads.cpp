// The heads, as Python sees them.
#include "bindings.hpp"
#include "embedding.hpp"
#include "head_scores.hpp"
#include "head_trainer.hpp"

namespace labelprism {
namespace {

Loss loss_of(const std::string& name) {
  require(name == "softmax" || name == "logistic", "loss: 'softmax' or 'logistic'");
  return name == "softmax" ? Loss::kSoftmax : Loss::kLogistic;
}

Visits checked_visits(const Vector<std::int64_t>& offsets, const Vector<std::int32_t>& leaves, std::int64_t n_rows,
                      std::int64_t n_leaves) {
  require(offsets.size() == leaves.size() + 1, "offsets must have one number more than there are leaves");
  require(offsets.data()[0] == 0 && offsets.data()[leaves.size()] == n_rows, "offsets must go from 0 to the rows");
  for (std::size_t v = 0; v < leaves.size(); ++v) {
    require(offsets.data()[v] <= offsets.data()[v + 1], "offsets must not descend");
    require(leaves.data()[v] >= 0 && leaves.data()[v] < n_leaves, "a leaf is out of range");
  }
  return {offsets.data(), leaves.data(), static_cast<std::int64_t>(leaves.size())};
}

HeadStep checked_step(float rate, float momentum, std::int64_t batch_size, float group_penalty) {
  require(momentum >= 0 && momentum < 1, "momentum must be at least 0 and below 1");
  // Ends of batches are sums of numbers of rows and this.
  require(batch_size >= 1 && batch_size <= INT32_MAX, "batch_size must be at least 1 and at most 2147483647");
  return {{rate, momentum}, batch_size, group_penalty};
}

NewArray<float> weights_of(const std::vector<Scalar>& scalars) {
  float* out;
  NewArray<float> result = new_array({scalars.size()}, &out);
  for (std::size_t i = 0; i < scalars.size(); ++i) out[i] = scalars[i].weight;
  return result;
}

void set_weights(std::vector<Scalar>& scalars, const Vector<float>& values) {
  require(values.size() == scalars.size(), "there must be a value for every parameter");
  for (std::size_t i = 0; i < scalars.size(); ++i) scalars[i].weight = values.data()[i];
}

template <class Table>
NewArray<float> copied(const Table& table) {
  float* out;
  NewArray<float> result =
      new_array({static_cast<std::size_t>(table.n_units()), static_cast<std::size_t>(table.width())}, &out);
  for (std::int64_t unit = 0; unit < table.n_units(); ++unit) table.copy(unit, out + unit * table.width());
  return result;
}

using CsrArrays = std::tuple<NewArray<std::int64_t>, NewArray<std::int32_t>, NewArray<float>>;

// The weights that are not zero, sorted by feature; those of a unit are freed as soon as they are copied, if asked.
CsrArrays compressed(TouchedPairs& table, bool take_away) {
  GrowingCsr matrix;
  {
    const nb::gil_scoped_release release;
    matrix.indptr.push(0);
    std::vector<std::pair<std::int32_t, float>> entries;
    for (std::int64_t unit = 0; unit < table.n_units(); ++unit) {
      entries.clear();
      table.each(unit, [&](std::int32_t feature, float weight) {
        if (weight != 0) entries.emplace_back(feature, weight);
      });
      std::sort(entries.begin(), entries.end());
      for (const auto& [feature, weight] : entries) matrix.push(feature, weight);
      matrix.end_row();
      if (take_away) table.clear(unit);
    }
  }
  return take(matrix);
}

// Lets the first units of a table begin with the rows of a matrix.
template <class Table>
void start(Table& table, const Matrix<float>& weights) {
  require(static_cast<std::int64_t>(weights.shape(0)) <= table.n_units() &&
              (weights.shape(0) == 0 || static_cast<std::int64_t>(weights.shape(1)) == table.width()),
          "there are too many weights to begin with, or they are of the wrong width");
  for (std::size_t unit = 0; unit < weights.shape(0); ++unit) {
    table.start(static_cast<std::int64_t>(unit), weights.data() + unit * weights.shape(1));
  }
}

void start(TouchedPairs& table, const Vector<std::int64_t>& indptr, const Vector<std::int32_t>& indices,
           const Vector<float>& data) {
  const CsrView weights = checked_csr(indptr, indices, data, table.width());
  require(weights.n_rows <= table.n_units(), "there are too many weights to begin with");
  for (std::int64_t unit = 0; unit < weights.n_rows; ++unit) {
    const std::int64_t first = weights.indptr[unit];
    table.start(unit, {weights.indices + first, weights.data + first, weights.indptr[unit + 1] - first});
  }
}

// What all trainers have in common.
template <class Trainer, class Class>
void bind_biases(Class& bound) {
  bound
      .def_prop_rw(
          "label_bias", [](Trainer& self) { return weights_of(self.label_bias()); },
          [](Trainer& self, Vector<float> values) { set_weights(self.label_bias(), values); },
          nb::for_getter(nb::rv_policy::move))
      .def_prop_rw(
          "slot_bias", [](Trainer& self) { return weights_of(self.slot_bias()); },
          [](Trainer& self, Vector<float> values) { set_weights(self.slot_bias(), values); },
          nb::for_getter(nb::rv_policy::move))
      .def_prop_rw(
          "codes", [](Trainer& self) { return weights_of(self.codes()); },
          [](Trainer& self, Vector<float> values) { set_weights(self.codes(), values); },
          nb::for_getter(nb::rv_policy::move));
}

template <class Table>
class SparseTrainer : public HeadTrainer<Table> {
 public:
  SparseTrainer(const CsrView& candidates, Loss loss, const HeadTerms& terms, std::int64_t n_features)
      : HeadTrainer<Table>(candidates, loss, terms, n_features,
                           Table(terms.label_weights ? candidates.n_columns : 0, n_features * (terms.n_codes + 1)),
                           Table(terms.slot_weights ? candidates.indptr[candidates.n_rows] : 0, n_features)),
        n_features_(n_features),
        n_units_(this->labels().n_units()) {}

  std::int64_t n_features() const { return n_features_; }
  // A table that was taken away has no units left.
  bool has_weights() { return this->labels().n_units() == n_units_; }

 private:
  std::int64_t n_features_;  // a row of weights is wider where there are codes
  std::int64_t n_units_;
};

class DenseTrainer : public HeadTrainer<DenseWeights> {
 public:
  DenseTrainer(const CsrView& candidates, Loss loss, const HeadTerms& terms, std::int64_t width)
      : HeadTrainer<DenseWeights>(
            candidates, loss, terms, width,
            DenseWeights(terms.label_weights ? candidates.n_columns : 0, width * (terms.n_codes + 1), width),
            DenseWeights(terms.slot_weights ? candidates.indptr[candidates.n_rows] : 0, width, width)),
        width_(width) {}

  std::int64_t width() const { return width_; }
  std::optional<Embedding> embedding;

 private:
  std::int64_t width_;
};

HeadTerms checked_terms(bool label_weights, bool slot_bias, bool slot_weights, std::int64_t n_codes) {
  require(n_codes >= 0 && n_codes <= 1024, "n_codes: 0 to 1024");
  require(n_codes == 0 || label_weights, "codes need weights of labels");
  return {label_weights, slot_bias, slot_weights, n_codes};
}

template <class Table>
void bind_sparse_trainer(nb::class_<SparseTrainer<Table>>& bound) {
  using Trainer = SparseTrainer<Table>;
  bound
      .def(
          "__init__",
          [](Trainer* self, Vector<std::int64_t> indptr, Vector<std::int32_t> indices, std::int64_t n_labels,
             std::int64_t n_features, const std::string& loss, bool label_weights, bool slot_bias, bool slot_weights,
             std::int64_t n_codes) {
            const CsrView candidates = checked_labels(indptr, indices, n_labels);
            require_sorted(candidates);
            const HeadTerms terms = checked_terms(label_weights, slot_bias, slot_weights, n_codes);
            require(n_features >= 0 && n_features <= INT32_MAX / (n_codes + 1), "there are too many features");
            new (self) Trainer(candidates, loss_of(loss), terms, n_features);
          },
          array("indptr"), array("indices"), "n_labels"_a, "n_features"_a, "loss"_a, "label_weights"_a, "slot_bias"_a,
          "slot_weights"_a, "n_codes"_a)
      .def(
          "train",
          [](Trainer& self, Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data,
             std::int64_t n_features, Vector<std::int64_t> label_indptr, Vector<std::int32_t> labels,
             Vector<std::int64_t> offsets, Vector<std::int32_t> leaves, float rate, float momentum,
             std::int64_t batch_size, float group_penalty, int n_threads) {
            const CsrView X = checked_csr(indptr, indices, data, n_features);
            const CsrView Y = checked_labels(label_indptr, labels, self.candidates().n_columns);
            require(n_features <= self.n_features(), "X has more features than the head has weights");
            require(self.has_weights(), "the weights were taken away");
            require(X.n_rows == Y.n_rows, "X and Y must have the same number of rows");
            const Visits visits = checked_visits(offsets, leaves, X.n_rows, self.candidates().n_rows);
            const HeadStep step = checked_step(rate, momentum, batch_size, group_penalty);
            const nb::gil_scoped_release release;
            PlainSparse source(X);
            return self.train(source, Y, visits, step, n_threads);
          },
          array("indptr"), array("indices"), array("data"), "n_features"_a, array("label_indptr"), array("labels"),
          array("offsets"), array("leaves"), "rate"_a, "momentum"_a, "batch_size"_a, "group_penalty"_a,
          "n_threads"_a = 1, "One pass over rows that are grouped by leaf; returns the sum of their losses.");
  bind_biases<Trainer>(bound);
}

void bind_trainers(nb::module_& m) {
  nb::class_<SparseTrainer<DensePairs>> dense(m, "TableTrainer", "Trains a head with a weight for every feature.");
  bind_sparse_trainer<DensePairs>(dense);
  dense.def("weights", [](SparseTrainer<DensePairs>& self) { return copied(self.labels()); })
      .def(
          "take_weights",
          [](SparseTrainer<DensePairs>& self) {
            const auto n_units = static_cast<std::size_t>(self.labels().n_units());
            float* data = self.labels().release();
            nb::capsule owner(data, [](void* p) noexcept { std::free(p); });
            return NewArray<float>(data, {n_units, static_cast<std::size_t>(self.labels().width())}, owner);
          },
          "The weights of the labels, without a copy; the trainer has none then.")
      .def(
          "start", [](SparseTrainer<DensePairs>& self, Matrix<float> weights) { start(self.labels(), weights); },
          array("weights"), "Let the first labels begin with weights.");

  nb::class_<SparseTrainer<TouchedPairs>> touched(m, "TouchedTrainer", "Trains a head with weights where needed.");
  bind_sparse_trainer<TouchedPairs>(touched);
  touched.def("weights", [](SparseTrainer<TouchedPairs>& self) { return compressed(self.labels(), false); })
      .def("slot_weights", [](SparseTrainer<TouchedPairs>& self) { return compressed(self.slots(), false); })
      .def("take_weights", [](SparseTrainer<TouchedPairs>& self) { return compressed(self.labels(), true); })
      .def("take_slot_weights", [](SparseTrainer<TouchedPairs>& self) { return compressed(self.slots(), true); })
      .def(
          "start",
          [](SparseTrainer<TouchedPairs>& self, Vector<std::int64_t> indptr, Vector<std::int32_t> indices,
             Vector<float> data) { start(self.labels(), indptr, indices, data); },
          array("indptr"), array("indices"), array("data"), "Let the first labels begin with weights, given as CSR.")
      .def(
          "start_slots",
          [](SparseTrainer<TouchedPairs>& self, Vector<std::int64_t> indptr, Vector<std::int32_t> indices,
             Vector<float> data) { start(self.slots(), indptr, indices, data); },
          array("indptr"), array("indices"), array("data"), "Let the first candidates begin with weights.");
}

void bind_dense_trainer(nb::module_& m) {
  nb::class_<DenseTrainer> bound(m, "DenseTrainer", "Trains a head on dense rows, or on an embedding of sparse ones.");
  bound
      .def(
          "__init__",
          [](DenseTrainer* self, Vector<std::int64_t> indptr, Vector<std::int32_t> indices, std::int64_t n_labels,
             std::int64_t width, const std::string& loss, bool label_weights, bool slot_bias, bool slot_weights,
             std::int64_t n_codes) {
            const CsrView candidates = checked_labels(indptr, indices, n_labels);
            require_sorted(candidates);
            const HeadTerms terms = checked_terms(label_weights, slot_bias, slot_weights, n_codes);
            require(width >= 0 && width % 8 == 0 && width <= INT32_MAX / (n_codes + 1), "width: a multiple of 8");
            new (self) DenseTrainer(candidates, loss_of(loss), terms, width);
          },
          array("indptr"), array("indices"), "n_labels"_a, "width"_a, "loss"_a, "label_weights"_a, "slot_bias"_a,
          "slot_weights"_a, "n_codes"_a)
      .def(
          "train",
          [](DenseTrainer& self, Matrix<float> X, Vector<std::int64_t> label_indptr, Vector<std::int32_t> labels,
             Vector<std::int64_t> offsets, Vector<std::int32_t> leaves, float rate, float momentum,
             std::int64_t batch_size, float group_penalty, int n_threads) {
            const DenseView rows = checked_dense(X);
            require(rows.n_columns == self.width(), "X must have as many columns as the head is wide");
            const CsrView Y = checked_labels(label_indptr, labels, self.candidates().n_columns);
            require(rows.n_rows == Y.n_rows, "X and Y must have the same number of rows");
            const Visits visits = checked_visits(offsets, leaves, rows.n_rows, self.candidates().n_rows);
            const HeadStep step = checked_step(rate, momentum, batch_size, group_penalty);
            const nb::gil_scoped_release release;
            PlainDense source(rows);
            return self.train(source, Y, visits, step, n_threads);
          },
          array("X"), array("label_indptr"), array("labels"), array("offsets"), array("leaves"), "rate"_a, "momentum"_a,
          "batch_size"_a, "group_penalty"_a, "n_threads"_a = 1)
      .def(
          "set_embedding",
          [](DenseTrainer& self, Matrix<float> initial) {
            require(static_cast<std::int64_t>(initial.shape(1)) == self.width(), "the embedding must be as wide");
            self.embedding.emplace(static_cast<std::int64_t>(initial.shape(0)), self.width(), initial.data());
          },
          array("initial"))
      .def(
          "train_embedded",
          [](DenseTrainer& self, Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data,
             Vector<std::int64_t> label_indptr, Vector<std::int32_t> labels, Vector<std::int64_t> offsets,
             Vector<std::int32_t> leaves, float rate, float momentum, std::int64_t batch_size, float group_penalty,
             int n_threads) {
            require(self.embedding.has_value(), "there is no embedding yet");
            const CsrView X = checked_csr(indptr, indices, data, self.embedding->n_features());
            const CsrView Y = checked_labels(label_indptr, labels, self.candidates().n_columns);
            require(X.n_rows == Y.n_rows, "X and Y must have the same number of rows");
            const Visits visits = checked_visits(offsets, leaves, X.n_rows, self.candidates().n_rows);
            const HeadStep step = checked_step(rate, momentum, batch_size, group_penalty);
            const nb::gil_scoped_release release;
            Embedded source(X, *self.embedding);
            return self.train(source, Y, visits, step, n_threads);
          },
          array("indptr"), array("indices"), array("data"), array("label_indptr"), array("labels"), array("offsets"),
          array("leaves"), "rate"_a, "momentum"_a, "batch_size"_a, "group_penalty"_a, "n_threads"_a = 1)
      .def(
          "start", [](DenseTrainer& self, Matrix<float> weights) { start(self.labels(), weights); }, array("weights"),
          "Let the first labels begin with weights.")
      .def(
          "start_slots", [](DenseTrainer& self, Matrix<float> weights) { start(self.slots(), weights); },
          array("weights"), "Let the first candidates begin with weights.")
      .def("weights", [](DenseTrainer& self) { return copied(self.labels()); })
      .def("slot_weights", [](DenseTrainer& self) { return copied(self.slots()); })
      .def("embedding", [](DenseTrainer& self) {
        require(self.embedding.has_value(), "there is no embedding yet");
        float* out;
        NewArray<float> result = new_array(
            {static_cast<std::size_t>(self.embedding->n_features()), static_cast<std::size_t>(self.embedding->width())},
            &out);
        std::copy(self.embedding->weights().begin(), self.embedding->weights().end(), out);
        return result;
      });
  bind_biases<DenseTrainer>(bound);
}

}  // namespace

void bind_heads(nb::module_& m) {
  bind_trainers(m);
  bind_dense_trainer(m);
}

}  // namespace labelprism
