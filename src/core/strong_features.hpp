// Lists by feature are looked up for a row's strongest features only: the lists of weak ones, which end after their
// strongest entries, make rows of many features slow, and what is found worse.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "block_kernels.hpp"

namespace labelprism {

// The size from which on values are among the `n_strong` largest of a row.
inline float least_strong_value(const SparseRow& row, std::int64_t n_strong, std::vector<float>& sizes) {
  if (row.count <= n_strong) return 0;
  sizes.resize(static_cast<std::size_t>(row.count));
  std::transform(row.values, row.values + row.count, sizes.begin(), [](float value) { return std::fabs(value); });
  const auto last = sizes.begin() + (n_strong - 1);
  std::nth_element(sizes.begin(), last, sizes.end(), std::greater<>());
  return *last;
}

}  // namespace labelprism
