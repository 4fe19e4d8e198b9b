#include "forest_scores.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <utility>

#include "growing_csr.hpp"
#include "node_rows.hpp"
#include "thread_pool.hpp"
#include "weight_pairs.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kRowsPerTask = 512;
constexpr std::size_t kBits = 64;

std::size_t words(std::size_t bits) { return (bits + kBits - 1) / kBits; }

}  // namespace

ScoreRoom::ScoreRoom(std::int64_t n_labels)
    : sum_(static_cast<std::size_t>(n_labels), 0.0f),
      touched_(words(sum_.size()), 0),
      nonempty_(words(touched_.size()), 0) {}

template <bool IsNoted>
inline void ScoreRoom::add(const std::int32_t* labels, const std::uint16_t* shares, std::size_t count,
                           float probability) {
  for (std::size_t t = 0; t < count; ++t) {
    const auto i = static_cast<std::size_t>(labels[t]);
    if (i >= sum_.size()) continue;  // of a damaged model
    sum_[i] += probability * from_half(shares[t] & 0x7FFFu);
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

void ScoreRoom::keep_allowed(const std::uint8_t* allowed) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[kept] = labels[i];
    probabilities[kept] = probabilities[i];
    kept += allowed[labels[i]] ? 1 : 0;
  }
  labels.resize(kept);
  probabilities.resize(kept);
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

ForestScorer::ForestScorer(ForestTables&& tables)
    : tables_(std::move(tables)), normal_(normal_table()), kernels_(&block_kernels()) {}

// Asks the memory for what `margins` will read: all tables of a large forest together do not fit the cache.
void ForestScorer::ask_early(std::int32_t block, const SparseRow& row) const {
  const RouterTable& table = tables_.tables[static_cast<std::size_t>(block)];
  __builtin_prefetch(&tables_.blocks[static_cast<std::size_t>(block)]);
  if (table.is_dense) {
    const std::int8_t* dense = tables_.dense.data() + table.first;
    for (std::int64_t t = 0; t < row.count; ++t) __builtin_prefetch(dense + std::int64_t{kLanes} * row.features[t]);
  } else {
    const RouterBucket* buckets = tables_.buckets.data() + table.first;
    for (std::int64_t t = 0; t < row.count; ++t) {
      __builtin_prefetch(buckets + first_bucket(row.features[t], table.n_buckets));
    }
  }
}

void ForestScorer::margins(std::int32_t block, const SparseRow& row, float* sums) const {
  const RouterTable& table = tables_.tables[static_cast<std::size_t>(block)];
  if (table.is_dense) {
    kernels_->route_dense(tables_.dense.data() + table.first, row, sums);
  } else if (table.n_buckets > 0) {
    kernels_->route_hashed(tables_.buckets.data() + table.first, table.n_buckets, row, sums);
  } else {
    std::fill(sums, sums + kLanes, 0.0f);
  }
  const float* scale = tables_.blocks[static_cast<std::size_t>(block)].scale;
  for (int i = 0; i < kLanes; ++i) sums[i] *= scale[i];
}

void ForestScorer::score(const SparseRow& row, std::int64_t k, const Routing& routing, const std::uint8_t* allowed,
                         ScoreRoom& room) const {
  const bool is_noted = room.notes_labels();
  for_leaves(row, routing, room, [&](std::int64_t leaf, float probability) {
    const auto first = static_cast<std::size_t>(tables_.leaf_begin[static_cast<std::size_t>(leaf)]);
    const auto count = static_cast<std::size_t>(tables_.leaf_begin[static_cast<std::size_t>(leaf) + 1]) - first;
    const std::int32_t* labels = tables_.leaf_label.data() + first;
    const std::uint16_t* shares = tables_.leaf_share.data() + first;
    if (is_noted) {
      room.add<true>(labels, shares, count, probability);
    } else {
      room.add<false>(labels, shares, count, probability);
    }
  });
  if (is_noted) {
    room.collect();
  } else {
    room.collect_all();
  }
  if (allowed) room.keep_allowed(allowed);
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
    forest.score(row, k, routing, nullptr, room);
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
