// Lists by feature are looked up for a row's strongest features only: the lists of weak ones, which end after their
// strongest entries, make rows of many features slow, and what is found worse.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "block_kernels.hpp"
#include "largest.hpp"

namespace labelprism {

// The size from which on values are among the `n_strong` largest of a row.
inline float least_strong_value(const BlockKernels& kernels, const SparseRow& row, std::int64_t n_strong,
                                std::vector<float>& sizes) {
  if (row.count <= n_strong) return 0;
  const auto count = static_cast<std::size_t>(row.count), padded = padded_to_eight(count);
  if (sizes.size() < padded) sizes.resize(padded);
  for (std::size_t t = 0; t < count; ++t) sizes[t] = std::fabs(row.values[t]);
  std::fill(sizes.begin() + row.count, sizes.begin() + static_cast<std::ptrdiff_t>(padded), 0.0f);
  return kernels.nth_largest(sizes.data(), static_cast<std::int64_t>(padded), n_strong);
}

}  // namespace labelprism
