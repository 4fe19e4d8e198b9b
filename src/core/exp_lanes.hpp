// exp for eight numbers at once.
#pragma once

#include <cstdint>
#include <cstring>

namespace labelprism {

// They may lie at any address.
typedef float EightFloats __attribute__((vector_size(8 * sizeof(float)), aligned(sizeof(float)), may_alias));

// exp(x) for x <= 0, in all lanes at once, to float32's precision; 0 below -87. A part of its caller, which may be
// compiled for wider registers: the linker must not take that copy for all.
[[gnu::always_inline]] inline EightFloats exp_lanes(EightFloats x) {
  typedef std::int32_t Ints __attribute__((vector_size(8 * sizeof(std::int32_t))));
  constexpr float kLog2e = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  x = x < -87.0f ? x - x - 87.0f : x;
  const Ints n = __builtin_convertvector(x * kLog2e - 0.5f, Ints);  // rounds towards 0, and so to the nearest
  const EightFloats whole = __builtin_convertvector(n, EightFloats);
  const EightFloats r = (x - whole * kLn2High) - whole * kLn2Low;
  constexpr float kCoefficients[] = {1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
  EightFloats sum = r * (1.0f / 720) + 1.0f / 120;
  for (const float coefficient : kCoefficients) sum = sum * r + coefficient;
  const Ints power = (n + 127) << 23;
  EightFloats scale;
  std::memcpy(&scale, &power, sizeof scale);
  return sum * scale;
}

}  // namespace labelprism
