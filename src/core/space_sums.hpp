// Sums of vectors through rows: of the rows of each label by their features, or of the rows of each feature by labels.
#pragma once

#include <cstdint>

#include "csr.hpp"

namespace labelprism {

// out[k] += weight[r] * value * v[r] over the entries (r, k, value) of `to`, where v[r] is the sum of value *
// vectors[j] over the entries (r, j, value) of `from`, made unit if that is wanted. Vectors are of kSpaceWidth numbers;
// entries of a matrix without data are ones, and so are weights that are null. Rows are added one after the other, so
// that the result does not depend on n_threads.
void add_through_rows(const CsrView& from, const CsrView& to, const float* weight, const float* vectors, bool unit,
                      int n_threads, float* out);

// How many tasks share columns among them, by `is_of_part`: a power of 2, for a remainder takes longer than the rest.
inline std::int64_t parts_for(int n_threads) {
  std::int64_t n_parts = 1;
  while (n_parts < n_threads) n_parts *= 2;
  return n_parts;
}

// Neighbouring columns are of one part: numbers that a column has beside its vector fill a line of the cache.
inline bool is_of_part(std::int32_t column, std::int64_t part, std::int64_t n_parts) {
  return ((column >> 4) & (n_parts - 1)) == part;
}

}  // namespace labelprism
