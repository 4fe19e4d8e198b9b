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

// Rounds to the nearest float16, of two to the even one; what is too large becomes the largest, NaN too.
static inline std::uint32_t to_half(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const std::uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
  if (magnitude >= 0x477FF000u) return sign | 0x7BFFu;
  if (magnitude < 0x38800000u) {  // below the smallest normal number: adding 0.5 leaves steps of 2^-24
    float shifted;
    std::memcpy(&shifted, &magnitude, sizeof shifted);
    shifted += 0.5f;
    std::memcpy(&bits, &shifted, sizeof bits);
    return sign | (bits - 0x3F000000u);
  }
  return sign | ((magnitude + 0xFFFu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13);
}

static inline float from_half(std::uint32_t half) {
  const std::uint32_t magnitude = (half & 0x7FFFu) << 13;
  float value;
  std::memcpy(&value, &magnitude, sizeof value);
  return (half & 0x8000u) ? -value * 0x1p112f : value * 0x1p112f;
}

static inline std::uint32_t weight_pair(float head, float centroid) { return to_half(head) | to_half(centroid) << 16; }

}  // namespace labelprism
