// Growing a forest of refined spectral trees: F of the default recipe.
//
// All trees grow together, level by level, and each level is cut into nodes: what happens in a node depends on its rows
// and its key alone. Every tree has its own random order of the rows, which its nodes inherit: the first rows of a node
// are a random sample of it, and the order in which coordinate descent takes them.
#pragma once

#include <cstdint>

#include "buffer.hpp"
#include "counter.hpp"
#include "csr.hpp"
#include "growing_csr.hpp"
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
  std::int64_t router_rows;    // and refined with at most so many
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

// `row_weight` has the weights of the examples, positive and about 1 on average; null stands for ones. `counter`, which
// may be null, counts an example once for every level down to `expected_levels`, whether it is still there or in a
// leaf.
void grow_forest(const CsrView& X, const CsrView& Y, const float* row_weight, const ForestSettings& settings,
                 int n_threads, Counter* counter, Forest& forest);
void grow_forest(const DenseView& X, const CsrView& Y, const float* row_weight, const ForestSettings& settings,
                 int n_threads, Counter* counter, Forest& forest);

}  // namespace labelprism
