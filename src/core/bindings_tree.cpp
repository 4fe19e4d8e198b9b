// The kernels of the tree, as Python sees them.
#include "bindings.hpp"
#include "spectral_node.hpp"
#include "tree_kernels.hpp"

namespace labelprism {
namespace {

NodeGroups checked_groups(const Vector<std::int32_t>& rows, const float* weight, std::size_t n_weights,
                          const Vector<std::int64_t>& offsets, std::int64_t n_rows) {
  require(offsets.size() > 0 && offsets.data()[0] == 0, "offsets must begin with 0");
  const std::int64_t n_nodes = static_cast<std::int64_t>(offsets.size()) - 1;
  for (std::int64_t i = 0; i < n_nodes; ++i) {
    require(offsets.data()[i] <= offsets.data()[i + 1], "offsets must not descend");
  }
  require(offsets.data()[n_nodes] == static_cast<std::int64_t>(rows.size()),
          "offsets must end with the number of rows");
  require(weight == nullptr || n_weights == rows.size(), "there must be a weight for every row");
  bool inside = true;
  for (std::size_t i = 0; i < rows.size(); ++i) inside &= rows.data()[i] >= 0 && rows.data()[i] < n_rows;
  require(inside, "a row is out of range");
  return {rows.data(), weight, offsets.data(), n_nodes};
}

// What solve_nodes returns: eigenvalue, mass and bias of every node, the routers as CSR, the margin of every example.
using Solution = std::tuple<NewArray<double>, NewArray<double>, NewArray<float>, NewArray<std::int64_t>,
                            NewArray<std::int32_t>, NewArray<float>, NewArray<float>>;

template <class Matrix>
Solution solved(const Matrix& X, const CsrView& Y, const NodeGroups& groups, const Vector<std::int64_t>& node_ids,
                const SpectralSettings& settings, int n_threads) {
  require(X.n_rows == Y.n_rows, "X and Y must have the same number of rows");
  require(static_cast<std::int64_t>(node_ids.size()) == groups.n_nodes, "node_ids must have a number for every node");
  require(settings.n_blocks >= 1 && settings.n_blocks <= 32, "n_blocks: 1 to 32");
  const auto n_nodes = static_cast<std::size_t>(groups.n_nodes);
  double *eigenvalue, *mass;
  float *bias, *margin;
  NewArray<double> eigenvalues = new_array({n_nodes}, &eigenvalue), masses = new_array({n_nodes}, &mass);
  NewArray<float> biases = new_array({n_nodes}, &bias);
  NewArray<float> margins = new_array({static_cast<std::size_t>(groups.offsets[groups.n_nodes])}, &margin);
  GrowingCsr routers;
  {
    const nb::gil_scoped_release release;
    std::vector<Router> found = solve_nodes(X, Y, groups, node_ids.data(), settings, n_threads, margin);
    routers.indptr.push(0);
    for (std::size_t i = 0; i < n_nodes; ++i) {
      eigenvalue[i] = found[i].eigenvalue;
      mass[i] = found[i].mass;
      bias[i] = found[i].bias;
      routers.indices.append(found[i].features.data(), found[i].features.size());
      routers.data.append(found[i].weights.data(), found[i].weights.size());
      routers.end_row();
      found[i] = Router();  // routers of a large tree are many; none is held twice
    }
  }
  return {eigenvalues, masses, biases, take(routers.indptr), take(routers.indices), take(routers.data), margins};
}

template <class Matrix>
NewArray<float> margins_of(const Matrix& X, const CsrView& routers, const NodeGroups& groups,
                           const Vector<std::int64_t>& nodes, int n_threads) {
  require(static_cast<std::int64_t>(nodes.size()) == groups.n_nodes, "nodes must have a number for every group");
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    require(nodes.data()[i] >= 0 && nodes.data()[i] < routers.n_rows, "a node is out of range");
  }
  float* margin;
  NewArray<float> margins = new_array({static_cast<std::size_t>(groups.offsets[groups.n_nodes])}, &margin);
  {
    const nb::gil_scoped_release release;
    router_margins(X, routers, groups, nodes.data(), n_threads, margin);
  }
  return margins;
}

void bind_tree_kernels(nb::module_& m) {
  nb::class_<SpectralSettings>(m, "SpectralSettings", "How the eigenvalue problem of a node is solved.")
      .def(
          "__init__",
          [](SpectralSettings* self, int n_blocks, int cg_iterations, bool one_label, float drop, std::uint64_t seed) {
            new (self) SpectralSettings{n_blocks, cg_iterations, one_label, drop, seed};
          },
          "n_blocks"_a, "cg_iterations"_a, "one_label"_a, "drop"_a, "seed"_a);
  m.def(
      "solve_nodes_csr",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, std::int64_t n_features,
         Vector<std::int64_t> label_indptr, Vector<std::int32_t> labels, std::int64_t n_labels,
         Vector<std::int32_t> rows, Vector<float> weight, Vector<std::int64_t> offsets, Vector<std::int64_t> node_ids,
         const SpectralSettings& settings, int n_threads) {
        const CsrView X = checked_csr(indptr, indices, data, n_features);
        const CsrView Y = checked_labels(label_indptr, labels, n_labels);
        return solved(X, Y, checked_groups(rows, weight.data(), weight.size(), offsets, X.n_rows), node_ids, settings,
                      n_threads);
      },
      array("indptr"), array("indices"), array("data"), "n_features"_a, array("label_indptr"), array("labels"),
      "n_labels"_a, array("rows"), array("weight"), array("offsets"), array("node_ids"), "settings"_a,
      "n_threads"_a = 1, "Solve the eigenvalue problems of several nodes; X is sparse.");
  m.def(
      "solve_nodes_dense",
      [](Matrix<float> X, Vector<std::int64_t> label_indptr, Vector<std::int32_t> labels, std::int64_t n_labels,
         Vector<std::int32_t> rows, Vector<float> weight, Vector<std::int64_t> offsets, Vector<std::int64_t> node_ids,
         const SpectralSettings& settings, int n_threads) {
        const DenseView view = checked_dense(X);
        const CsrView Y = checked_labels(label_indptr, labels, n_labels);
        return solved(view, Y, checked_groups(rows, weight.data(), weight.size(), offsets, view.n_rows), node_ids,
                      settings, n_threads);
      },
      array("X"), array("label_indptr"), array("labels"), "n_labels"_a, array("rows"), array("weight"),
      array("offsets"), array("node_ids"), "settings"_a, "n_threads"_a = 1,
      "Solve the eigenvalue problems of several nodes; X is dense.");
  m.def(
      "label_counts",
      [](Vector<std::int64_t> label_indptr, Vector<std::int32_t> labels, std::int64_t n_labels,
         Vector<std::int32_t> rows, Vector<float> weight, Vector<std::int64_t> offsets, int n_threads) {
        const CsrView Y = checked_labels(label_indptr, labels, n_labels);
        const NodeGroups groups = checked_groups(rows, weight.data(), weight.size(), offsets, Y.n_rows);
        GrowingCsr counts;
        {
          const nb::gil_scoped_release release;
          label_counts(Y, groups, n_threads, counts);
        }
        return take(counts);
      },
      array("label_indptr"), array("labels"), "n_labels"_a, array("rows"), array("weight"), array("offsets"),
      "n_threads"_a = 1, "The weighted label counts of several nodes: the arrays of a CSR matrix.");
  m.def(
      "router_margins_csr",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, std::int64_t n_features,
         Vector<std::int64_t> router_indptr, Vector<std::int32_t> router_indices, Vector<float> router_data,
         Vector<std::int32_t> rows, Vector<std::int64_t> offsets, Vector<std::int64_t> nodes, int n_threads) {
        const CsrView X = checked_csr(indptr, indices, data, n_features);
        const CsrView routers = checked_csr(router_indptr, router_indices, router_data, n_features);
        return margins_of(X, routers, checked_groups(rows, nullptr, 0, offsets, X.n_rows), nodes, n_threads);
      },
      array("indptr"), array("indices"), array("data"), "n_features"_a, array("router_indptr"), array("router_indices"),
      array("router_data"), array("rows"), array("offsets"), array("nodes"), "n_threads"_a = 1,
      "The margin of every row at the router of its group.");
  m.def(
      "router_margins_dense",
      [](Matrix<float> X, Vector<std::int64_t> router_indptr, Vector<std::int32_t> router_indices,
         Vector<float> router_data, Vector<std::int32_t> rows, Vector<std::int64_t> offsets, Vector<std::int64_t> nodes,
         int n_threads) {
        const DenseView view = checked_dense(X);
        const CsrView routers = checked_csr(router_indptr, router_indices, router_data, view.n_columns);
        return margins_of(view, routers, checked_groups(rows, nullptr, 0, offsets, view.n_rows), nodes, n_threads);
      },
      array("X"), array("router_indptr"), array("router_indices"), array("router_data"), array("rows"),
      array("offsets"), array("nodes"), "n_threads"_a = 1,
      "The margin of every row at the router of its group; X is dense.");
  m.def(
      "median_split",
      [](Vector<float> values, Vector<float> weights) {
        require(values.size() == weights.size() && values.size() > 0, "values and weights: as many, and at least one");
        return median_split(values.data(), weights.data(), static_cast<std::int64_t>(values.size()));
      },
      array("values"), array("weights"), "A number that splits the values at their weighted median.");
  m.def(
      "weighted_median",
      [](Vector<float> values, Vector<float> weights) {
        require(values.size() == weights.size() && values.size() > 0, "values and weights: as many, and at least one");
        return weighted_median(values.data(), weights.data(), static_cast<std::int64_t>(values.size()));
      },
      array("values"), array("weights"), "The smallest value at which the weights up to it reach half of the total.");
}

}  // namespace

void bind_tree(nb::module_& m) { bind_tree_kernels(m); }

}  // namespace labelprism
