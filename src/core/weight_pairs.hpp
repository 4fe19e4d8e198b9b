// The weights that head and centroid of a label have for a feature: two float16 numbers in one word. Models are stored
// in float16, so nothing is lost, and half of the memory is read.
#pragma once

#include <cstdint>
#include <cstring>

namespace labelprism {

// 32 labels of a long list: which of them it has, and how many come before.
struct LabelWord {
  std::uint32_t bits, before;
};

static inline std::int32_t bits_of(float value) {
  std::int32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
static inline float float_of(std::int32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Rounds to the nearest float16, of two to the even one; what is too large becomes the largest, NaN too. There are no
// jumps: small numbers among others would mispredict them, and compilers make vectors of what is left.
static inline std::uint32_t to_half(float value) {
  const std::int32_t bits = bits_of(value), magnitude = bits & 0x7FFFFFFF;
  // Below the smallest normal number, adding 0.5 leaves steps of 2^-24.
  const std::int32_t small = bits_of(float_of(magnitude) + 0.5f) - 0x3F000000;
  const std::int32_t normal = (magnitude - 0x38000000 + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
  const std::int32_t finite = magnitude < 0x38800000 ? small : normal;
  return static_cast<std::uint32_t>((magnitude >= 0x477FF000 ? 0x7BFF : finite) | ((bits >> 16) & 0x8000));
}

static inline float from_half(std::uint32_t half) {
  const auto magnitude = static_cast<std::int32_t>((half & 0x7FFFu) << 13);
  const auto sign = static_cast<std::int32_t>((half & 0x8000u) << 16);
  return float_of(bits_of(float_of(magnitude) * 0x1p112f) | sign);
}

static inline std::uint32_t weight_pair(float head, float centroid) { return to_half(head) | to_half(centroid) << 16; }

}  // namespace labelprism
