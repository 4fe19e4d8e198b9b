#include "unicode.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <iterator>

namespace labelprism {
namespace {

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

struct Fold {
  std::uint16_t from;
  std::uint16_t to;
};

struct Expansion {
  std::uint16_t from;
  std::uint16_t to[5];  // at most 4, and a 0
};

#include "unicode_tables.inc"

template <std::size_t N>
bool contains(const Range (&ranges)[N], std::uint32_t code) {
  const Range* found = std::upper_bound(std::begin(ranges), std::end(ranges), code,
                                        [](std::uint32_t value, const Range& range) { return value < range.first; });
  return found != std::begin(ranges) && code <= std::prev(found)->last;
}

}  // namespace

CharClass CharClasses::look_up(std::uint32_t code) {
  if (contains(kIdeographRanges, code)) return CharClass::kIdeograph;
  if (contains(kWordRanges, code)) return CharClass::kWord;
  if (contains(kMarkRanges, code)) return CharClass::kMark;
  if (contains(kIgnoredRanges, code)) return CharClass::kIgnored;
  return CharClass::kBreak;
}

// Makes a table when it is first needed. A function-local static would do, but for fork: a child whose parent was just
// making the table would wait for its lock forever. Here two threads may both make one, and the second is thrown away.
template <class Table, class Make>
const Table& made_once(std::atomic<const Table*>& slot, const Make& make) {
  const Table* existing = slot.load(std::memory_order_acquire);
  if (existing == nullptr) {
    const Table* made = make();
    if (slot.compare_exchange_strong(existing, made)) return *made;
    delete made;
  }
  return *existing;
}

CharClasses::CharClasses() {
  using Table = std::array<CharClass, kBasicPlane>;
  static std::atomic<const Table*> slot{nullptr};
  basic_ = made_once(slot, [] {
             auto* classes = new Table;
             for (std::uint32_t code = 0; code < kBasicPlane; ++code) (*classes)[code] = look_up(code);
             return classes;
           }).data();
}

CharFolds::CharFolds() {
  struct Tables {
    std::array<std::uint16_t, kBasicPlane> folds;
    std::array<bool, kBasicPlane> simple;
  };
  static std::atomic<const Tables*> slot{nullptr};
  const Tables& tables = made_once(slot, [] {
    auto* made = new Tables;
    for (std::uint32_t code = 0; code < kBasicPlane; ++code) {
      made->folds[code] = static_cast<std::uint16_t>(code);
      made->simple[code] = contains(kSimpleRanges, code);
    }
    for (const Fold& fold : kFolds) made->folds[fold.from] = fold.to;
    for (const Expansion& expansion : kExpansions) made->folds[expansion.from] = kExpanded;
    return made;
  });
  folds_ = tables.folds.data();
  simple_ = tables.simple.data();
}

const std::uint16_t* CharFolds::expansion(std::uint32_t code) {
  const Expansion* found =
      std::lower_bound(std::begin(kExpansions), std::end(kExpansions), code,
                       [](const Expansion& expansion, std::uint32_t value) { return expansion.from < value; });
  return found->to;
}

bool is_space(std::uint32_t code) {
  return code == ' ' || (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x1F) || code == 0x85 ||
         code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200B) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

}  // namespace labelprism
