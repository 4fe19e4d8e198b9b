// The vector of a feature or a label in the space of label_space.hpp, as models keep it: 64 bytes, a line of the cache.
#pragma once

#include <cstdint>

namespace labelprism {

inline constexpr int kSpaceWidth = 64;
inline constexpr float kVectorSteps = 127;  // of the largest number of a vector

struct SpaceVector {
  std::int8_t steps[kSpaceWidth];
};

// Sixteen vectors side by side, four numbers of each at a time: inner products with all of them need no sums across a
// register.
inline constexpr int kTileVectors = 16;
struct SpaceTile {
  std::int8_t steps[kSpaceWidth / 4][kTileVectors][4];
  std::int32_t sum[kTileVectors];  // of the steps of each
  float scale[kTileVectors];       // of a step
};

// A vector that is compared with tiles, in steps of its largest number: so few that two products with steps of a
// vector, where these are made 1 to 127 instead of -63 to 63, fit 16 bits.
inline constexpr int kTileRowSteps = 63;

// Rows of a space beside each other, and what they are compared with while it is learned: a label of each, and others.
inline constexpr int kComparedRows = 8;
inline constexpr int kComparedColumns = 32;
struct ComparedRows {
  std::int64_t count;                         // of rows that are there
  const std::int32_t* columns;                // the label of each, first the rows' own; -1: there is none
  const std::int32_t* labels[kComparedRows];  // all labels of a row,
  std::int64_t n_labels[kComparedRows];       // so many
  float weight[kComparedRows];                // 0: the row is not there, or has no label or no place
  float norm[kComparedRows];                  // of the row's vector before it was made unit
  float scale;                                // of cosines in the softmax
};

}  // namespace labelprism
