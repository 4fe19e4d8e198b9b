// The eigenvalue problem of a tree node (section 3.3 of the paper), weighted by the probability D of its examples:
//
//   maximise w' X'D Xh w  with |w| = 1 and 1'DX w = 0,  where Xh = Y (Y'DY)^-1 Y'D X predicts X from Y.
#pragma once

#include <cstdint>
#include <vector>

#include "csr.hpp"
#include "node_rows.hpp"

namespace labelprism {

struct SpectralSettings {
  int n_blocks;       // blocks of 8 vectors in the basis; each costs one product with X and one with X'
  int cg_iterations;  // at most so many conjugate gradient steps for (Y'DY)^-1, where rows have several labels
  bool one_label;     // whether no row has more than one label: then Y'DY is diagonal
  float drop;         // weights smaller than this are left out of the router
  std::uint64_t seed;
};

// A node's router: an example goes right if weights.x > bias.
struct Router {
  double eigenvalue = 0;
  double mass = 0;  // sum of the example weights
  float bias = 0;   // splits the margins at their weighted median
  std::vector<std::int32_t> features;
  std::vector<float> weights;
};

// Solves the problem of every group. `node_ids` seed the start vectors; `margins` takes w.x of every example.
// Nodes are solved in parallel, or, when they are fewer than the threads, one after the other with parallel products.
std::vector<Router> solve_nodes(const CsrView& X, const CsrView& Y, const NodeGroups& groups,
                                const std::int64_t* node_ids, const SpectralSettings& settings, int n_threads,
                                float* margins);
std::vector<Router> solve_nodes(const DenseView& X, const CsrView& Y, const NodeGroups& groups,
                                const std::int64_t* node_ids, const SpectralSettings& settings, int n_threads,
                                float* margins);

// The top eigenvector alone, |weights| = 1, a weight for each column of X.
struct Direction {
  double eigenvalue;
  std::vector<float> weights;
};

// The direction of one node whose rows X and Y hold already; `columns` has the number of each feature, which seeds the
// start. One thread.
Direction spectral_direction(const CsrView& X, const std::vector<std::int32_t>& columns, const CsrView& Y,
                             const float* weight, const SpectralSettings& settings, std::uint64_t seed);
Direction spectral_direction(const DenseView& X, const std::vector<std::int32_t>& columns, const CsrView& Y,
                             const float* weight, const SpectralSettings& settings, std::uint64_t seed);

// The smallest value at which the weights of all values up to it reach half of the total.
float weighted_median(const float* values, const float* weights, std::int64_t count);

// A number that splits the values at their weighted median, as evenly as equal values allow: midway between the median
// and the next value above or below it, so that no rounding can carry a value across. The median if all are equal.
float median_split(const float* values, const float* weights, std::int64_t count);

}  // namespace labelprism
