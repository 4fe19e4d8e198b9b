// The places of the largest of many sums.
#pragma once

#include <cstdint>
#include <vector>

#include "block_kernels.hpp"

namespace labelprism {

// Sums that a kernel reads eight at a time have zeros behind them.
inline std::size_t padded_to_eight(std::size_t count) { return (count + 7) / 8 * 8; }

class Largest {
 public:
  // Finds the `wanted` largest of those values that are above 0; count is a multiple of 8. Where several equal the
  // least of them, there may be more.
  void find(const BlockKernels& kernels, const float* values, std::size_t count, std::int64_t wanted) {
    if (places_.size() < count + 16) places_.resize(count + 16);
    const auto size = static_cast<std::int64_t>(count);
    least_ = kernels.nth_largest(values, size, wanted);
    count_ = static_cast<std::size_t>(kernels.places_from(values, size, least_, places_.data()));
  }

  // Drops so many of the values that equal the least: those that come last.
  void drop_last(const float* values, std::size_t n_dropped) {
    std::size_t from = count_;
    while (n_dropped > 0 && from-- > 0) {
      if (values[places_[from]] != least_) continue;
      for (std::size_t i = from; i + 1 < count_; ++i) places_[i] = places_[i + 1];
      --count_;
      --n_dropped;
    }
  }

  // Ascending.
  const std::int32_t* begin() const { return places_.data(); }
  const std::int32_t* end() const { return places_.data() + count_; }
  std::size_t size() const { return count_; }
  float least() const { return least_; }

 private:
  std::vector<std::int32_t> places_;
  std::size_t count_ = 0;
  float least_ = 0;
};

}  // namespace labelprism
