#include "head_scores.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "node_rows.hpp"
#include "thread_pool.hpp"
#include "top_k.hpp"

namespace labelprism {
namespace {

// Rows of a leaf that are scored together: the weights of a candidate are fetched once for all of them.
constexpr std::int64_t kRowsPerBlock = 64;
constexpr std::int64_t kSearchCost = 8;                        // of a search in a row of weights, in moves of a weight
constexpr std::int64_t kWidestSpread = std::int64_t{1} << 26;  // beyond, weights are always searched

typedef float Eight __attribute__((vector_size(32), aligned(4), may_alias));
inline const Eight& lanes(const float* at) { return *reinterpret_cast<const Eight*>(at); }

struct Block {
  std::int64_t leaf;
  std::int64_t begin;  // in the list of rows
  std::int64_t end;
};

struct ScoreRoom {
  std::vector<float> spread;  // zero everywhere between two uses
  std::vector<float> dots;
  std::vector<float> scores;  // [row][place]
};

// The rows of a block, as numbers of rows of X.
template <class Matrix>
struct Rows {
  const Matrix& X;
  const std::int64_t* numbers;
  std::int64_t count;
};

float dot(const CsrView& X, std::int64_t row, const float* weights) {
  float sum = 0;
  for (std::int64_t t = X.indptr[row]; t < X.indptr[row + 1]; ++t) sum += weights[X.indices[t]] * X.data[t];
  return sum;
}

float searched_dot(const CsrView& X, std::int64_t row, std::int64_t shift, const CsrView& weights, std::int64_t unit) {
  const std::int32_t* at = weights.indices + weights.indptr[unit];
  const std::int32_t* const last = weights.indices + weights.indptr[unit + 1];
  float sum = 0;
  for (std::int64_t t = X.indptr[row]; t < X.indptr[row + 1] && at != last; ++t) {
    const std::int32_t wanted = static_cast<std::int32_t>(shift + X.indices[t]);
    const std::int32_t* found = std::lower_bound(weights.indices + weights.indptr[unit], last, wanted);
    if (found != last && *found == wanted) sum += weights.data[found - weights.indices] * X.data[t];
  }
  return sum;
}

void unit_dots(const Rows<CsrView>& rows, const UnitWeights& weights, std::int64_t unit, std::int64_t shift,
               ScoreRoom& room, float* out) {
  if (weights.dense) {
    const float* w = weights.dense + unit * weights.width + shift;
    for (std::int64_t i = 0; i < rows.count; ++i) out[i] = dot(rows.X, rows.numbers[i], w);
    return;
  }
  const CsrView& sparse = weights.sparse;
  const std::int64_t first = sparse.indptr[unit], last = sparse.indptr[unit + 1];
  std::int64_t entries = 0;
  for (std::int64_t i = 0; i < rows.count; ++i) {
    entries += rows.X.indptr[rows.numbers[i] + 1] - rows.X.indptr[rows.numbers[i]];
  }
  if (kSearchCost * entries < last - first || weights.width > kWidestSpread) {
    for (std::int64_t i = 0; i < rows.count; ++i) out[i] = searched_dot(rows.X, rows.numbers[i], shift, sparse, unit);
    return;
  }
  if (static_cast<std::int64_t>(room.spread.size()) < weights.width) {
    room.spread.resize(static_cast<std::size_t>(weights.width), 0.0f);
  }
  for (std::int64_t t = first; t < last; ++t) room.spread[sparse.indices[t]] = sparse.data[t];
  for (std::int64_t i = 0; i < rows.count; ++i) out[i] = dot(rows.X, rows.numbers[i], room.spread.data() + shift);
  for (std::int64_t t = first; t < last; ++t) room.spread[sparse.indices[t]] = 0;
}

void unit_dots(const Rows<DenseView>& rows, const UnitWeights& weights, std::int64_t unit, std::int64_t shift,
               ScoreRoom&, float* out) {
  const float* w = weights.dense + unit * weights.width + shift;
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const float* x = rows.X.data + rows.numbers[i] * rows.X.n_columns;
    Eight sums = {};
    for (std::int64_t j = 0; j < rows.X.n_columns; j += 8) sums += lanes(w + j) * lanes(x + j);
    out[i] = ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
  }
}

// Fills room.scores for the rows of a block.
template <class Matrix>
void score_block(const Rows<Matrix>& rows, const HeadModel& model, std::int64_t leaf, ScoreRoom& room) {
  const std::int64_t first = model.candidates.indptr[leaf], n_places = model.candidates.indptr[leaf + 1] - first;
  room.scores.resize(static_cast<std::size_t>(rows.count * n_places));
  room.dots.resize(static_cast<std::size_t>(rows.count));
  const auto add = [&](const UnitWeights& weights, std::int64_t unit, std::int64_t shift, float scale,
                       std::int64_t place) {
    unit_dots(rows, weights, unit, shift, room, room.dots.data());
    for (std::int64_t i = 0; i < rows.count; ++i) room.scores[i * n_places + place] += scale * room.dots[i];
  };
  for (std::int64_t place = 0; place < n_places; ++place) {
    const std::int64_t slot = first + place, unit = model.by_slot ? slot : model.candidates.indices[slot];
    for (std::int64_t i = 0; i < rows.count; ++i) room.scores[i * n_places + place] = model.slot_bias[slot];
    add(model.weights, unit, 0, 1, place);
    for (std::int64_t q = 0; q < model.n_codes; ++q) {
      add(model.weights, unit, (q + 1) * model.code_shift, model.codes[leaf * model.n_codes + q], place);
    }
    if (model.has_deviations) add(model.deviations, slot, 0, 1, place);
  }
}

// Calls use(rows of a block, its leaf, room with their scores) for all rows.
template <class Matrix, class Use>
void each_block(const Matrix& X, const HeadModel& model, const std::int32_t* leaves, int n_threads, const Use& use) {
  std::vector<std::pair<std::int32_t, std::int64_t>> order;
  order.reserve(static_cast<std::size_t>(X.n_rows));
  for (std::int64_t row = 0; row < X.n_rows; ++row) order.emplace_back(leaves[row], row);
  std::sort(order.begin(), order.end());
  std::vector<std::int64_t> numbers;
  std::vector<Block> blocks;
  for (const auto& [leaf, row] : order) {
    const std::int64_t at = static_cast<std::int64_t>(numbers.size());
    if (blocks.empty() || blocks.back().leaf != leaf || at - blocks.back().begin == kRowsPerBlock) {
      blocks.push_back({leaf, at, at});
    }
    ++blocks.back().end;
    numbers.push_back(row);
  }
  Lender<ScoreRoom> lender;
  parallel_for(static_cast<std::int64_t>(blocks.size()), n_threads, [&](std::int64_t b) {
    const Block& block = blocks[static_cast<std::size_t>(b)];
    lender.lend([&](ScoreRoom& room) {
      const Rows<Matrix> rows{X, numbers.data() + block.begin, block.end - block.begin};
      score_block(rows, model, block.leaf, room);
      use(rows, block.leaf, room);
    });
  });
}

template <class Matrix>
void all_scores(const Matrix& X, const HeadModel& model, const std::int32_t* leaves, const std::int64_t* begin,
                int n_threads, float* out) {
  each_block(X, model, leaves, n_threads, [&](const Rows<Matrix>& rows, std::int64_t leaf, const ScoreRoom& room) {
    const std::int64_t n_places = model.candidates.indptr[leaf + 1] - model.candidates.indptr[leaf];
    for (std::int64_t i = 0; i < rows.count; ++i) {
      std::copy_n(room.scores.data() + i * n_places, n_places, out + begin[rows.numbers[i]]);
    }
  });
}

template <class Matrix>
void all_top_k(const Matrix& X, const HeadModel& model, const std::int32_t* leaves, std::int64_t k, int n_threads,
               std::int32_t* labels, float* scores) {
  each_block(X, model, leaves, n_threads, [&](const Rows<Matrix>& rows, std::int64_t leaf, const ScoreRoom& room) {
    const std::int64_t first = model.candidates.indptr[leaf], n_places = model.candidates.indptr[leaf + 1] - first;
    for (std::int64_t i = 0; i < rows.count; ++i) {
      std::int32_t* best = labels + rows.numbers[i] * k;
      top_k_dense(room.scores.data() + i * n_places, 1, n_places, k, 1, best, scores + rows.numbers[i] * k);
      for (std::int64_t j = 0; j < k; ++j) best[j] = best[j] < 0 ? -1 : model.candidates.indices[first + best[j]];
    }
  });
}

}  // namespace

void head_scores(const CsrView& X, const HeadModel& model, const std::int32_t* leaves, const std::int64_t* begin,
                 int n_threads, float* out) {
  all_scores(X, model, leaves, begin, n_threads, out);
}

void head_scores(const DenseView& X, const HeadModel& model, const std::int32_t* leaves, const std::int64_t* begin,
                 int n_threads, float* out) {
  all_scores(X, model, leaves, begin, n_threads, out);
}

void head_top_k(const CsrView& X, const HeadModel& model, const std::int32_t* leaves, std::int64_t k, int n_threads,
                std::int32_t* labels, float* scores) {
  all_top_k(X, model, leaves, k, n_threads, labels, scores);
}

void head_top_k(const DenseView& X, const HeadModel& model, const std::int32_t* leaves, std::int64_t k, int n_threads,
                std::int32_t* labels, float* scores) {
  all_top_k(X, model, leaves, k, n_threads, labels, scores);
}

}  // namespace labelprism
