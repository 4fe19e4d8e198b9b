// The forest in the making, as Python sees it.
#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include "bindings.hpp"
#include "forest_growth.hpp"

namespace labelprism {
namespace {

// A forest: child, bias and noise of every node, the routers and the leaves as CSR, the mass of leaves.
using ForestArrays =
    std::tuple<NewArray<std::int32_t>, NewArray<float>, NewArray<float>, NewArray<std::int64_t>, NewArray<std::int32_t>,
               NewArray<float>, NewArray<std::int64_t>, NewArray<std::int32_t>, NewArray<float>, NewArray<float>>;
using GivenForest =
    std::tuple<Vector<std::int32_t>, Vector<float>, Vector<float>, Vector<std::int64_t>, Vector<std::int32_t>,
               Vector<float>, Vector<std::int64_t>, Vector<std::int32_t>, Vector<float>, Vector<float>>;
// Nodes: their keys, and where the members of each begin and end among rows and weights.
using NodeArrays = std::tuple<NewArray<std::uint64_t>, NewArray<std::int64_t>, NewArray<std::int32_t>, NewArray<float>>;

// A forest that is growing, and what its rows must look like.
struct BoundGrower {
  ForestGrower grower;
  std::int64_t n_features, n_labels;
  std::int64_t n_rows_needed;  // above the largest row of all nodes

  template <class Matrix>
  void step(const Matrix& X, const CsrView& Y, const Vector<std::int64_t>& row_ids, int n_threads, Counter* counter) {
    require(X.n_rows == Y.n_rows, "X and Y must have the same number of rows");
    require(X.n_rows <= INT32_MAX, "there must be at most 2147483647 rows");
    require(X.n_columns == n_features, "X must have the features that the forest was begun with");
    require(n_rows_needed <= X.n_rows, "a node has a row that X does not have");
    require(row_ids.size() == 0 || static_cast<std::int64_t>(row_ids.size()) == X.n_rows,
            "there must be a number for every row, or none at all");
    const nb::gil_scoped_release release;
    grower.step(X, Y, row_ids.size() ? row_ids.data() : nullptr, n_threads, counter);
  }
};

void check_growth(const ForestSettings& settings) {
  require(settings.n_trees >= 1, "there must be at least one tree");
  require(settings.stop_labels >= 1, "stop_labels must be at least 1");
  require(settings.spectral.n_blocks >= 1 && settings.spectral.n_blocks <= 32, "n_blocks: 1 to 32");
  require(settings.spectral_rows >= 1 && settings.router_rows >= 1, "routers need at least one row to learn from");
}

GrowingNodes given_nodes(const Vector<std::uint64_t>& keys, const Vector<std::int64_t>& indptr,
                         const Vector<std::int32_t>& rows, const Vector<float>& weight) {
  require(keys.size() + 1 == indptr.size(), "there must be a key for every node");
  require(weight.size() == rows.size(), "there must be a weight for every member");
  checked_labels(indptr, rows, INT32_MAX);
  checked_weights(weight, static_cast<std::int64_t>(rows.size()));
  GrowingNodes nodes;
  nodes.keys.assign(keys.data(), keys.data() + keys.size());
  nodes.indptr.assign(indptr.data(), indptr.data() + indptr.size());
  nodes.rows.assign(rows.data(), rows.data() + rows.size());
  nodes.weight.assign(weight.data(), weight.data() + weight.size());
  return nodes;
}

// The forest that was there before; its nodes must be as many in every array.
void fill(const GivenForest& given, std::int64_t n_features, std::int64_t n_labels, Forest& forest) {
  const auto& [child, bias, noise, router_indptr, router_indices, router_data, leaf_indptr, leaf_labels, leaf_shares,
               mass] = given;
  const CsrView routers = checked_csr(router_indptr, router_indices, router_data, n_features);
  const CsrView leaves = checked_csr(leaf_indptr, leaf_labels, leaf_shares, n_labels);
  const auto n_nodes = static_cast<std::int64_t>(child.size());
  require(routers.n_rows == n_nodes && leaves.n_rows == n_nodes && bias.size() == child.size() &&
              noise.size() == child.size() && mass.size() == child.size(),
          "all arrays of the forest must have the same nodes");
  forest.child.append(child.data(), child.size());
  forest.bias.append(bias.data(), bias.size());
  forest.noise.append(noise.data(), noise.size());
  forest.mass.append(mass.data(), mass.size());
  for (const auto& [view, matrix] : {std::pair(&routers, &forest.routers), std::pair(&leaves, &forest.leaves)}) {
    matrix->indptr.append(view->indptr, static_cast<std::size_t>(n_nodes) + 1);
    matrix->indices.append(view->indices, static_cast<std::size_t>(view->indptr[n_nodes]));
    matrix->data.append(view->data, static_cast<std::size_t>(view->indptr[n_nodes]));
  }
}

template <class Container>
auto copy_of(const Container& values) {
  using T = std::remove_const_t<std::remove_pointer_t<decltype(values.data())>>;
  T* data;
  NewArray<T> copy = new_array({values.size()}, &data);
  std::copy(values.data(), values.data() + values.size(), data);
  return copy;
}

}  // namespace

void bind_growth(nb::module_& m) {
  nb::class_<Counter>(m, "Counter", "How far a long computation has come; may be read while it runs.")
      .def(nb::init<>())
      .def(
          "advance", [](Counter& self, std::int64_t amount) { advance(&self, amount); }, "amount"_a)
      .def_prop_ro("done", [](const Counter& self) { return self.done.load(std::memory_order_relaxed); });
  nb::class_<ForestSettings>(m, "ForestSettings", "How a forest grows; see forest_growth.hpp.")
      .def(
          "__init__",
          [](ForestSettings* self, int n_trees, int max_depth, std::int64_t stop_labels, std::int64_t min_rows,
             double target_recall, double smallest_share, float noise, float growth_noise, bool fractional,
             float prune_below, std::int64_t spectral_rows, std::int64_t router_rows, int min_feature_rows,
             int sketch_steps, float drop_weight, float drop_share, std::uint64_t seed,
             const SpectralSettings& spectral, int refine_rounds, int refine_passes, float refine_cost) {
            new (self) ForestSettings{n_trees,
                                      max_depth,
                                      stop_labels,
                                      min_rows,
                                      target_recall,
                                      smallest_share,
                                      noise,
                                      growth_noise,
                                      fractional,
                                      prune_below,
                                      spectral_rows,
                                      router_rows,
                                      min_feature_rows,
                                      sketch_steps,
                                      drop_weight,
                                      drop_share,
                                      seed,
                                      spectral,
                                      {refine_rounds, refine_passes, refine_cost}};
          },
          nb::kw_only(), "n_trees"_a, "max_depth"_a, "stop_labels"_a, "min_rows"_a, "target_recall"_a,
          "smallest_share"_a, "noise"_a, "growth_noise"_a, "fractional"_a, "prune_below"_a, "spectral_rows"_a,
          "router_rows"_a, "min_feature_rows"_a, "sketch_steps"_a, "drop_weight"_a, "drop_share"_a, "seed"_a,
          "spectral"_a, "refine_rounds"_a, "refine_passes"_a, "refine_cost"_a);
  nb::class_<BoundGrower>(m, "ForestGrower", "A forest between two levels; see forest_growth.hpp.")
      .def(
          "__init__",
          [](BoundGrower* self, const ForestSettings& settings, std::int64_t n_features, std::int64_t n_labels,
             Vector<std::uint64_t> keys, Vector<std::int64_t> indptr, Vector<std::int32_t> rows, Vector<float> weight,
             int depth, const std::optional<GivenForest>& forest) {
            check_growth(settings);
            GrowingNodes nodes = given_nodes(keys, indptr, rows, weight);
            std::int64_t n_rows = 0;
            for (std::size_t i = 0; i < rows.size(); ++i) n_rows = std::max(n_rows, std::int64_t{rows.data()[i]} + 1);
            new (self) BoundGrower{ForestGrower(settings, std::move(nodes), depth), n_features, n_labels, n_rows};
            Forest& grown = self->grower.forest();
            if (forest) {
              fill(*forest, n_features, n_labels, grown);
            } else {
              grown.routers.indptr.push(0);
              grown.leaves.indptr.push(0);
            }
          },
          "settings"_a, "n_features"_a, "n_labels"_a, array("keys"), array("indptr"), array("rows"), array("weight"),
          "depth"_a = 0, "forest"_a = nb::none())
      .def(
          "step_csr",
          [](BoundGrower& self, Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data,
             Vector<std::int64_t> label_indptr, Vector<std::int32_t> labels, Vector<std::int64_t> row_ids,
             int n_threads, Counter* counter) {
            self.step(checked_csr(indptr, indices, data, self.n_features),
                      checked_labels(label_indptr, labels, self.n_labels), row_ids, n_threads, counter);
          },
          array("indptr"), array("indices"), array("data"), array("label_indptr"), array("labels"), array("row_ids"),
          "n_threads"_a = 1, "counter"_a = nb::none(), "Grow one level; X is sparse, row_ids may be empty.")
      .def(
          "step_dense",
          [](BoundGrower& self, Matrix<float> X, Vector<std::int64_t> label_indptr, Vector<std::int32_t> labels,
             Vector<std::int64_t> row_ids, int n_threads, Counter* counter) {
            self.step(checked_dense(X), checked_labels(label_indptr, labels, self.n_labels), row_ids, n_threads,
                      counter);
          },
          array("X"), array("label_indptr"), array("labels"), array("row_ids"), "n_threads"_a = 1,
          "counter"_a = nb::none(), "Grow one level; X is dense, row_ids may be empty.")
      .def_prop_ro("is_done", [](const BoundGrower& self) { return self.grower.is_done(); })
      .def_prop_ro("depth", [](const BoundGrower& self) { return self.grower.depth(); })
      .def(
          "nodes",
          [](const BoundGrower& self) {
            const GrowingNodes& nodes = self.grower.level();
            return NodeArrays{copy_of(nodes.keys), copy_of(nodes.indptr), copy_of(nodes.rows), copy_of(nodes.weight)};
          },
          "The nodes of the next level: keys, where members begin and end, their rows and weights.")
      .def(
          "forest",
          [](BoundGrower& self) {
            const Forest& forest = self.grower.forest();
            return ForestArrays{copy_of(forest.child),           copy_of(forest.bias),
                                copy_of(forest.noise),           copy_of(forest.routers.indptr),
                                copy_of(forest.routers.indices), copy_of(forest.routers.data),
                                copy_of(forest.leaves.indptr),   copy_of(forest.leaves.indices),
                                copy_of(forest.leaves.data),     copy_of(forest.mass)};
          },
          "The arrays of all nodes above the next level.");
  m.def("root_keys", &root_keys, "settings"_a, "The keys of the roots of all trees.");
  m.def("expected_levels", &expected_levels, "n_rows"_a, "settings"_a,
        "About how many levels a tree has; a counter counts the rows of every level and tree.");
  m.def(
      "refined_router",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, std::int64_t n_features,
         Vector<std::int64_t> label_indptr, Vector<std::int32_t> labels, std::int64_t n_labels, Vector<float> weight,
         Vector<float> margins, int rounds, int passes, float cost) {
        const CsrView X = checked_csr(indptr, indices, data, n_features);
        const CsrView Y = checked_labels(label_indptr, labels, n_labels);
        const auto n_rows = static_cast<std::size_t>(X.n_rows);
        require(X.n_rows == Y.n_rows && weight.size() == n_rows && margins.size() == n_rows,
                "X, Y, weight and margins must have as many rows");
        float* values;
        NewArray<float> result = new_array({static_cast<std::size_t>(n_features) + 1}, &values);
        const nb::gil_scoped_release release;
        const std::vector<float> router = refined_router(X, Y, weight.data(), {rounds, passes, cost},
                                                         LargeVector<float>(margins.data(), margins.data() + n_rows));
        std::copy(router.begin(), router.end(), values);
        return result;
      },
      array("indptr"), array("indices"), array("data"), "n_features"_a, array("label_indptr"), array("labels"),
      "n_labels"_a, array("weight"), array("margins"), "rounds"_a, "passes"_a, "cost"_a,
      "The refined router of one node: its weights, and the bias after them.");
}

}  // namespace labelprism
