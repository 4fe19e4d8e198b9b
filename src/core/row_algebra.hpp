// Single rows of a sparse or dense matrix: products with a vector, and additions to it.
#pragma once

#include "csr.hpp"

namespace labelprism {

// Two sums side by side: additions wait for each other, multiplications do not.
inline float row_dot(const CsrView& X, std::int64_t row, const float* w) {
  const std::int64_t end = X.indptr[row + 1];
  std::int64_t t = X.indptr[row];
  float even = 0, odd = 0;
  for (; t + 1 < end; t += 2) {
    even += w[X.indices[t]] * X.data[t];
    odd += w[X.indices[t + 1]] * X.data[t + 1];
  }
  if (t < end) even += w[X.indices[t]] * X.data[t];
  return even + odd;
}

inline float row_dot(const DenseView& X, std::int64_t row, const float* w) {
  constexpr int kSums = 8;
  const float* x = X.data + row * X.n_columns;
  float sums[kSums] = {};
  std::int64_t j = 0;
  for (; j + kSums <= X.n_columns; j += kSums) {
    for (int i = 0; i < kSums; ++i) sums[i] += w[j + i] * x[j + i];
  }
  for (; j < X.n_columns; ++j) sums[0] += w[j] * x[j];
  float sum = 0;
  for (const float part : sums) sum += part;
  return sum;
}

inline void add_row(const CsrView& X, std::int64_t row, float scale, float* w) {
  for (std::int64_t t = X.indptr[row]; t < X.indptr[row + 1]; ++t) w[X.indices[t]] += scale * X.data[t];
}

inline void add_row(const DenseView& X, std::int64_t row, float scale, float* w) {
  const float* x = X.data + row * X.n_columns;
  for (std::int64_t j = 0; j < X.n_columns; ++j) w[j] += scale * x[j];
}

inline float row_square(const CsrView& X, std::int64_t row) {
  float sum = 0;
  for (std::int64_t t = X.indptr[row]; t < X.indptr[row + 1]; ++t) sum += X.data[t] * X.data[t];
  return sum;
}

inline float row_square(const DenseView& X, std::int64_t row) {
  const float* x = X.data + row * X.n_columns;
  float sum = 0;
  for (std::int64_t j = 0; j < X.n_columns; ++j) sum += x[j] * x[j];
  return sum;
}

}  // namespace labelprism
