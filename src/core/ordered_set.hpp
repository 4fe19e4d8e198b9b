// A set of small numbers that is read in ascending order without a sort: a bit for every number, and a bit for every
// word of these that is not 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace labelprism {

class OrderedSet {
 public:
  // For numbers from 0 up to `bound`; whatever was in the set is gone.
  void make_room(std::int64_t bound) {
    words_.assign(static_cast<std::size_t>(bound / 64 + 1), 0);
    used_.assign(words_.size() / 64 + 1, 0);
  }

  void insert(std::int32_t inserted) {
    const auto number = static_cast<std::uint32_t>(inserted);
    words_[number >> 6] |= std::uint64_t{1} << (number & 63);
    used_[number >> 12] |= std::uint64_t{1} << ((number >> 6) & 63);
  }

  // Takes all numbers out, in ascending order.
  template <class Visit>
  void empty(const Visit& visit) {
    for (std::size_t u = 0; u < used_.size(); ++u) {
      for (; used_[u]; used_[u] &= used_[u] - 1) {
        const std::size_t w = 64 * u + lowest_bit(used_[u]);
        for (; words_[w]; words_[w] &= words_[w] - 1) visit(static_cast<std::int64_t>(64 * w + lowest_bit(words_[w])));
      }
    }
  }

 private:
  static std::size_t lowest_bit(std::uint64_t bits) { return static_cast<std::size_t>(__builtin_ctzll(bits)); }

  std::vector<std::uint64_t> words_, used_;
};

}  // namespace labelprism
