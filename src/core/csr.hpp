// The matrices as every kernel sees them.
#pragma once

#include <cstdint>

namespace labelprism {

// A view of a CSR matrix. Kernels trust it: the bindings check shapes and the range of every index beforehand.
struct CsrView {
  std::int64_t n_rows;
  std::int64_t n_columns;
  const std::int64_t* indptr;   // n_rows + 1
  const std::int32_t* indices;  // indptr[n_rows], each in [0, n_columns)
  const float* data;            // as many; null stands for ones everywhere (label matrices)
};

// A view of a dense matrix, row by row.
struct DenseView {
  std::int64_t n_rows;
  std::int64_t n_columns;
  const float* data;
};

// A row of X: features and their values.
struct SparseRow {
  const std::int32_t* features;
  const float* values;
  std::int64_t count;
};

inline SparseRow sparse_row(const CsrView& X, std::int64_t row) {
  const std::int64_t first = X.indptr[row];
  return {X.indices + first, X.data + first, X.indptr[row + 1] - first};
}

}  // namespace labelprism
