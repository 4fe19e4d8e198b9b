// Labels of a space (label_space.hpp) in lists of neighbours, to find those near a row without looking at all of them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "block_kernels.hpp"
#include "large_vector.hpp"
#include "largest.hpp"
#include "space_vectors.hpp"

namespace labelprism {

// A row in the space, and room for what is looked up for it.
class SpaceRoom {
 public:
  std::array<float, kSpaceWidth> vector;  // unit, or 0
  bool is_placed = false;                 // whether it is not 0

 private:
  friend class SpaceLists;
  void round();
  // Room for so many inner products, and zeros behind them.
  void reserve(std::size_t count);

  std::array<std::int16_t, kSpaceWidth> steps_;  // of the vector, a 32767th each
  std::vector<std::int32_t> products_;
  std::vector<float> cosines_;
  std::vector<std::int32_t> labels_;
  Largest nearest_, lists_;
};

class SpaceLists {
 public:
  SpaceLists() = default;  // no lists
  // `list_of_label` has one below n_lists for every label; labels are unit, or 0.
  SpaceLists(const SpaceVector* labels, const float* scale, const std::int32_t* list_of_label, std::int64_t n_labels,
             std::int64_t n_lists);

  bool empty() const { return centres_.empty(); }

  // Adds the `wanted` labels nearest to the row, of those in the lists that are nearest to it, to `found`, in no order
  // of interest. Of labels that are not allowed (null: all are), or that are at a right angle to the row, none is.
  void find_nearest(const BlockKernels& kernels, std::int64_t wanted, const std::uint8_t* allowed, SpaceRoom& room,
                    std::vector<std::int32_t>& found) const;

 private:
  void set_centre(std::size_t list);
  void choose_lists(const BlockKernels& kernels, SpaceRoom& room) const;

  std::vector<SpaceVector> centres_;
  std::vector<float> centre_scale_;  // times an inner product of steps: a cosine
  std::vector<std::int64_t> begin_;  // of each list, and the end
  std::vector<std::int32_t> label_;  // one list after the other
  std::vector<float> label_scale_;   // of these labels,
  LargeVector<SpaceVector> vector_;  // and their vectors again, to be read one after the other
};

}  // namespace labelprism
