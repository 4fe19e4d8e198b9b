// The k best columns of every row.
#pragma once

#include "csr.hpp"

namespace labelprism {

// Best first; equal scores by smaller column. A score of -infinity or NaN is never chosen. Rows with fewer than k
// columns to choose from end in columns of -1 with scores of -infinity. Both outputs are [n_rows][k].
void top_k_dense(const float* scores, std::int64_t n_rows, std::int64_t n_columns, std::int64_t k, int n_threads,
                 std::int32_t* best_columns, float* best_scores);

// The same over the stored entries of a CSR matrix.
void top_k_csr(const CsrView& scores, std::int64_t k, int n_threads, std::int32_t* best_columns, float* best_scores);

}  // namespace labelprism
