#include "block_algebra.hpp"

#include <algorithm>
#include <cmath>

#include "block_kernels.hpp"
#include "thread_pool.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kRowsPerSum = 1024;  // sums of so many products are taken in single precision
constexpr std::int64_t kRowsPerTask = 16 * kRowsPerSum;

// What is left of a column when the others are taken off it is rounding, if its square is this small beside all of z;
// or, in the second round, when columns have length 1, if most of it goes once more.
constexpr double kRounding = 1e-10;
constexpr double kMostOfIt = 0.5;

double trace(const SquareMatrix& matrix) {
  double sum = 0;
  for (int i = 0; i < matrix.n; ++i) sum += matrix(i, i);
  return sum;
}

std::int64_t rows_of(const Block& block) { return static_cast<std::int64_t>(block.size()) / kBlock; }

}  // namespace

SquareMatrix inner_products(const Block& a, const Block& b, int n_threads) {
  const BlockKernels& kernels = block_kernels();
  const std::int64_t n = rows_of(a), n_sums = (n + kRowsPerSum - 1) / kRowsPerSum;
  std::vector<Coefficients> sums(static_cast<std::size_t>(n_sums));
  parallel_ranges(n, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; row += kRowsPerSum) {
      kernels.gram(a.data() + row * kBlock, b.data() + row * kBlock, std::min(kRowsPerSum, end - row),
                   sums[static_cast<std::size_t>(row / kRowsPerSum)].data());
    }
  });
  SquareMatrix total(kBlock);
  for (const Coefficients& sum : sums) {
    for (std::size_t i = 0; i < sum.size(); ++i) total.values[i] += sum[i];
  }
  return total;
}

void add_combination(const Block& a, const Coefficients& coefficients, int n_threads, Block& z) {
  const BlockKernels& kernels = block_kernels();
  parallel_ranges(rows_of(z), kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    kernels.combine(a.data() + begin * kBlock, coefficients.data(), end - begin, true, z.data() + begin * kBlock);
  });
}

void transform(const Coefficients& coefficients, int n_threads, Block& z) {
  const BlockKernels& kernels = block_kernels();
  parallel_ranges(rows_of(z), kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    float* rows = z.data() + begin * kBlock;
    kernels.combine(rows, coefficients.data(), end - begin, false, rows);
  });
}

// Scales z by a power of two, which rounds nothing, so that its largest element lies between 1 and 2: squares of the
// elements of X'D Xh would not fit a float for features in large units.
static void scale_to_unit(int n_threads, Block& z) {
  float largest = 0;
  for (const float value : z) largest = std::max(largest, std::abs(value));
  if (!(largest > 0) || !std::isfinite(largest)) return;
  Coefficients scale{};
  for (std::size_t j = 0; j < kBlock; ++j) scale[j * kBlock + j] = std::ldexp(1.0f, -std::ilogb(largest));
  transform(scale, n_threads, z);
}

void orthonormalise(const std::vector<Block>& basis, int n_threads, Block& z) {
  scale_to_unit(n_threads, z);
  // Twice is enough: the second round takes off what rounding left in the first.
  double smallest = kRounding * trace(inner_products(z, z, n_threads));
  for (int round = 0; round < 2; ++round) {
    for (const Block& block : basis) {
      const SquareMatrix products = inner_products(block, z, n_threads);
      Coefficients minus;
      std::transform(products.values.begin(), products.values.end(), minus.begin(),
                     [](double value) { return static_cast<float>(-value); });
      add_combination(block, minus, n_threads, z);
    }
    const Eigenpairs eigen = symmetric_eigen(inner_products(z, z, n_threads));
    Coefficients scaled{};
    for (int j = 0; j < kBlock; ++j) {
      if (!(eigen.values[j] > smallest)) continue;
      for (int i = 0; i < kBlock; ++i) {
        scaled[static_cast<std::size_t>(i * kBlock + j)] =
            static_cast<float>(eigen.vectors(i, j) / std::sqrt(eigen.values[j]));
      }
    }
    transform(scaled, n_threads, z);
    smallest = kMostOfIt;
  }
}

}  // namespace labelprism
