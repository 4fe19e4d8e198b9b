#include "unicode.hpp"

#include <algorithm>
#include <array>
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

CharClasses::CharClasses() {
  static const auto* const table = [] {  // made once, never destroyed: threads may outlive static destructors
    auto* classes = new std::array<CharClass, kBasicPlane>;
    for (std::uint32_t code = 0; code < kBasicPlane; ++code) (*classes)[code] = look_up(code);
    return classes;
  }();
  basic_ = table->data();
}

CharFolds::CharFolds() {
  struct Tables {
    std::array<std::uint16_t, kBasicPlane> folds;
    std::array<bool, kBasicPlane> simple;
  };
  static const Tables* const tables = [] {
    auto* made = new Tables;
    for (std::uint32_t code = 0; code < kBasicPlane; ++code) {
      made->folds[code] = static_cast<std::uint16_t>(code);
      made->simple[code] = contains(kSimpleRanges, code);
    }
    for (const Fold& fold : kFolds) made->folds[fold.from] = fold.to;
    return made;
  }();
  folds_ = tables->folds.data();
  simple_ = tables->simple.data();
}

bool is_space(std::uint32_t code) {
  return code == ' ' || (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x1F) || code == 0x85 ||
         code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

}  // namespace labelprism
