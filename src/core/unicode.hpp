// What a tokeniser must know of Unicode: the class of a code point, and UTF-8.
#pragma once

#include <cstdint>

namespace labelprism {

enum class CharClass : std::uint8_t {
  kBreak,      // ends a word
  kWord,       // letter, number, connector such as '_'
  kIdeograph,  // a word by itself: Han, Hiragana
  kMark,       // accent or vowel sign: belongs to the word it follows
  kIgnored,    // soft hyphen, joiners: neither ends a word nor belongs to it
};

// Looks classes up; the basic plane, which holds all but a few characters of real text, by one table access.
class CharClasses {
 public:
  CharClasses();
  CharClass operator[](std::uint32_t code_point) const {
    return code_point < kBasicPlane ? basic_[code_point] : look_up(code_point);
  }

 private:
  static constexpr std::uint32_t kBasicPlane = 0x10000;
  static CharClass look_up(std::uint32_t code_point);
  const CharClass* basic_;
};

// Folds case and compatibility characters one by one. Simple characters are those for which that gives what Unicode's
// NFKC and full case folding give for the whole text: all but a few of the letters of living languages. Others must
// be folded by the caller, and stay as they are here.
class CharFolds {
 public:
  CharFolds();
  bool is_simple(std::uint32_t code_point) const { return code_point < kBasicPlane && simple_[code_point]; }

  // Calls use(folded) for the character, or the few characters, that it is folded to.
  template <class Use>
  void fold(std::uint32_t code_point, const Use& use) const {
    if (code_point >= kBasicPlane) return use(code_point);
    if (folds_[code_point] != kExpanded) return use(folds_[code_point]);
    for (const std::uint16_t* to = expansion(code_point); *to != 0; ++to) use(*to);
  }

 private:
  static constexpr std::uint32_t kBasicPlane = 0x10000;
  static constexpr std::uint16_t kExpanded = 0xFFFF;                // no character has this number
  static const std::uint16_t* expansion(std::uint32_t code_point);  // ends with 0
  const std::uint16_t* folds_;
  const bool* simple_;
};

// White space that separates words for character n-grams.
bool is_space(std::uint32_t code_point);

// Reads one code point of valid UTF-8 and moves `at` behind it. Bytes that are not UTF-8 are read one by one, so that
// nothing outside the text is ever touched.
inline std::uint32_t next_code_point(const char*& at, const char* end) {
  const auto byte = [&](int i) { return static_cast<std::uint8_t>(at[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) {
    ++at;
    return lead;
  }
  const int length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  if (length == 1 || end - at < length) {
    ++at;
    return lead;
  }
  std::uint32_t code = lead & (0x7Fu >> length);
  for (int i = 1; i < length; ++i) code = (code << 6) | (byte(i) & 0x3Fu);
  at += length;
  return code;
}

// Writes a code point as UTF-8 and returns the place behind it.
inline char* write_code_point(std::uint32_t code, char* at) {
  const auto tail = [code](int shift) { return static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    *at++ = static_cast<char>(code);
  } else if (code < 0x800) {
    *at++ = static_cast<char>(0xC0 | (code >> 6));
    *at++ = tail(0);
  } else if (code < 0x10000) {
    *at++ = static_cast<char>(0xE0 | (code >> 12));
    *at++ = tail(6);
    *at++ = tail(0);
  } else {
    *at++ = static_cast<char>(0xF0 | (code >> 18));
    *at++ = tail(12);
    *at++ = tail(6);
    *at++ = tail(0);
  }
  return at;
}

}  // namespace labelprism
