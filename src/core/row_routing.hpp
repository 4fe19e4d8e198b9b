// Where an example goes at a node: to both sides, or, where little of it would, to one of them by chance.
#pragma once

#include "scramble.hpp"

namespace labelprism {

// Random bits of an example in a node; `row_id` is the number that the example has in the whole data.
inline std::uint64_t bits_of_row(std::uint64_t key, std::uint64_t row_id, std::uint64_t side) {
  return scramble(key ^ scramble(2 * row_id + side));
}

// Calls go(side, weight) for each side that an example goes to; `right` is its probability to go right. A weight below
// `prune_below` is kept by chance, at that: expected counts stay what they are.
template <class Go>
void for_sides(std::uint64_t key, std::uint64_t row_id, float weight, float right, float prune_below, const Go& go) {
  for (int side = 0; side < 2; ++side) {
    float part = weight * (side == 1 ? right : 1 - right);
    if (part < prune_below) {
      if (!(part > 0)) continue;
      const double drawn = uniform(bits_of_row(key, row_id, static_cast<std::uint64_t>(side)));
      if (drawn * prune_below >= part) continue;
      part = prune_below;
    }
    go(side, part);
  }
}

}  // namespace labelprism
