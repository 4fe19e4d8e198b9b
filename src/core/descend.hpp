// The way of examples from the root of a tree to a leaf, decided by margins or drawn by chance.
#pragma once

#include <optional>

#include "csr.hpp"

namespace labelprism {

struct TreeView {
  std::int64_t n_nodes;
  const std::int32_t* children;  // the left child, -1 for leaves; the right child is the next node
  const float* bias;
  const double* noise;
  CsrView routers;  // (n_nodes, d), sorted
};

// Writes the leaf node that each row ends in. Right is the way where w.x > b; with a seed it is taken with probability
// Phi((w.x - b) / noise), by chances that depend on seed, row and node only. Margins have the bits of router_margins.
void descend(const CsrView& X, const TreeView& tree, std::optional<std::uint64_t> seed, int n_threads,
             std::int32_t* nodes);
void descend(const DenseView& X, const TreeView& tree, std::optional<std::uint64_t> seed, int n_threads,
             std::int32_t* nodes);

}  // namespace labelprism
