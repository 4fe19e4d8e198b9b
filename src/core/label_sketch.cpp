#include "label_sketch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "block_products.hpp"
#include "scramble.hpp"

namespace labelprism {
namespace {

constexpr double kRounding = 1e-7;  // directions of Z that are shorter than the longest by this factor are rounding

// Subtracts the weighted mean of each column: 1'D block = 0.
void centre(const float* weight, Block& block) {
  std::array<double, kBlock> sums{};
  double mass = 0;
  const std::size_t n = block.size() / kBlock;
  for (std::size_t row = 0; row < n; ++row) {
    mass += weight[row];
    for (int j = 0; j < kBlock; ++j) sums[j] += static_cast<double>(weight[row]) * block[row * kBlock + j];
  }
  std::array<float, kBlock> means;
  for (int j = 0; j < kBlock; ++j) means[j] = static_cast<float>(mass > 0 ? sums[j] / mass : 0);
  for (std::size_t row = 0; row < n; ++row) {
    for (int j = 0; j < kBlock; ++j) block[row * kBlock + j] -= means[j];
  }
}

Block random_codes(std::int64_t n_labels, std::uint64_t seed) {
  Block codes(static_cast<std::size_t>(n_labels) * kBlock);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<float>(2 * uniform(scramble(seed + i)) - 1);
  return codes;
}

// 1 over the mass of each label.
std::vector<float> inverse_masses(const CsrView& Y, const float* weight) {
  std::vector<float> masses(static_cast<std::size_t>(Y.n_columns), 0.0f);
  for (std::int64_t row = 0; row < Y.n_rows; ++row) {
    for (std::int64_t t = Y.indptr[row]; t < Y.indptr[row + 1]; ++t) {
      masses[static_cast<std::size_t>(Y.indices[t])] += weight[row];
    }
  }
  for (float& mass : masses) mass = mass > 0 ? 1 / mass : 0;
  return masses;
}

// Scales all columns by one power of two, so that no size of X overflows however many steps there are.
void scale_to_unit(Block& block) {
  float largest = 0;
  for (const float value : block) largest = std::max(largest, std::abs(value));
  if (!(largest > 0) || !std::isfinite(largest)) return;
  const float scale = std::ldexp(1.0f, -std::ilogb(largest));
  for (float& value : block) value *= scale;
}

// The combination a of the columns that is largest by `objective` among those of length 1 by `lengths`, or, for a
// `rank` above 0, the best of those orthogonal to so many better ones; and how large.
std::pair<double, std::array<double, kBlock>> best_combination(const SquareMatrix& objective,
                                                               const SquareMatrix& lengths, int rank) {
  const Eigenpairs basis = symmetric_eigen(lengths);
  SquareMatrix white(kBlock);  // its columns are combinations of length 1, orthogonal to each other
  for (int j = 0; j < kBlock; ++j) {
    if (!(basis.values[j] > kRounding * basis.values[0])) continue;
    for (int i = 0; i < kBlock; ++i) white(i, j) = basis.vectors(i, j) / std::sqrt(basis.values[j]);
  }
  SquareMatrix reduced(kBlock), half(kBlock);
  for (int i = 0; i < kBlock; ++i) {
    for (int j = 0; j < kBlock; ++j) {
      for (int k = 0; k < kBlock; ++k) half(i, j) += (objective(i, k) + objective(k, i)) / 2 * white(k, j);
    }
  }
  for (int i = 0; i < kBlock; ++i) {
    for (int j = 0; j <= i; ++j) {
      for (int k = 0; k < kBlock; ++k) reduced(i, j) += white(k, i) * half(k, j);
      reduced(j, i) = reduced(i, j);
    }
  }
  const Eigenpairs top = symmetric_eigen(reduced);
  std::array<double, kBlock> best{};
  for (int i = 0; i < kBlock; ++i) {
    for (int k = 0; k < kBlock; ++k) best[i] += white(i, k) * top.vectors(k, rank);
  }
  return {std::max(top.values[rank], 0.0), best};
}

}  // namespace

template <class Matrix>
LabelSketch label_sketch(const Matrix& X, const CsrView& Y, const float* weight, int steps, std::uint64_t seed) {
  const std::vector<float> inverse = inverse_masses(Y, weight);
  Block codes = random_codes(Y.n_columns, seed), sums(codes.size());
  Block rows(static_cast<std::size_t>(X.n_rows) * kBlock), features(static_cast<std::size_t>(X.n_columns) * kBlock);
  for (int step = 0; step < steps; ++step) {
    times_block(Y, codes.data(), 1, rows.data());
    centre(weight, rows);
    scale_to_unit(rows);
    transposed_times_block(X, weight, rows.data(), 1, features.data());
    times_block(X, features.data(), 1, rows.data());
    centre(weight, rows);
    transposed_times_block(Y, weight, rows.data(), 1, sums.data());
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = sums[i] * inverse[i / kBlock];
  }
  SquareMatrix objective = inner_products(sums, codes, 1), lengths = inner_products(features, features, 1);
  return {std::move(features), std::move(objective), std::move(lengths)};
}

Direction LabelSketch::direction(int rank) const {
  const auto [eigenvalue, best] = best_combination(objective, lengths, rank);
  Direction direction{eigenvalue, std::vector<float>(features.size() / kBlock)};
  for (std::size_t f = 0; f < direction.weights.size(); ++f) {
    double sum = 0;
    for (int j = 0; j < kBlock; ++j) sum += best[j] * features[f * kBlock + j];
    direction.weights[f] = static_cast<float>(sum);
  }
  return direction;
}

template LabelSketch label_sketch(const CsrView&, const CsrView&, const float*, int, std::uint64_t);
template LabelSketch label_sketch(const DenseView&, const CsrView&, const float*, int, std::uint64_t);

}  // namespace labelprism
