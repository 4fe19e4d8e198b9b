#include "forest_scores.hpp"

#include <algorithm>
#include <cmath>
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
    : n_labels_(static_cast<std::size_t>(n_labels)),
      sum_(padded_to_eight(n_labels_ + 1), 0.0f),
      touched_(words(n_labels_), 0),
      nonempty_(padded_to_eight(touched_.size()), 0) {}

// Notes labels that got a share. A byte is set where a bit would have to be read first: labels that follow each other
// would wait for it.
inline void ScoreRoom::note(const std::int32_t* noted, std::size_t count) {
  for (std::size_t t = 0; t < count; ++t) {
    const auto i = static_cast<std::size_t>(noted[t]);
    if (i >= n_labels_) continue;  // of a damaged model
    touched_[i / kBits] |= std::uint64_t{1} << (i % kBits);
    nonempty_[i / kBits] = 1;
  }
}

// Moves the sums of the labels that were noted into `labels` and `probabilities`: in the order of the labels without
// sorting them. Sums that are not above 0 are of a damaged model.
void ScoreRoom::collect(const std::uint8_t* allowed, std::size_t most) {
  labels.resize(most + 1);
  probabilities.resize(most + 1);
  std::size_t count = 0;
  for (std::size_t group = 0; group < nonempty_.size(); group += sizeof(std::uint64_t)) {
    std::uint64_t some = 0;  // the first byte is the lowest: one load where the machine is little-endian
    for (std::size_t i = 0; i < sizeof some; ++i) some |= std::uint64_t{nonempty_[group + i]} << (8 * i);
    for (; some != 0; some &= some - 1) {
      const std::size_t word = group + static_cast<std::size_t>(__builtin_ctzll(some)) / 8;
      for (std::uint64_t bits = touched_[word]; bits != 0; bits &= bits - 1) {
        const std::size_t label = word * kBits + static_cast<std::size_t>(__builtin_ctzll(bits));
        labels[count] = static_cast<std::int32_t>(label);
        probabilities[count] = sum_[label];
        count += sum_[label] > 0 && (!allowed || allowed[label]) ? 1 : 0;
        sum_[label] = 0;
      }
      touched_[word] = 0;
      nonempty_[word] = 0;
    }
  }
  labels.resize(count);
  probabilities.resize(count);
}

void ScoreRoom::keep_best(std::int64_t k, const BlockKernels& kernels) {
  const auto wanted = static_cast<std::size_t>(k);
  if (labels.size() <= wanted) return;
  probabilities.resize(padded_to_eight(labels.size()), 0.0f);
  best_.find(kernels, probabilities.data(), probabilities.size(), k);
  if (best_.size() > wanted) best_.drop_last(probabilities.data(), best_.size() - wanted);
  std::size_t kept = 0;
  for (const std::int32_t place : best_) {
    labels[kept] = labels[static_cast<std::size_t>(place)];
    probabilities[kept++] = probabilities[static_cast<std::size_t>(place)];
  }
  labels.resize(kept);
  probabilities.resize(kept);
}

// The same two in one, for few labels: none was noted, all sums are looked at.
void ScoreRoom::collect_best(std::int64_t k, const std::uint8_t* allowed, const BlockKernels& kernels) {
  const auto wanted = static_cast<std::size_t>(k);
  if (allowed) {
    for (std::size_t i = 0; i < n_labels_; ++i) sum_[i] = allowed[i] ? sum_[i] : 0;
  }
  best_.find(kernels, sum_.data(), sum_.size(), k);
  if (best_.size() > wanted) best_.drop_last(sum_.data(), best_.size() - wanted);
  labels.assign(best_.begin(), best_.end());
  probabilities.resize(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) probabilities[i] = sum_[static_cast<std::size_t>(labels[i])];
  std::fill(sum_.begin(), sum_.end(), 0.0f);
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
}

void ForestScorer::score(const SparseRow& row, std::int64_t k, const Routing& routing, const std::uint8_t* allowed,
                         ScoreRoom& room) const {
  const bool is_noted = room.notes_labels();
  std::size_t n_entries = 0;
  for_leaves(row, routing, room, [&](std::int64_t leaf, float probability) {
    const auto first = static_cast<std::size_t>(tables_.leaf_begin[static_cast<std::size_t>(leaf)]);
    const auto count = static_cast<std::size_t>(tables_.leaf_begin[static_cast<std::size_t>(leaf) + 1]) - first;
    const std::int32_t* labels = tables_.leaf_label.data() + first;
    const std::uint16_t* shares = tables_.leaf_share.data() + first;
    kernels_->add_halves(labels, shares, static_cast<std::int64_t>(count), probability,
                         static_cast<std::uint32_t>(n_labels()), room.sum_.data());
    if (is_noted) room.note(labels, count);
    n_entries += count;
  });
  room.sum_[static_cast<std::size_t>(n_labels())] = 0;
  if (is_noted) {
    room.collect(allowed, n_entries);
    room.keep_best(k, *kernels_);
  } else {
    room.collect_best(k, allowed, *kernels_);
  }
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
