// Products of a matrix with a dense block of vectors, in parallel and with the same bits for any number of threads.
#pragma once

#include "csr.hpp"

namespace labelprism {

// out = matrix * block; block is [n_columns][width], out is [n_rows][width].
void csr_times_block(const CsrView& matrix, const float* block, std::int64_t width, int n_threads, float* out);

// out = matrix' * diag(row_weight) * block; block is [n_rows][width], out is [n_columns][width].
// With the label matrix as `matrix` these are the weighted class sums Y'D Z. A null row_weight stands for ones.
void csr_transposed_times_block(const CsrView& matrix, const float* row_weight, const float* block, std::int64_t width,
                                int n_threads, float* out);

// The same two under one name, for code that takes either kind of matrix; dense ones take blocks of 8 only.
inline void times_block(const CsrView& matrix, const float* block, int n_threads, float* out) {
  csr_times_block(matrix, block, 8, n_threads, out);
}
inline void transposed_times_block(const CsrView& matrix, const float* row_weight, const float* block, int n_threads,
                                   float* out) {
  csr_transposed_times_block(matrix, row_weight, block, 8, n_threads, out);
}
void times_block(const DenseView& matrix, const float* block, int n_threads, float* out);
void transposed_times_block(const DenseView& matrix, const float* row_weight, const float* block, int n_threads,
                            float* out);

// out = Y'D Y block for a matrix of ones Y and blocks of 8: [n_columns][8] to [n_columns][8].
void normal_times_block(const CsrView& Y, const float* row_weight, const float* block, int n_threads, float* out);

// out = X block for a dense X, [n_rows][width], with width a multiple of 8. Every row is added up in the same order
// wherever it stands, which BLAS does not promise.
void dense_times_block(const DenseView& X, const float* block, std::int64_t width, int n_threads, float* out);

}  // namespace labelprism
