// The vector of a feature or a label in the space of label_space.hpp, as models keep it: 64 bytes, a line of the cache.
#pragma once

#include <cstdint>

namespace labelprism {

inline constexpr int kSpaceWidth = 64;
inline constexpr float kVectorSteps = 127;  // of the largest number of a vector

struct SpaceVector {
  std::int8_t steps[kSpaceWidth];
};

}  // namespace labelprism
