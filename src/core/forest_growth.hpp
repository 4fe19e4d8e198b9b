// Growing a forest of refined spectral trees: F of the default recipe.
//
// All trees grow together, level by level, and each level is cut into nodes: what happens in a node depends on its rows
// and its key alone. Rows stay in their order all the way down, so that a level reads the data from front to back. What
// is random is a hash of the node's key and of the number that a row has in the whole data: a subtree grows to the same
// bits wherever it grows, from a copy of its rows.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "buffer.hpp"
#include "counter.hpp"
#include "csr.hpp"
#include "growing_csr.hpp"
#include "node_rows.hpp"
#include "router_refinement.hpp"
#include "spectral_node.hpp"

namespace labelprism {

// Router weights are whole multiples of the largest of their node over this: a byte and a scale hold them.
constexpr int kRouterSteps = 127;

struct ForestSettings {
  int n_trees;
  int max_depth;
  std::int64_t stop_labels;  // a node whose so many heaviest labels hold `target_recall` of its mass is a leaf
  std::int64_t min_rows;     // so is one of fewer rows
  double target_recall;
  double smallest_share;       // a split that sends less than this to one side is not made
  float noise;                 // width of the routing Gaussian at refined routers, when they are used,
  float growth_noise;          // and while trees grow; routers that are not refined have lambda / m for both
  bool fractional;             // false: examples go to one side only while trees grow
  float prune_below;           // weights under this are kept by chance, at this weight
  std::int64_t spectral_rows;  // the direction is found with at most so many rows of a node,
  std::int64_t router_rows;    // and refined with about so many at most, drawn at random
  int min_feature_rows;        // a node's router has no weights for features that fewer of its rows have
  int sketch_steps;            // steps of the sketch that finds the direction; 0: the exact solver, as `spectral` says
  float drop_weight;           // router weights below this share of the node's largest are left out
  float drop_share;            // labels below this share of a leaf's mass are left out
  std::uint64_t seed;
  SpectralSettings spectral;
  RefinementSettings refinement;  // rounds = 0: routers stay as the eigenproblem gives them, split at the median
};

// About how many levels a tree over so many rows will have.
int expected_levels(std::int64_t n_rows, const ForestSettings& settings);

// Nodes 0, ..., n_trees - 1 are the roots. The arrays have an entry, the matrices a row, for every node.
struct Forest {
  Buffer<std::int32_t> child;  // the left child, the right one follows it; -1 for a leaf
  Buffer<float> bias;          // an example goes right with probability Phi((w.x - bias) / noise)
  Buffer<float> noise;
  GrowingCsr routers;  // w; empty rows for leaves
  GrowingCsr leaves;   // the labels' shares in the mass of each leaf; empty rows for others
  Buffer<float> mass;  // of each leaf's labels; 0 for other nodes
};

// The nodes of a level, one after the other: their keys, which seed all that is random in a node, and the examples that
// reach them, by row, with their weights.
struct GrowingNodes {
  LargeVector<std::uint64_t> keys;
  LargeVector<std::int64_t> indptr = {0};
  LargeVector<std::int32_t> rows;
  LargeVector<float> weight;

  std::size_t count() const { return keys.size(); }
  NodeRows operator[](std::size_t node) const {
    return {rows.data() + indptr[node], weight.data() + indptr[node], indptr[node + 1] - indptr[node]};
  }
  void push(std::uint64_t key, const NodeRows& members) {
    keys.push_back(key);
    rows.insert(rows.end(), members.rows, members.rows + members.count);
    weight.insert(weight.end(), members.weight, members.weight + members.count);
    indptr.push_back(static_cast<std::int64_t>(rows.size()));
  }
};

// The keys of the roots.
std::vector<std::uint64_t> root_keys(const ForestSettings& settings);

// A forest between two levels.
class ForestGrower {
 public:
  // Grows on from the nodes of a level, the first nodes of an empty forest, or the next ones of a forest.
  ForestGrower(const ForestSettings& settings, GrowingNodes level, int depth)
      : settings_(settings), level_(std::move(level)), depth_(depth) {}

  // Grows one level. `row_id` has the numbers of the rows in the whole data; null: they are as they come. `counter`,
  // which may be null, counts an example once for every level down to `expected_levels`, whether it is still there or
  // in a leaf.
  void step(const CsrView& X, const CsrView& Y, const std::int64_t* row_id, int n_threads, Counter* counter);
  void step(const DenseView& X, const CsrView& Y, const std::int64_t* row_id, int n_threads, Counter* counter);

  bool is_done() const { return level_.count() == 0; }
  int depth() const { return depth_; }
  const GrowingNodes& level() const { return level_; }
  Forest& forest() { return forest_; }

 private:
  ForestSettings settings_;
  GrowingNodes level_;
  int depth_;
  Forest forest_;
};

}  // namespace labelprism
