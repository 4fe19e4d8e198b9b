// Random numbers that are a hash of what they are for, so that no order of work can change them.
#pragma once

#include <cstdint>

namespace labelprism {

// The finaliser of SplitMix64; neighbouring inputs give independent outputs.
inline std::uint64_t scramble(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// A number in [0, 1).
inline double uniform(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace labelprism
