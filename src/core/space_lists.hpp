// Labels of a space (label_space.hpp) in lists of neighbours, to find those near a row without looking at all of them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "block_kernels.hpp"
#include "largest.hpp"
#include "space_tiles.hpp"
#include "space_vectors.hpp"

namespace labelprism {

inline constexpr std::int64_t kMostLists = 16;  // that are ever looked through for a row

// A row in the space, and room for what is looked up for it.
class SpaceRoom {
 public:
  std::array<float, kSpaceWidth> vector;  // unit, or 0
  bool is_placed = false;                 // whether it is not 0

 private:
  friend class SpaceLists;
  void reserve(std::size_t count) {
    if (cosines_.size() < count) cosines_.resize(count);
  }

  TileRow row_;
  std::vector<float> cosines_;
  Largest nearest_, lists_;
};

class SpaceLists {
 public:
  SpaceLists() = default;  // no lists
  // `list_of_label` has one below n_lists for every label; labels are unit, or 0.
  SpaceLists(const SpaceVector* labels, const float* scale, const std::int32_t* list_of_label, std::int64_t n_labels,
             std::int64_t n_lists);

  bool empty() const { return begin_.empty(); }

  // Finds the lists nearest to some rows, at most so many for each: before find_nearest.
  void find_lists(const BlockKernels& kernels, std::int64_t most, SpaceRoom* rooms, std::size_t count) const;

  // Adds the `wanted` labels nearest to the row, of those in the lists that were found, to `found`, in no order of
  // interest. Of labels that are not allowed (null: all are), or that are at a right angle to the row, none is.
  void find_nearest(const BlockKernels& kernels, std::int64_t wanted, const std::uint8_t* allowed, SpaceRoom& room,
                    std::vector<std::int32_t>& found) const;

 private:
  std::int64_t n_lists_ = 0;
  SpaceTiles centres_;
  std::vector<std::size_t> begin_;   // of each list among the places, and the end: multiples of kTileVectors
  std::vector<std::int32_t> label_;  // at each place; -1: none
  SpaceTiles vectors_;               // of these labels again, to be read one after the other
};

// Puts labels that lie together into one list: writes the list of each label, from 0 on. A list has about
// `usual_labels`, or up to four times as many, by 2 rounds of k-means from drawn labels. Labels that are 0 are in a
// list of their own.
void find_lists(const SpaceVector* labels, const float* scale, std::int64_t n_labels, std::int64_t usual_labels,
                std::uint64_t seed, int n_threads, std::int32_t* list_of_label);

}  // namespace labelprism
