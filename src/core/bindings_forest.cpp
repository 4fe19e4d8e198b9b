// The forest in use, as Python sees it.
#include "bindings.hpp"
#include "forest_scores.hpp"

namespace labelprism {
namespace {

// Children come after their parents, so that no forged forest can send an example in circles.
void check_nodes(const Vector<std::int32_t>& child, std::int64_t n_trees) {
  const auto n_nodes = static_cast<std::int64_t>(child.size());
  require(1 <= n_trees && n_trees <= n_nodes, "there must be at least one tree, and a node for each");
  for (std::int64_t i = 0; i < n_nodes; ++i) {
    const std::int64_t left = child.data()[i];
    require(left < 0 || (left > i && left >= n_trees && left + 1 < n_nodes), "a child is out of range");
  }
}

}  // namespace

void bind_forest(nb::module_& m) {
  nb::class_<ForestScorer>(m, "ForestScorer", "A forest laid out for scoring; see forest_scores.hpp.")
      .def(
          "__init__",
          [](ForestScorer* self, std::int64_t n_trees, Vector<std::int32_t> child, Vector<float> bias,
             Vector<float> noise, Vector<std::int64_t> router_indptr, Vector<std::int32_t> router_indices,
             Vector<float> router_data, std::int64_t n_features, Vector<std::int64_t> leaf_indptr,
             Vector<std::int32_t> leaf_labels, Vector<float> leaf_shares, std::int64_t n_labels, int n_threads) {
            check_nodes(child, n_trees);
            require(bias.size() == child.size() && noise.size() == child.size(),
                    "child, bias and noise must be of the same length");
            const CsrView routers = checked_csr(router_indptr, router_indices, router_data, n_features);
            const CsrView leaves = checked_csr(leaf_indptr, leaf_labels, leaf_shares, n_labels);
            require(routers.n_rows == static_cast<std::int64_t>(child.size()) && leaves.n_rows == routers.n_rows,
                    "routers and leaves must have a row for every node");
            require(all_finite(bias) && all_finite(noise) && all_finite(router_data), "a router holds NaN or infinity");
            require(all_within(leaf_shares, 0.0f, 1.0f), "the shares of labels in leaves must be from 0 to 1");
            const nb::gil_scoped_release release;
            const ForestView view{static_cast<int>(n_trees), child.data(), bias.data(), noise.data(), routers, leaves};
            new (self) ForestScorer(forest_tables(view, n_threads));
          },
          "n_trees"_a, array("child"), array("bias"), array("noise"), array("router_indptr"), array("router_indices"),
          array("router_data"), "n_features"_a, array("leaf_indptr"), array("leaf_labels"), array("leaf_shares"),
          "n_labels"_a, "n_threads"_a = 1)
      .def_static(
          "from_tables",
          [](std::int64_t n_trees, std::int64_t n_features, std::int64_t n_labels, Matrix<std::int32_t> blocks,
             Matrix<std::int64_t> tables, Matrix<std::int32_t> buckets, Vector<std::int8_t> dense,
             Vector<std::int64_t> leaf_begin, Vector<std::int32_t> leaf_label, Vector<std::uint16_t> leaf_share) {
            require(1 <= n_trees && n_trees <= 1000 && 0 <= n_features && n_features <= INT32_MAX && 0 <= n_labels &&
                        n_labels <= INT32_MAX,
                    "n_trees, n_features or n_labels is out of range");
            ForestTables forest;
            forest.n_trees = static_cast<int>(n_trees);
            forest.n_features = n_features;
            forest.n_labels = n_labels;
            forest.blocks = stored<RouterBlock>(blocks);
            forest.tables = stored<RouterTable>(tables);
            forest.buckets = stored<RouterBucket>(buckets);
            forest.dense = stored<std::int8_t>(dense);
            forest.leaf_begin = stored<std::int64_t>(leaf_begin);
            forest.leaf_label = stored<std::int32_t>(leaf_label);
            forest.leaf_share = stored<std::uint16_t>(leaf_share);
            check_tables(forest);
            return new ForestScorer(std::move(forest));  // Python takes it
          },
          nb::keep_alive<0, 4>(), nb::keep_alive<0, 5>(), nb::keep_alive<0, 6>(), nb::keep_alive<0, 7>(),
          nb::keep_alive<0, 8>(), nb::keep_alive<0, 9>(), nb::keep_alive<0, 10>(), "n_trees"_a, "n_features"_a,
          "n_labels"_a, array("blocks"), array("tables"), array("buckets"), array("dense"), array("leaf_begin"),
          array("leaf_label"), array("leaf_share"), "The forest that `tables` described; arrays are used, not copied.")
      .def(
          "tables",
          [](const ForestScorer& self) {
            const nb::object owner = nb::find(self);
            const ForestTables& forest = self.tables();
            nb::dict arrays;
            arrays["blocks"] = view_of<std::int32_t>(forest.blocks, owner);
            arrays["tables"] = view_of<std::int64_t>(forest.tables, owner);
            arrays["buckets"] = view_of<std::int32_t>(forest.buckets, owner);
            arrays["dense"] = view_of<std::int8_t>(forest.dense, owner);
            arrays["leaf_begin"] = view_of<std::int64_t>(forest.leaf_begin, owner);
            arrays["leaf_label"] = view_of<std::int32_t>(forest.leaf_label, owner);
            arrays["leaf_share"] = view_of<std::uint16_t>(forest.leaf_share, owner);
            return arrays;
          },
          "The arrays of the forest, as views; see forest_tables.hpp.")
      .def(
          "routers",
          [](const ForestScorer& self) {
            GrowingCsr weights;
            {
              const nb::gil_scoped_release release;
              router_weights(self.tables(), weights);
            }
            return take(weights);
          },
          "The weights of all routers as CSR; node i of block b is row 7 b + i.")
      .def(
          "candidates",
          [](const ForestScorer& self, Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data,
             std::int64_t k, float smallest, float noise_scale, int n_threads) {
            require(k >= 1, "k must be at least 1");
            const CsrView X = checked_csr(indptr, indices, data, self.n_features());
            GrowingCsr candidates;
            {
              const nb::gil_scoped_release release;
              forest_candidates(self, X, k, {smallest, noise_scale}, n_threads, candidates);
            }
            return take(candidates);
          },
          array("indptr"), array("indices"), array("data"), "k"_a, "smallest"_a, "noise_scale"_a = 1.0f,
          "n_threads"_a = 1,
          "The k most probable labels of every row, with the logarithms of their probabilities, as CSR.")
      .def(
          "leaf_probabilities",
          [](const ForestScorer& self, Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data,
             float smallest, float noise_scale, int n_threads) {
            const CsrView X = checked_csr(indptr, indices, data, self.n_features());
            GrowingCsr leaves;
            {
              const nb::gil_scoped_release release;
              forest_leaves(self, X, {smallest, noise_scale}, n_threads, leaves);
            }
            return take(leaves);
          },
          array("indptr"), array("indices"), array("data"), "smallest"_a, "noise_scale"_a = 1.0f, "n_threads"_a = 1,
          "The probability of every leaf that a row reaches in each tree, as CSR, leaves not sorted.");
}

}  // namespace labelprism
