// Many vectors of a space (label_space.hpp) that are compared with one row after the other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "block_kernels.hpp"
#include "large_vector.hpp"
#include "space_vectors.hpp"

namespace labelprism {

// A row in few steps, as tiles want it.
struct TileRow {
  std::array<std::int8_t, kSpaceWidth> steps;
  float scale;  // of a step

  // From a vector of finite numbers.
  void set(const float* vector);
};

class SpaceTiles {
 public:
  SpaceTiles() = default;
  // Room for so many vectors, rounded up to whole tiles; all are 0, and their cosines too.
  explicit SpaceTiles(std::size_t count);

  void set(std::size_t at, const SpaceVector& vector, float scale);

  // How many there is room for: a multiple of kTileVectors.
  std::size_t size() const { return tiles_.size() * kTileVectors; }

  // The cosines of vectors `begin` to `end`, which are multiples of kTileVectors, each and `above`; 0 for those that
  // are 0.
  void cosines(const BlockKernels& kernels, std::size_t begin, std::size_t end, const TileRow& row, float above,
               float* cosines) const {
    kernels.tile_cosines(tiles_.data() + begin / kTileVectors, static_cast<std::int64_t>((end - begin) / kTileVectors),
                         row.steps.data(), row.scale, above, cosines);
  }

  static std::size_t padded(std::size_t count) { return (count + kTileVectors - 1) / kTileVectors * kTileVectors; }

 private:
  LargeVector<SpaceTile> tiles_;
};

}  // namespace labelprism
