#include "space_tiles.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace labelprism {

void TileRow::set(const float* vector) {
  float largest = 0;
  for (int j = 0; j < kSpaceWidth; ++j) largest = std::max(largest, std::fabs(vector[j]));
  scale = largest / kTileRowSteps;
  const float per_step = largest > 0 ? kTileRowSteps / largest : 0;
  for (int j = 0; j < kSpaceWidth; ++j) {
    steps[static_cast<std::size_t>(j)] = static_cast<std::int8_t>(std::lrint(per_step * vector[j]));
  }
}

SpaceTiles::SpaceTiles(std::size_t count) : tiles_(padded(count) / kTileVectors) {
  if (!tiles_.empty()) std::memset(static_cast<void*>(tiles_.data()), 0, tiles_.size() * sizeof(SpaceTile));
}

void SpaceTiles::set(std::size_t at, const SpaceVector& vector, float scale) {
  SpaceTile& tile = tiles_[at / kTileVectors];
  const std::size_t place = at % kTileVectors;
  tile.scale[place] = scale;
  tile.sum[place] = 0;
  for (int q = 0; q < kSpaceWidth / 4; ++q) {
    std::memcpy(tile.steps[q][place], vector.steps + 4 * q, 4);
    for (int k = 0; k < 4; ++k) tile.sum[place] += vector.steps[4 * q + k];
  }
}

}  // namespace labelprism
