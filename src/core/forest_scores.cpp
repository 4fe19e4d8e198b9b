#include "forest_scores.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <utility>

#include "forest_growth.hpp"
#include "growing_csr.hpp"
#include "node_rows.hpp"
#include "thread_pool.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kRowsPerTask = 512;
constexpr std::size_t kBits = 64;
// A block has an array by feature, of 8 bytes each, where at least one feature in so many has a weight; a place in a
// hash table takes 21.
constexpr std::size_t kFeaturesPerDenseEntry = 6;

std::size_t words(std::size_t bits) { return (bits + kBits - 1) / kBits; }

}  // namespace

ScoreRoom::ScoreRoom(std::int64_t n_labels)
    : sum_(static_cast<std::size_t>(n_labels), 0.0f),
      touched_(words(sum_.size()), 0),
      nonempty_(words(touched_.size()), 0) {}

template <bool IsNoted>
inline void ScoreRoom::add(const std::int32_t* labels, const float* shares, std::size_t count, float probability) {
  for (std::size_t t = 0; t < count; ++t) {
    const auto i = static_cast<std::size_t>(labels[t]);
    sum_[i] += probability * shares[t];
    if (!IsNoted) continue;
    touched_[i / kBits] |= std::uint64_t{1} << (i % kBits);
    nonempty_[i / kBits / kBits] |= std::uint64_t{1} << (i / kBits % kBits);
  }
}

void ScoreRoom::collect_all() {
  labels.resize(sum_.size());
  probabilities.resize(sum_.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < sum_.size(); ++i) {
    labels[count] = static_cast<std::int32_t>(i);
    probabilities[count] = sum_[i];
    count += sum_[i] != 0 ? 1 : 0;
    sum_[i] = 0;
  }
  labels.resize(count);
  probabilities.resize(count);
}

// Moves the sums into `labels` and `probabilities`: in the order of the labels without sorting them.
void ScoreRoom::collect() {
  labels.clear();
  probabilities.clear();
  for (std::size_t group = 0; group < nonempty_.size(); ++group) {
    for (std::uint64_t some = nonempty_[group]; some != 0; some &= some - 1) {
      const std::size_t word = group * kBits + static_cast<std::size_t>(__builtin_ctzll(some));
      for (std::uint64_t bits = touched_[word]; bits != 0; bits &= bits - 1) {
        const std::size_t label = word * kBits + static_cast<std::size_t>(__builtin_ctzll(bits));
        labels.push_back(static_cast<std::int32_t>(label));
        probabilities.push_back(sum_[label]);
        sum_[label] = 0;
      }
      touched_[word] = 0;
    }
    nonempty_[group] = 0;
  }
}

// The place of a probability in a coarse order: eight steps an octave, from 2^-32 to 1.
inline int step_of(float probability) {
  std::uint32_t bits;
  std::memcpy(&bits, &probability, sizeof bits);
  const int step = static_cast<int>(bits >> 20) - (0x3F8 - ScoreRoom::kSteps + 1);
  return std::min(std::max(step, 0), ScoreRoom::kSteps - 1);  // rounding may lead beyond 1
}

// Counting by steps leaves but the few probabilities of one step to be ordered: most rows have some hundred labels, and
// comparing them one by one took longer than finding them.
void ScoreRoom::keep_best(std::int64_t k) {
  if (static_cast<std::int64_t>(labels.size()) <= k) return;
  std::fill(std::begin(counts_), std::end(counts_), 0);
  for (const float p : probabilities) ++counts_[step_of(p)];
  int step = kSteps - 1;
  std::int64_t wanted = k;  // of the labels in `step`
  for (; wanted > counts_[step]; --step) wanted -= counts_[step];
  sorted_.clear();
  for (const float p : probabilities) {
    if (step_of(p) == step) sorted_.push_back(p);
  }
  const auto last = sorted_.begin() + (wanted - 1);
  std::nth_element(sorted_.begin(), last, sorted_.end(), std::greater<>());
  const float smallest = *last;
  std::int64_t equals = wanted - std::count_if(sorted_.begin(), last, [&](float p) { return p > smallest; });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const float p = probabilities[i];
    labels[kept] = labels[i];
    probabilities[kept] = p;
    bool is_kept = p > smallest;
    if (p == smallest) is_kept = equals-- > 0;  // seldom: so the loop does not wait for comparisons
    kept += is_kept ? 1 : 0;
  }
  labels.resize(kept);
  probabilities.resize(kept);
}

ForestScorer::ForestScorer(const ForestView& forest)
    : n_labels_(forest.leaves.n_columns),
      n_features_(forest.routers.n_columns),
      n_trees_(forest.n_trees),
      normal_(normal_table()),
      kernels_(&block_kernels()) {
  const std::vector<std::int32_t> leaf_of_node = add_leaves(forest);
  std::vector<std::int32_t> tops(static_cast<std::size_t>(n_trees_));  // the top node of every block
  for (std::int32_t tree = 0; tree < n_trees_; ++tree) tops[static_cast<std::size_t>(tree)] = tree;
  for (std::size_t block = 0; block < tops.size(); ++block) add_block(forest, tops[block], leaf_of_node, tops);
  buckets_.shrink_to_fit();
  dense_.shrink_to_fit();
}

// Leaves are numbered in the order of their nodes; returns the number of each node, -1 for those that are no leaves.
std::vector<std::int32_t> ForestScorer::add_leaves(const ForestView& forest) {
  std::vector<std::int32_t> leaf_of_node(static_cast<std::size_t>(forest.leaves.n_rows), -1);
  leaf_begin_.push_back(0);
  for (std::int64_t node = 0; node < forest.leaves.n_rows; ++node) {
    if (forest.child[node] >= 0) continue;
    leaf_of_node[static_cast<std::size_t>(node)] = static_cast<std::int32_t>(n_leaves());
    for (std::int64_t t = forest.leaves.indptr[node]; t < forest.leaves.indptr[node + 1]; ++t) {
      leaf_label_.push_back(forest.leaves.indices[t]);
      leaf_share_.push_back(forest.leaves.data[t] / static_cast<float>(n_trees_));
    }
    leaf_begin_.push_back(static_cast<std::int64_t>(leaf_label_.size()));
  }
  return leaf_of_node;
}

void ForestScorer::add_block(const ForestView& forest, std::int32_t top, const std::vector<std::int32_t>& leaf_of_node,
                             std::vector<std::int32_t>& tops) {
  Block block{};
  std::int32_t nodes[2 * kNodes + 1];  // -1: none, or not of this block
  for (int i = 0; i < 2 * kNodes + 1; ++i) {
    const std::int32_t above = i == 0 ? top : nodes[(i - 1) / 2];
    nodes[i] = -1;
    if (above < 0) continue;
    const std::int32_t node = i == 0 ? top : forest.child[above] + (i % 2 == 0 ? 1 : 0);
    if (forest.child[node] < 0) {
      block.next[i] = -2 - leaf_of_node[static_cast<std::size_t>(node)];
    } else if (i >= kNodes) {
      block.next[i] = static_cast<std::int32_t>(tops.size());
      tops.push_back(node);
    } else {
      nodes[i] = node;
      block.next[i] = kInside;
      block.bias[i] = forest.bias[node];
      block.noise[i] = forest.noise[node];
    }
  }
  add_routers(forest.routers, nodes, block);
  blocks_.push_back(block);
}

// Makes the table of a block.
void ForestScorer::add_routers(const CsrView& routers, const std::int32_t* nodes, Block& block) {
  std::vector<std::int32_t> features;
  for (int i = 0; i < kNodes; ++i) {
    if (nodes[i] < 0) continue;
    const std::int32_t* row = routers.indices;
    features.insert(features.end(), row + routers.indptr[nodes[i]], row + routers.indptr[nodes[i] + 1]);
  }
  std::sort(features.begin(), features.end());
  features.erase(std::unique(features.begin(), features.end()), features.end());
  const Table table = new_table(features.size());
  tables_.push_back(table);
  for (int i = 0; i < kNodes; ++i) {
    if (nodes[i] < 0) continue;
    const std::int64_t begin = routers.indptr[nodes[i]], end = routers.indptr[nodes[i] + 1];
    float largest = 0;
    for (std::int64_t t = begin; t < end; ++t) largest = std::max(largest, std::abs(routers.data[t]));
    block.scale[i] = largest / kRouterSteps;
    for (std::int64_t t = begin; t < end && largest > 0; ++t) {
      const float steps = std::nearbyint(routers.data[t] / block.scale[i]);
      steps_of(table, routers.indices[t])[i] = static_cast<std::int8_t>(steps);
    }
  }
}

ForestScorer::Table ForestScorer::new_table(std::size_t count) {
  const auto n_features = static_cast<std::size_t>(n_features_);
  if (kFeaturesPerDenseEntry * count >= n_features && count > 0) {
    const Table table{static_cast<std::int64_t>(dense_.size()), 0, true};
    dense_.resize(dense_.size() + kLanes * n_features, 0);
    return table;
  }
  const Table table{static_cast<std::int64_t>(buckets_.size()), static_cast<std::uint32_t>((count + 2) / 3), false};
  buckets_.resize(buckets_.size() + table.n_buckets, RouterBucket());
  return table;
}

// The steps of a feature, for which a place is made if there is none.
std::int8_t* ForestScorer::steps_of(const Table& table, std::int32_t feature) {
  if (table.is_dense) return dense_.data() + table.first + std::int64_t{kLanes} * feature;
  std::uint32_t i = first_bucket(feature, table.n_buckets);
  while (true) {
    RouterBucket& bucket = buckets_[static_cast<std::size_t>(table.first) + i];
    for (int way = 0; way < RouterBucket::kWays; ++way) {
      if (bucket.features[way] >= 0 && bucket.features[way] != feature) continue;
      bucket.features[way] = feature;
      return bucket.steps[way];
    }
    bucket.is_overfull = 1;
    i = i + 1 < table.n_buckets ? i + 1 : 0;
  }
}

// Asks the memory for what `margins` will read: all tables of a large forest together do not fit the cache.
void ForestScorer::ask_early(std::int32_t block, const SparseRow& row) const {
  const Table& table = tables_[static_cast<std::size_t>(block)];
  __builtin_prefetch(&blocks_[static_cast<std::size_t>(block)]);
  if (table.is_dense) {
    const std::int8_t* dense = dense_.data() + table.first;
    for (std::int64_t t = 0; t < row.count; ++t) __builtin_prefetch(dense + std::int64_t{kLanes} * row.features[t]);
  } else {
    const RouterBucket* buckets = buckets_.data() + table.first;
    for (std::int64_t t = 0; t < row.count; ++t) {
      __builtin_prefetch(buckets + first_bucket(row.features[t], table.n_buckets));
    }
  }
}

void ForestScorer::margins(std::int32_t block, const SparseRow& row, float* sums) const {
  const Table& table = tables_[static_cast<std::size_t>(block)];
  if (table.is_dense) {
    kernels_->route_dense(dense_.data() + table.first, row, sums);
  } else if (table.n_buckets > 0) {
    kernels_->route_hashed(buckets_.data() + table.first, table.n_buckets, row, sums);
  } else {
    std::fill(sums, sums + kLanes, 0.0f);
  }
  const float* scale = blocks_[static_cast<std::size_t>(block)].scale;
  for (int i = 0; i < kLanes; ++i) sums[i] *= scale[i];
}

void ForestScorer::score(const SparseRow& row, std::int64_t k, const Routing& routing, ScoreRoom& room) const {
  const bool is_noted = room.notes_labels();
  for_leaves(row, routing, room, [&](std::int64_t leaf, float probability) {
    const auto first = static_cast<std::size_t>(leaf_begin_[static_cast<std::size_t>(leaf)]);
    const auto count = static_cast<std::size_t>(leaf_begin_[static_cast<std::size_t>(leaf) + 1]) - first;
    if (is_noted) {
      room.add<true>(leaf_label_.data() + first, leaf_share_.data() + first, count, probability);
    } else {
      room.add<false>(leaf_label_.data() + first, leaf_share_.data() + first, count, probability);
    }
  });
  if (is_noted) {
    room.collect();
  } else {
    room.collect_all();
  }
  room.keep_best(k);
}

namespace {

// Calls use(row, room, piece) for every row; the rows of the pieces are joined in their order.
template <class Use>
void for_rows(const ForestScorer& forest, const CsrView& X, int n_threads, GrowingCsr& out, const Use& use) {
  std::vector<GrowingCsr> pieces(static_cast<std::size_t>((X.n_rows + kRowsPerTask - 1) / kRowsPerTask));
  parallel_ranges(X.n_rows, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    ScoreRoom room(forest.n_labels());
    GrowingCsr& piece = pieces[static_cast<std::size_t>(begin / kRowsPerTask)];
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t first = X.indptr[row];
      use(SparseRow{X.indices + first, X.data + first, X.indptr[row + 1] - first}, room, piece);
      piece.end_row();
    }
  });
  out.join(pieces);
}

}  // namespace

void forest_candidates(const ForestScorer& forest, const CsrView& X, std::int64_t k, const Routing& routing,
                       int n_threads, GrowingCsr& candidates) {
  for_rows(forest, X, n_threads, candidates, [&](const SparseRow& row, ScoreRoom& room, GrowingCsr& piece) {
    forest.score(row, k, routing, room);
    for (std::size_t i = 0; i < room.labels.size(); ++i) {
      piece.push(room.labels[i], std::log(room.probabilities[i]));
    }
  });
}

void forest_leaves(const ForestScorer& forest, const CsrView& X, const Routing& routing, int n_threads,
                   GrowingCsr& leaves) {
  for_rows(forest, X, n_threads, leaves, [&](const SparseRow& row, ScoreRoom& room, GrowingCsr& piece) {
    forest.for_leaves(row, routing, room, [&](std::int64_t leaf, float probability) {
      piece.push(static_cast<std::int32_t>(leaf), probability);
    });
  });
}

}  // namespace labelprism
