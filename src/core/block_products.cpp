#include "block_products.hpp"

#include <algorithm>
#include <vector>

#include "block_kernels.hpp"
#include "large_vector.hpp"
#include "thread_pool.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kRowsPerTask = 1024;
constexpr std::int64_t kColumnsPerTask = 4096;

// The transposed product adds rows into one accumulator per piece of rows, and the accumulators into the result in the
// order of the pieces. Pieces depend on the matrix alone, so the bits do not depend on the threads. A piece holds at
// least this many entries for each column, so that clearing and adding an accumulator costs little beside filling it.
constexpr std::int64_t kEntriesPerColumn = 8;
constexpr std::int64_t kEntriesPerPiece = std::int64_t{1} << 18;

std::int64_t entries_before(const CsrView& m, std::int64_t row) { return m.indptr[row]; }
std::int64_t entries_before(const DenseView& m, std::int64_t row) { return row * m.n_columns; }

// The first row of every piece, and n_rows at the end. The pieces hold about as many entries each, and their number is
// a power of two, so that two, four or eight threads all have the same to do.
template <class Matrix>
std::vector<std::int64_t> piece_bounds(const Matrix& m) {
  const std::int64_t total = entries_before(m, m.n_rows);
  const std::int64_t most = total / std::max(kEntriesPerPiece, kEntriesPerColumn * m.n_columns);
  std::int64_t n_pieces = 1;
  while (2 * n_pieces <= most) n_pieces *= 2;
  std::vector<std::int64_t> bounds{0};
  for (std::int64_t row = 1; row < m.n_rows; ++row) {
    const std::int64_t piece = static_cast<std::int64_t>(bounds.size());  // that begins here, if its share is reached
    if (piece < n_pieces && entries_before(m, row) >= total / n_pieces * piece) bounds.push_back(row);
  }
  bounds.push_back(m.n_rows);
  return bounds;
}

// Adds the pieces up; scatter(begin, end, accumulator) adds those rows to what it finds there.
template <class Matrix, class Scatter>
void transposed_product(const Matrix& m, std::int64_t width, int n_threads, float* out, const Scatter& scatter) {
  const std::vector<std::int64_t> bounds = piece_bounds(m);
  const std::int64_t n_pieces = static_cast<std::int64_t>(bounds.size()) - 1;
  const std::int64_t size = m.n_columns * width;
  const auto fill = [&](std::int64_t piece, float* accumulator) {
    std::fill(accumulator, accumulator + size, 0.0f);
    scatter(bounds[piece], bounds[piece + 1], accumulator);
  };

  // Pieces are taken in waves of as many as there are threads; the first piece needs no accumulator but the result.
  const std::int64_t wave = std::clamp<std::int64_t>(n_threads, 1, n_pieces);
  std::vector<LargeVector<float>> accumulators(wave);
  for (std::int64_t first = 0; first < n_pieces; first += wave) {
    const std::int64_t count = std::min(wave, n_pieces - first);
    parallel_for(count, n_threads, [&](std::int64_t i) {
      if (first + i == 0) return fill(0, out);
      accumulators[i].resize(size);
      fill(first + i, accumulators[i].data());
    });
    parallel_ranges(m.n_columns, kColumnsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = first == 0 ? 1 : 0; i < count; ++i) {
        const float* from = accumulators[i].data();
        for (std::int64_t j = begin * width; j < end * width; ++j) out[j] += from[j];
      }
    });
  }
}

}  // namespace

void csr_times_block(const CsrView& m, const float* block, std::int64_t width, int n_threads, float* out) {
  const BlockKernels& kernels = block_kernels();
  parallel_ranges(m.n_rows, kRowsPerTask, n_threads,
                  [&](std::int64_t begin, std::int64_t end) { kernels.gather(m, begin, end, block, width, out); });
}

void csr_transposed_times_block(const CsrView& m, const float* row_weight, const float* block, std::int64_t width,
                                int n_threads, float* out) {
  const BlockKernels& kernels = block_kernels();
  transposed_product(m, width, n_threads, out, [&](std::int64_t begin, std::int64_t end, float* accumulator) {
    std::vector<float> scaled(static_cast<std::size_t>(width));
    kernels.scatter(m, begin, end, row_weight, block, width, scaled.data(), accumulator);
  });
}

void times_block(const DenseView& m, const float* block, int n_threads, float* out) {
  const BlockKernels& kernels = block_kernels();
  parallel_ranges(m.n_rows, kRowsPerTask, n_threads,
                  [&](std::int64_t begin, std::int64_t end) { kernels.gather_dense(m, begin, end, block, out); });
}

void transposed_times_block(const DenseView& m, const float* row_weight, const float* block, int n_threads,
                            float* out) {
  const BlockKernels& kernels = block_kernels();
  transposed_product(m, 8, n_threads, out, [&](std::int64_t begin, std::int64_t end, float* accumulator) {
    kernels.scatter_dense(m, begin, end, row_weight, block, accumulator);
  });
}

void normal_times_block(const CsrView& Y, const float* row_weight, const float* block, int n_threads, float* out) {
  const BlockKernels& kernels = block_kernels();
  transposed_product(Y, 8, n_threads, out, [&](std::int64_t begin, std::int64_t end, float* accumulator) {
    kernels.normal(Y, begin, end, row_weight, block, accumulator);
  });
}

void dense_times_block(const DenseView& X, const float* block, std::int64_t width, int n_threads, float* out) {
  typedef float Eight __attribute__((vector_size(32), aligned(4), may_alias));
  constexpr std::int64_t kRowsAtOnce = 4;
  parallel_ranges(X.n_rows, 256, n_threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; row += kRowsAtOnce) {
      const std::int64_t n = std::min(kRowsAtOnce, end - row);
      for (std::int64_t q = 0; q < width; q += 8) {
        Eight sums[kRowsAtOnce] = {};
        for (std::int64_t j = 0; j < X.n_columns; ++j) {
          const Eight lanes = *reinterpret_cast<const Eight*>(block + j * width + q);
          for (std::int64_t r = 0; r < n; ++r) sums[r] += X.data[(row + r) * X.n_columns + j] * lanes;
        }
        for (std::int64_t r = 0; r < n; ++r) *reinterpret_cast<Eight*>(out + (row + r) * width + q) = sums[r];
      }
    }
  });
}

}  // namespace labelprism
