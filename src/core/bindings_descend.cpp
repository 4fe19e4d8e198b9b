// A tree that examples descend, as Python sees it.
#include "bindings.hpp"
#include "descend.hpp"

namespace labelprism {
namespace {

// Keeps the arrays of a tree alive and checked, so that a single row can descend without checking them again.
class Tree {
 public:
  Tree(Vector<std::int32_t> children, Vector<float> bias, Vector<double> noise, Vector<std::int64_t> indptr,
       Vector<std::int32_t> indices, Vector<float> data, std::int64_t n_features)
      : children_(children), bias_(bias), noise_(noise), indptr_(indptr), indices_(indices), data_(data) {
    const CsrView routers = checked_csr(indptr_, indices_, data_, n_features);
    const std::size_t n_nodes = children_.size();
    require(n_nodes > 0 && bias_.size() == n_nodes && noise_.size() == n_nodes &&
                routers.n_rows == static_cast<std::int64_t>(n_nodes),
            "children, bias, noise and routers must have a row for every node, and at least one");
    for (std::size_t i = 0; i < n_nodes; ++i) {
      const std::int64_t child = children_.data()[i];
      // Children come later than their parents, so that every way ends.
      require(child < 0 || (child > static_cast<std::int64_t>(i) && child + 1 < static_cast<std::int64_t>(n_nodes)),
              "a child is out of range");
    }
    view_ = {static_cast<std::int64_t>(n_nodes), children_.data(), bias_.data(), noise_.data(), routers};
  }

  template <class View>
  NewArray<std::int32_t> descended(const View& X, std::optional<std::uint64_t> seed, int n_threads) const {
    require(X.n_columns == view_.routers.n_columns, "X must have the features of the routers");
    std::int32_t* nodes;
    NewArray<std::int32_t> result = new_array({static_cast<std::size_t>(X.n_rows)}, &nodes);
    {
      const nb::gil_scoped_release release;
      descend(X, view_, seed, n_threads, nodes);
    }
    return result;
  }

 private:
  Vector<std::int32_t> children_;
  Vector<float> bias_;
  Vector<double> noise_;
  Vector<std::int64_t> indptr_;
  Vector<std::int32_t> indices_;
  Vector<float> data_;
  TreeView view_{};
};

}  // namespace

void bind_descend(nb::module_& m) {
  nb::class_<Tree>(m, "Tree", "A tree of routers that examples descend.")
      .def(nb::init<Vector<std::int32_t>, Vector<float>, Vector<double>, Vector<std::int64_t>, Vector<std::int32_t>,
                    Vector<float>, std::int64_t>(),
           array("children"), array("bias"), array("noise"), array("indptr"), array("indices"), array("data"),
           "n_features"_a)
      .def(
          "descend_csr",
          [](const Tree& self, Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data,
             std::int64_t n_features, std::optional<std::uint64_t> seed,
             int n_threads) { return self.descended(checked_csr(indptr, indices, data, n_features), seed, n_threads); },
          array("indptr"), array("indices"), array("data"), "n_features"_a, "seed"_a.none(), "n_threads"_a = 1,
          "The leaf node of every row; with a seed, drawn by chance.")
      .def(
          "descend_dense",
          [](const Tree& self, Matrix<float> X, std::optional<std::uint64_t> seed, int n_threads) {
            return self.descended(checked_dense(X), seed, n_threads);
          },
          array("X"), "seed"_a.none(), "n_threads"_a = 1);
}

}  // namespace labelprism
