// Scoring with a forest: the labels of the leaves that an example reaches, with their probabilities.
#pragma once

#include <cstdint>
#include <vector>

#include "block_kernels.hpp"
#include "csr.hpp"
#include "forest_tables.hpp"
#include "largest.hpp"
#include "normal_table.hpp"

namespace labelprism {

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

 private:
  friend class ForestScorer;
  struct Visit {
    std::int32_t block;
    float probability;
    bool is_main;  // whether all ways that led here were the more probable ones
  };

  void note(const std::int32_t* labels, std::size_t count);
  void collect(const std::uint8_t* allowed, std::size_t most);
  void keep_best(std::int64_t k, const BlockKernels& kernels);
  void collect_best(std::int64_t k, const std::uint8_t* allowed, const BlockKernels& kernels);

  // With few labels it is faster to look at all sums than to note those that are not 0.
  bool notes_labels() const { return n_labels_ > kFewLabels; }

  static constexpr std::size_t kFewLabels = 2048;
  std::size_t n_labels_;
  std::vector<Visit> stack_;
  std::vector<float>
      sum_;  // by label, one that stands for labels of a damaged model, to a multiple of 8; 0 between rows
  std::vector<std::uint64_t> touched_;  // a bit for each label,
  std::vector<std::uint8_t> nonempty_;  // and a byte for each word of those, to a multiple of 8
  Largest best_;
};

class ForestScorer {
 public:
  explicit ForestScorer(ForestTables&& tables);

  std::int64_t n_labels() const { return tables_.n_labels; }
  std::int64_t n_features() const { return tables_.n_features; }
  std::int64_t n_leaves() const { return tables_.n_leaves(); }
  const ForestTables& tables() const { return tables_; }

  // Leaves in `room` the k most probable labels of a row (of equals the smaller), ascending, with their probabilities:
  // the mean over trees of the sum over leaves of p(leaf | x) p(label | leaf). `allowed` has a flag for each label;
  // null: all are.
  void score(const SparseRow& row, std::int64_t k, const Routing& routing, const std::uint8_t* allowed,
             ScoreRoom& room) const;

  // Calls reached(leaf, probability) for every leaf that the row reaches, in each tree.
  template <class Reached>
  void for_leaves(const SparseRow& row, const Routing& routing, ScoreRoom& room, const Reached& reached) const;

 private:
  static constexpr int kNodes = kBlockNodes, kLanes = kRouterLanes;

  void margins(std::int32_t block, const SparseRow& row, float* sums) const;
  void ask_early(std::int32_t block, const SparseRow& row) const;

  ForestTables tables_;
  const NormalTable& normal_;
  const BlockKernels* kernels_;
};

template <class Reached>
void ForestScorer::for_leaves(const SparseRow& row, const Routing& routing, ScoreRoom& room,
                              const Reached& reached) const {
  auto& stack = room.stack_;
  stack.clear();
  for (std::int32_t tree = tables_.n_trees - 1; tree >= 0; --tree) {
    ask_early(tree, row);
    stack.push_back({tree, 1.0f, true});
  }
  while (!stack.empty()) {
    const ScoreRoom::Visit visit = stack.back();
    stack.pop_back();
    const RouterBlock& block = tables_.blocks[static_cast<std::size_t>(visit.block)];
    float sums[kLanes], probability[2 * kNodes + 1];
    margins(visit.block, row, sums);
    probability[0] = visit.probability;
    int likeliest;
    std::uint32_t places = kernels_->leave_block(block, sums, normal_.values(), routing.noise_scale, routing.smallest,
                                                 visit.is_main, probability, &likeliest);
    for (; places != 0; places &= places - 1) {
      const int i = __builtin_ctz(places);
      const std::int32_t next = block.next[i];
      if (next >= 0) {
        ask_early(next, row);
        stack.push_back({next, probability[i], i == likeliest});
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
