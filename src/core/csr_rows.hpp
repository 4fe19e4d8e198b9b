// Copies of the rows of a CSR matrix: sorted, or in another order.
#pragma once

#include <cstdint>

#include "csr.hpp"

namespace labelprism {

// Writes all rows, each by ascending column. Returns whether no row has a column twice; where one has, their order is
// not said.
bool sort_rows(const CsrView& matrix, int n_threads, std::int32_t* indices, float* data);

// Writes the rows of these numbers, which are in range, one after the other; `indptr` is theirs.
void gather_rows(const CsrView& matrix, const std::int64_t* rows, std::int64_t count, const std::int64_t* indptr,
                 int n_threads, std::int32_t* indices, float* data);

}  // namespace labelprism
