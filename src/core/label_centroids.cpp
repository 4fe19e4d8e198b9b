#include "label_centroids.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

#include "large_vector.hpp"
#include "node_rows.hpp"
#include "nth_largest.hpp"
#include "sparse_sum.hpp"
#include "thread_pool.hpp"
#include "weight_pairs.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kLabelsPerTask = 128;
constexpr std::int64_t kValuesPerTask = 1 << 16;
constexpr double kSmallestNorm = 1e-12;

float rounded(float value) { return from_half(to_half(value)); }

// The rows of each label, ascending.
struct RowsOfLabels {
  LargeVector<std::int64_t> begin;
  LargeVector<std::int32_t> rows;

  explicit RowsOfLabels(const CsrView& Y) {
    begin.assign(static_cast<std::size_t>(Y.n_columns) + 2, 0);
    rows.resize(static_cast<std::size_t>(Y.indptr[Y.n_rows]));
    // Counts are two places further on, where they become the places that are filled, and then begins.
    for (std::int64_t t = 0; t < Y.indptr[Y.n_rows]; ++t) ++begin[static_cast<std::size_t>(Y.indices[t]) + 2];
    for (std::size_t i = 2; i < begin.size(); ++i) begin[i] += begin[i - 1];
    for (std::int64_t row = 0; row < Y.n_rows; ++row) {
      for (std::int64_t t = Y.indptr[row]; t < Y.indptr[row + 1]; ++t) {
        const std::int64_t at = begin[static_cast<std::size_t>(Y.indices[t]) + 1]++;
        rows[static_cast<std::size_t>(at)] = static_cast<std::int32_t>(row);
      }
    }
  }
};

// What a thread needs, however many labels it sees.
struct Room {
  SparseSum sum;
  std::vector<std::int32_t> columns;  // of the label at hand,
  std::vector<float> values;          // and their sums
  std::vector<float> ranked;
  LargestValues largest;
};

// Calls make(row, room, piece) for every row of a result, where `make` writes it to the piece and ends it.
template <class Make>
void make_rows(std::int64_t n_rows, std::int64_t n_columns, int n_threads, GrowingCsr& result, const Make& make) {
  Lender<Room> rooms;
  std::vector<GrowingCsr> pieces(static_cast<std::size_t>((n_rows + kLabelsPerTask - 1) / kLabelsPerTask));
  parallel_ranges(n_rows, kLabelsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    GrowingCsr& piece = pieces[static_cast<std::size_t>(begin / kLabelsPerTask)];
    rooms.lend([&](Room& room) {
      if (!room.sum.has_room()) room.sum.make_room(n_columns);
      for (std::int64_t row = begin; row < end; ++row) make(row, room, piece);
    });
  });
  result.join(pieces, n_threads);
}

void add_rows(const LabelledRows& rows, const RowsOfLabels& of_labels, std::int64_t label, SparseSum& sum) {
  const auto begin = static_cast<std::size_t>(of_labels.begin[static_cast<std::size_t>(label)]);
  const auto end = static_cast<std::size_t>(of_labels.begin[static_cast<std::size_t>(label) + 1]);
  for (std::size_t i = begin; i < end; ++i) {
    const std::int32_t row = of_labels.rows[i];
    sum.add(rows.X, row, rows.weight ? rows.weight[row] : 1.0f);
  }
}

void add_centroid(const std::int32_t* columns, const float* values, std::int64_t count, double norm,
                  std::int64_t n_features, Room& room, GrowingCsr& centroids) {
  constexpr float never = -std::numeric_limits<float>::infinity();  // is kept, nor is NaN
  Threshold<float> least{never, 0};
  if (count > n_features) {
    room.ranked.clear();
    std::copy_if(values, values + count, std::back_inserter(room.ranked), [](float value) { return value > never; });
    if (static_cast<std::int64_t>(room.ranked.size()) > n_features) {
      least = room.largest.threshold(room.ranked.data(), room.ranked.size(), n_features);
    }
  }
  const double divisor = std::max(norm, kSmallestNorm);
  for (std::int64_t t = 0; t < count; ++t) {
    if (!least.admits(values[t])) continue;
    centroids.push(columns[t], rounded(static_cast<float>(values[t] / divisor)));
  }
  centroids.end_row();
}

}  // namespace

void label_sums(const LabelledRows& rows, int n_threads, GrowingCsr& sums) {
  const RowsOfLabels of_labels(rows.Y);
  make_rows(rows.Y.n_columns, rows.X.n_columns, n_threads, sums,
            [&](std::int64_t label, Room& room, GrowingCsr& piece) {
              add_rows(rows, of_labels, label, room.sum);
              room.sum.empty([&](std::int32_t column, float value) { piece.push(column, value); });
              piece.end_row();
            });
}

void label_centroids(const LabelledRows& rows, const CsrView* start, std::int64_t n_features, int n_threads,
                     GrowingCsr& centroids, double* norms) {
  const RowsOfLabels of_labels(rows.Y);
  const auto make = [&](std::int64_t label, Room& room, GrowingCsr& piece) {
    if (start) room.sum.add(*start, label, 1.0f);
    add_rows(rows, of_labels, label, room.sum);
    room.columns.clear();
    room.values.clear();
    double square = 0;
    room.sum.empty([&](std::int32_t column, float value) {
      room.columns.push_back(column);
      room.values.push_back(value);
      square += static_cast<double>(value) * value;
    });
    norms[label] = std::sqrt(square);
    add_centroid(room.columns.data(), room.values.data(), static_cast<std::int64_t>(room.values.size()), norms[label],
                 n_features, room, piece);
  };
  make_rows(rows.Y.n_columns, rows.X.n_columns, n_threads, centroids, make);
}

void cut_centroids(const CsrView& sums, const double* norms, std::int64_t n_features, int n_threads,
                   GrowingCsr& centroids) {
  make_rows(sums.n_rows, 0, n_threads, centroids, [&](std::int64_t label, Room& room, GrowingCsr& piece) {
    const std::int64_t begin = sums.indptr[label];
    add_centroid(sums.indices + begin, sums.data + begin, sums.indptr[label + 1] - begin, norms[label], n_features,
                 room, piece);
  });
}

void mean_rows(const CsrView& matrix, std::int64_t n_rows, const float* shares, std::int64_t n_shares, float drop,
               int n_threads, GrowingCsr& mean) {
  const std::int64_t n_after = matrix.n_rows - n_rows * n_shares;
  const auto make = [&](std::int64_t row, Room& room, GrowingCsr& piece) {
    if (row < n_rows) {
      for (std::int64_t k = 0; k < n_shares; ++k) room.sum.add(matrix, k * n_rows + row, shares[k]);
      room.sum.empty([&](std::int32_t column, float value) {
        if (std::fabs(value) >= drop) piece.push(column, rounded(value));
      });
    } else {
      const std::int64_t from = n_rows * (n_shares - 1) + row, begin = matrix.indptr[from];
      const auto count = static_cast<std::size_t>(matrix.indptr[from + 1] - begin);
      piece.indices.append(matrix.indices + begin, count);
      piece.data.append(matrix.data + begin, count);
    }
    piece.end_row();
  };
  make_rows(n_rows + n_after, matrix.n_columns, n_threads, mean, make);
}

void round_to_half(const float* values, std::int64_t count, int n_threads, float* halves) {
  parallel_ranges(count, kValuesPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int32_t bits = bits_of(values[t]), half = bits_of(rounded(values[t]));
      halves[t] = float_of((bits & 0x7FFFFFFF) > 0x7F800000 ? bits : half);
    }
  });
}

}  // namespace labelprism
