// The n largest of many sums, in one pass that jumps neither at a sum that is small nor at one that is large: which of
// them comes next cannot be foretold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

namespace labelprism {

class Strongest {
 public:
  void begin(std::size_t wanted) {
    wanted_ = wanted;
    if (keys_.size() < 2 * wanted + kSpare) keys_.resize(2 * wanted + kSpare);
    count_ = 0;
    least_ = key_of(0.0f, 0);
  }

  // Takes note of a label; none may come twice, and sums that are not above 0 are passed over.
  void offer(float sum, std::int32_t label) {
    const std::int64_t key = key_of(sum, label);
    keys_[count_] = key;  // noted in any case and kept if it is large
    count_ += key > least_ ? 1 : 0;
    if (count_ == keys_.size()) shrink();
  }

  // Appends the labels of the largest sums, of equals the smaller ones, in any order.
  void take(std::vector<std::int32_t>& labels) {
    if (count_ > wanted_) shrink();
    for (std::size_t i = 0; i < count_; ++i) labels.push_back(static_cast<std::int32_t>(~keys_[i] & 0x7FFFFFFF));
  }

 private:
  static constexpr std::size_t kSpare = 64;

  // Ordered as the sums are, and of equals the smaller label is the larger one: the bits of a positive float are.
  static std::int64_t key_of(float sum, std::int32_t label) {
    std::int32_t bits;
    std::memcpy(&bits, &sum, sizeof bits);
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(static_cast<std::uint32_t>(bits)) << 32 |
                                     static_cast<std::uint32_t>(~label));
  }

  // Leaves the `wanted_` largest; what comes must be larger than the least of these.
  void shrink() {
    const auto first = keys_.begin(), last = first + static_cast<std::ptrdiff_t>(wanted_) - 1;
    std::nth_element(first, last, first + static_cast<std::ptrdiff_t>(count_), std::greater<>());
    least_ = *last;
    count_ = wanted_;
  }

  std::vector<std::int64_t> keys_;  // the first `count_` of them
  std::size_t wanted_ = 0, count_ = 0;
  std::int64_t least_ = 0;
};

}  // namespace labelprism
