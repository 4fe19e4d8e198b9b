// A forest laid out for scoring: flat arrays that are used as they lie in a file.
//
// How routers are laid out. A row reaches some hundred routers of thousands of weights each, but has few features.
// Seven routers, a node with its children and grandchildren, are a block: the weights that one feature has in all seven
// lie side by side, a byte each, in an array by feature or, where few features have any, in the block's own hash table.
// So a row with z features takes z looks for three levels. Bytes are exact for forests of `grow_forest`, whose weights
// are multiples of the largest over 127; weights of other forests are rounded to that.
#pragma once

#include <cstdint>
#include <type_traits>

#include "csr.hpp"
#include "growing_csr.hpp"
#include "router_tables.hpp"
#include "stored.hpp"

namespace labelprism {

// A forest as `grow_forest` makes it: nodes 0, ..., n_trees - 1 are the roots.
struct ForestView {
  int n_trees;
  const std::int32_t* child;  // a left child, greater than its parent, the right one after it; -1 for a leaf
  const float* bias;
  const float* noise;
  CsrView routers;  // (n_nodes, n_features)
  CsrView leaves;   // (n_nodes, n_labels): shares
};

// The weights of a block: those of every feature, or a hash table where few features have any.
struct RouterTable {
  std::int64_t first;  // of the weights in `dense`, or of the buckets
  std::uint32_t n_buckets;
  std::uint32_t is_dense;
};
static_assert(sizeof(RouterTable) == 16, "a table is kept in files");

struct ForestTables {
  std::int64_t n_labels = 0, n_features = 0;
  int n_trees = 0;
  Stored<RouterBlock> blocks;  // those of the roots first; each is led to from one place before it
  Stored<RouterTable> tables;  // one for each block
  Stored<RouterBucket> buckets;
  Stored<std::int8_t> dense;
  // Labels and their shares (float16, over the number of trees) leaf by leaf. Labels are not checked beforehand, for
  // there are many: who reads one makes sure that it is below n_labels.
  Stored<std::int64_t> leaf_begin;
  Stored<std::int32_t> leaf_label;
  Stored<std::uint16_t> leaf_share;

  std::int64_t n_leaves() const { return static_cast<std::int64_t>(leaf_begin.size()) - 1; }
};

// Leaves are numbered in the order of their nodes. The result does not depend on n_threads.
ForestTables forest_tables(const ForestView& forest, int n_threads);

// Throws std::invalid_argument unless all that is read without a check is in range, and every way ends.
void check_tables(const ForestTables& forest);

// The weights of all routers as CSR; node i of block b is row 7 b + i.
void router_weights(const ForestTables& forest, GrowingCsr& weights);

}  // namespace labelprism
