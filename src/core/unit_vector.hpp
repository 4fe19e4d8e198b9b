// Vectors of the space of label_space.hpp that are made unit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "exp_lanes.hpp"
#include "space_vectors.hpp"

namespace labelprism {

// Of two vectors, in eight sums: an addition need not wait for the one before. A part of its caller, as exp_lanes.
[[gnu::always_inline]] inline float inner_product(const float* a, const float* b) {
  EightFloats sums = {};
  for (std::int64_t j = 0; j < kSpaceWidth; j += 8) {
    EightFloats of_a, of_b;
    std::memcpy(&of_a, a + j, sizeof of_a);
    std::memcpy(&of_b, b + j, sizeof of_b);
    sums += of_a * of_b;
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

inline float square_of(const float* vector) { return inner_product(vector, vector); }

// Makes a vector unit and returns its norm; 0, or what is too large for a norm, becomes 0.
inline float make_unit(float* vector) {
  constexpr float kSmallestNorm = 1e-12f;
  const float norm = std::sqrt(square_of(vector));
  if (!(norm > kSmallestNorm && std::isfinite(norm))) {
    std::fill_n(vector, kSpaceWidth, 0.0f);
    return 0;
  }
  for (std::int64_t j = 0; j < kSpaceWidth; ++j) vector[j] *= 1 / norm;
  return norm;
}

}  // namespace labelprism
