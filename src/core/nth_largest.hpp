// Which of many values are the largest, by counting: std::nth_element mispredicts a jump for every other value.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

namespace labelprism {

// What a value must reach to be among the largest, and how many of those that just reach it are.
template <class T>
struct Threshold {
  T value;
  std::int64_t n_equal;

  // Whether the next value is among the largest; of equals the first ones are.
  bool admits(T next) { return next > value || (next == value && n_equal-- > 0); }
};

// The n largest of some values, where 1 <= n <= count; none is NaN.
class LargestValues {
 public:
  Threshold<float> threshold(const float* values, std::size_t count, std::int64_t n) {
    if (count < kFewValues) {
      ranked_.assign(values, values + count);
      return within(n);
    }
    // Sign, exponent and two bits of the fraction say in which range of values the last one lies.
    counts_.fill(0);
    for (std::size_t i = 0; i < count; ++i) ++counts_[range_of(values[i])];
    std::size_t range = counts_.size() - 1;
    while (counts_[range] < n) n -= counts_[range--];
    const auto size = static_cast<std::size_t>(counts_[range]);
    ranked_.resize(size + 1);  // one more than is found, which is written over again and again
    for (std::size_t i = 0, found = 0; i < count; ++i) {
      ranked_[found] = values[i];
      found += range_of(values[i]) == range;
    }
    ranked_.resize(size);
    return within(n);
  }

 private:
  static constexpr std::size_t kFewValues = 96;

  // Larger values have larger bits, with the sign turned around; of negative ones all bits are. -0 is 0.
  static std::size_t range_of(float value) {
    const float plain = value + 0.0f;
    std::uint32_t bits;
    std::memcpy(&bits, &plain, sizeof bits);
    return (bits ^ ((0u - (bits >> 31)) | 0x80000000u)) >> 21;
  }

  Threshold<float> within(std::int64_t n) {
    const auto last = ranked_.begin() + static_cast<std::ptrdiff_t>(n - 1);
    std::nth_element(ranked_.begin(), last, ranked_.end(), std::greater<float>());
    const float value = *last;
    return {value, n - std::count_if(ranked_.begin(), last, [&](float other) { return other > value; })};
  }

  std::array<std::int64_t, 2048> counts_;
  std::vector<float> ranked_;
};

// As numbers that are ordered as the float16 numbers are, -0 before 0.
inline std::uint16_t ordered_half(std::uint32_t half) {
  return static_cast<std::uint16_t>(half & 0x8000u ? ~half : half | 0x8000u);
}
inline std::uint16_t half_of_ordered(std::uint32_t ordered) {
  return static_cast<std::uint16_t>(ordered & 0x8000u ? ordered ^ 0x8000u : ~ordered);
}

// The same for numbers of 16 bits: the higher ones first, then the lower ones of those that have the same.
inline Threshold<std::uint16_t> threshold_of_halves(const std::uint16_t* ordered, std::size_t count, std::int64_t n) {
  std::array<std::int32_t, 256> counts{};
  const auto descend = [&] {
    std::size_t byte = counts.size() - 1;
    while (counts[byte] < n) n -= counts[byte--];
    return static_cast<std::uint32_t>(byte);
  };
  for (std::size_t i = 0; i < count; ++i) ++counts[ordered[i] >> 8];
  const std::uint32_t high = descend();
  counts.fill(0);
  for (std::size_t i = 0; i < count; ++i) counts[ordered[i] & 0xFFu] += ordered[i] >> 8 == high;
  return {static_cast<std::uint16_t>(high << 8 | descend()), n};
}

}  // namespace labelprism
