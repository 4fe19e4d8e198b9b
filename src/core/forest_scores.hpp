// Scoring with a forest: the labels of the leaves that an example reaches, with their probabilities.
//
// How routers are laid out. A row reaches some hundred routers of thousands of weights each, but has few features.
// Seven routers, a node with its children and grandchildren, are a block: the weights that one feature has in all seven
// lie side by side, a byte each, in an array by feature or, where few features have any, in the block's own hash table.
// So a row with z features takes z looks for three levels. Bytes are exact for forests of `grow_forest`, whose weights
// are multiples of the largest over 127; weights of other forests are rounded to that.
#pragma once

#include <cstdint>
#include <vector>

#include "block_kernels.hpp"
#include "csr.hpp"
#include "large_vector.hpp"
#include "normal_table.hpp"
#include "router_tables.hpp"

namespace labelprism {

// A forest as `grow_forest` makes it: nodes 0, ..., n_trees - 1 are the roots.
struct ForestView {
  int n_trees;
  const std::int32_t* child;  // a left child, greater than its parent, the right one after it; -1 for a leaf
  const float* bias;
  const float* noise;
  CsrView routers;  // (n_nodes, n_features)
  CsrView leaves;   // (n_nodes, n_labels)
};

// How a row is routed.
struct Routing {
  // Branches whose probability falls to this or below are not followed, except the way that is the more probable one at
  // every node: each tree has at least one leaf for every row.
  float smallest;
  float noise_scale = 1;  // times the noise of every node
};

// Room for one row at a time; one for each thread. Nothing is allocated once it is warm.
class ScoreRoom {
 public:
  explicit ScoreRoom(std::int64_t n_labels);

  // The labels that were reached, ascending, and their probabilities: filled by ForestScorer::score.
  std::vector<std::int32_t> labels;
  std::vector<float> probabilities;

  static constexpr int kSteps = 256;

 private:
  friend class ForestScorer;
  struct Visit {
    std::int32_t block;
    float probability;
    bool is_main;  // whether all ways that led here were the more probable ones
  };

  template <bool IsNoted>
  void add(const std::int32_t* labels, const float* shares, std::size_t count, float probability);
  void collect();
  void collect_all();
  void keep_best(std::int64_t k);

  // With few labels it is faster to look at all sums than to note those that are not 0.
  bool notes_labels() const { return sum_.size() > kFewLabels; }

  static constexpr std::size_t kFewLabels = 2048;
  std::vector<Visit> stack_;
  std::vector<float> sum_;               // by label; 0 between two rows
  std::vector<std::uint64_t> touched_;   // a bit for each label,
  std::vector<std::uint64_t> nonempty_;  // and one for each word of those
  std::vector<float> sorted_;
  std::int32_t counts_[kSteps];
};

class ForestScorer {
 public:
  // Copies what it needs of the forest.
  explicit ForestScorer(const ForestView& forest);

  std::int64_t n_labels() const { return n_labels_; }
  std::int64_t n_features() const { return n_features_; }
  std::int64_t n_leaves() const { return static_cast<std::int64_t>(leaf_begin_.size()) - 1; }

  // Leaves in `room` the k most probable labels of a row (of equals the smaller), ascending, with their probabilities:
  // the mean over trees of the sum over leaves of p(leaf | x) p(label | leaf).
  void score(const SparseRow& row, std::int64_t k, const Routing& routing, ScoreRoom& room) const;

  // Calls reached(leaf, probability) for every leaf that the row reaches, in each tree.
  template <class Reached>
  void for_leaves(const SparseRow& row, const Routing& routing, ScoreRoom& room, const Reached& reached) const;

 private:
  static constexpr int kNodes = 7, kLanes = kRouterLanes;

  // Seven nodes, numbered as in a heap: those below node i are 2 i + 1 and 2 i + 2.
  struct Block {
    float scale[kLanes];  // what a step of each router's weights is worth
    float bias[kNodes];
    float noise[kNodes];
    // Where an example goes from node (i - 1) / 2: on in the block (kInside), to block n (n), or to leaf n (-2 - n).
    std::int32_t next[2 * kNodes + 1];
  };
  static constexpr std::int32_t kInside = -1;

  // The weights of a block: those of every feature, or a hash table where few features have any.
  struct Table {
    std::int64_t first;  // of the weights in dense_, or of the buckets
    std::uint32_t n_buckets;
    bool is_dense;
  };

  std::vector<std::int32_t> add_leaves(const ForestView& forest);
  void add_block(const ForestView& forest, std::int32_t top, const std::vector<std::int32_t>& leaf_of_node,
                 std::vector<std::int32_t>& tops);
  void add_routers(const CsrView& routers, const std::int32_t* nodes, Block& block);
  Table new_table(std::size_t count);
  std::int8_t* steps_of(const Table& table, std::int32_t feature);
  void margins(std::int32_t block, const SparseRow& row, float* sums) const;
  void ask_early(std::int32_t block, const SparseRow& row) const;

  std::int64_t n_labels_, n_features_;
  int n_trees_;
  std::vector<Block> blocks_;  // those of the roots first
  std::vector<Table> tables_;
  LargeVector<RouterBucket> buckets_;
  LargeVector<std::int8_t> dense_;
  std::vector<std::int64_t> leaf_begin_;
  std::vector<std::int32_t> leaf_label_;
  std::vector<float> leaf_share_;  // divided by the number of trees
  const NormalTable& normal_;
  const BlockKernels* kernels_;
};

template <class Reached>
void ForestScorer::for_leaves(const SparseRow& row, const Routing& routing, ScoreRoom& room,
                              const Reached& reached) const {
  auto& stack = room.stack_;
  stack.clear();
  for (std::int32_t tree = n_trees_ - 1; tree >= 0; --tree) {
    ask_early(tree, row);
    stack.push_back({tree, 1.0f, true});
  }
  while (!stack.empty()) {
    const ScoreRoom::Visit visit = stack.back();
    stack.pop_back();
    const Block& block = blocks_[static_cast<std::size_t>(visit.block)];
    float sums[kLanes];
    margins(visit.block, row, sums);
    float probability[2 * kNodes + 1];  // 0 where the row does not come to
    bool is_main[2 * kNodes + 1];
    for (int i = 0; i < 2 * kNodes + 1; ++i) {
      if (i == 0) {
        probability[0] = visit.probability;
        is_main[0] = visit.is_main;
      } else {
        const int above = (i - 1) / 2;
        probability[i] = 0;
        if (!(probability[above] > 0) || block.next[above] != kInside) continue;
        // sums[above] has become the probability to go right by now.
        const bool is_right = i % 2 == 0;
        const float p = probability[above] * (is_right ? sums[above] : 1 - sums[above]);
        is_main[i] = is_main[above] && is_right == (sums[above] >= 0.5f);
        if (!(p > routing.smallest || is_main[i])) continue;
        probability[i] = p;
      }
      const std::int32_t next = block.next[i];
      if (next == kInside) {
        sums[i] = probability_right(normal_, sums[i] - block.bias[i], routing.noise_scale * block.noise[i]);
      } else if (next >= 0) {
        ask_early(next, row);
        stack.push_back({next, probability[i], is_main[i]});
      } else {
        reached(static_cast<std::int64_t>(-2 - next), probability[i]);
      }
    }
  }
}

// Scores every row of X: the rows of `candidates` hold the logarithms of the probabilities.
void forest_candidates(const ForestScorer& forest, const CsrView& X, std::int64_t k, const Routing& routing,
                       int n_threads, struct GrowingCsr& candidates);

// The probability of every leaf for every row, over the number of trees.
void forest_leaves(const ForestScorer& forest, const CsrView& X, const Routing& routing, int n_threads,
                   struct GrowingCsr& leaves);

}  // namespace labelprism
