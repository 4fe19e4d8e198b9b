#include "space_lists.hpp"

#include <algorithm>
#include <cmath>

#include "scramble.hpp"
#include "thread_pool.hpp"

namespace labelprism {
namespace {

constexpr float kAboveZero = 2;  // only cosines above 0 are compared: some lists are nearest even to a row far from all
constexpr std::size_t kCentresAtOnce = 24 * kTileVectors;  // 27 KiB
constexpr int kRounds = 2;
constexpr std::size_t kSampled = 4;   // before the last round, one label in so many moves the centres
constexpr std::int64_t kLongest = 4;  // times the usual number of labels
constexpr std::int64_t kLabelsPerTask = 256;

// How many lists are looked at for a row: more where there are many, of which more are near.
std::int64_t n_searched(std::int64_t n_lists) {
  return std::clamp<std::int64_t>(std::lrint(std::sqrt(static_cast<double>(n_lists)) / 5), 4, kMostLists);
}

// Finds the largest values, and of equals the first ones.
void find_largest(const BlockKernels& kernels, const std::vector<float>& values, std::size_t count, std::int64_t wanted,
                  Largest& found) {
  found.find(kernels, values.data(), count, wanted);
  const auto most = static_cast<std::size_t>(wanted);
  if (found.size() > most) found.drop_last(values.data(), found.size() - most);
}

// The direction of the sum of some labels.
class Centre {
 public:
  void add(const SpaceVector& label, float scale) {
    for (std::size_t j = 0; j < sum_.size(); ++j) sum_[j] += static_cast<double>(scale) * label.steps[j];
  }

  // In bytes, as labels are; not if the sum is 0.
  void write(SpaceTiles& centres, std::size_t at) const {
    double largest = 0, square = 0;
    for (const double value : sum_) {
      largest = std::max(largest, std::fabs(value));
      square += value * value;
    }
    if (!(largest > 0)) return;
    SpaceVector centre;
    for (std::size_t j = 0; j < sum_.size(); ++j) {
      centre.steps[j] = static_cast<std::int8_t>(std::lrint(kVectorSteps / largest * sum_[j]));
    }
    centres.set(at, centre, static_cast<float>(largest / kVectorSteps / std::sqrt(square)));
  }

 private:
  std::array<double, kSpaceWidth> sum_{};
};

// Labels, which are not 0, and the centres that they are near.
class ListMeans {
 public:
  ListMeans(const SpaceVector* labels, const float* scale, const std::vector<std::int32_t>& placed,
            std::int64_t n_lists, std::uint64_t seed)
      : labels_(labels),
        scale_(scale),
        placed_(placed),
        list_of_(placed.size(), 0),
        n_lists_(static_cast<std::size_t>(n_lists)),
        centres_(n_lists_) {
    std::vector<std::int32_t> left = placed;
    for (std::size_t list = 0; list < n_lists_; ++list) {
      const std::uint64_t random = scramble(seed + list) >> 32;
      std::swap(left[list], left[list + ((random * (left.size() - list)) >> 32)]);
      const auto drawn = static_cast<std::size_t>(left[list]);
      centres_.set(list, labels[drawn], scale[drawn]);
    }
  }

  // Puts one label in `every` to its nearest centre.
  void assign(std::size_t every, int n_threads) {
    const BlockKernels& kernels = block_kernels();
    const auto n = static_cast<std::int64_t>((placed_.size() + every - 1) / every);
    parallel_ranges(n, kLabelsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
      TileRow row;
      Largest nearest;
      std::vector<float> cosines(centres_.size());
      std::array<float, kSpaceWidth> vector;
      for (auto i = static_cast<std::size_t>(begin) * every; i < static_cast<std::size_t>(end) * every; i += every) {
        if (i >= placed_.size()) break;
        const SpaceVector& label = labels_[placed_[i]];
        std::copy_n(label.steps, kSpaceWidth, vector.begin());
        row.set(vector.data());
        row.scale *= scale_[placed_[i]];
        centres_.cosines(kernels, 0, centres_.size(), row, kAboveZero, cosines.data());
        find_largest(kernels, cosines, cosines.size(), 1, nearest);
        list_of_[i] = *nearest.begin();
      }
    });
  }

  // Moves every centre to its labels, of one in `every`; one that has none stays.
  void move(std::size_t every) {
    std::vector<Centre> sums(n_lists_);
    for (std::size_t i = 0; i < placed_.size(); i += every) {
      sums[static_cast<std::size_t>(list_of_[i])].add(labels_[placed_[i]], scale_[placed_[i]]);
    }
    for (std::size_t list = 0; list < n_lists_; ++list) sums[list].write(centres_, list);
  }

  // Writes the list of each label; those that are too long are cut into several, those without labels left out. Returns
  // how many there are.
  std::int32_t write(std::size_t longest, std::int32_t* list_of_label) const {
    std::vector<std::size_t> size(n_lists_, 0), met(n_lists_, 0);
    for (const std::int32_t list : list_of_) ++size[static_cast<std::size_t>(list)];
    std::vector<std::int32_t> first(n_lists_);
    std::int32_t count = 0;
    for (std::size_t list = 0; list < n_lists_; ++list) {
      first[list] = count;
      count += static_cast<std::int32_t>((size[list] + longest - 1) / longest);
    }
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      const auto list = static_cast<std::size_t>(list_of_[i]);
      const std::size_t n_parts = (size[list] + longest - 1) / longest;
      list_of_label[placed_[i]] = first[list] + static_cast<std::int32_t>(met[list]++ * n_parts / size[list]);
    }
    return count;
  }

 private:
  const SpaceVector* labels_;
  const float* scale_;
  const std::vector<std::int32_t>& placed_;
  std::vector<std::int32_t> list_of_;  // of those that are placed
  std::size_t n_lists_;
  SpaceTiles centres_;
};

}  // namespace

SpaceLists::SpaceLists(const SpaceVector* labels, const float* scale, const std::int32_t* list_of_label,
                       std::int64_t n_labels, std::int64_t n_lists)
    : n_lists_(n_lists), centres_(static_cast<std::size_t>(n_lists)), begin_(static_cast<std::size_t>(n_lists) + 1, 0) {
  for (std::int64_t i = 0; i < n_labels; ++i) ++begin_[static_cast<std::size_t>(list_of_label[i]) + 1];
  for (std::size_t list = 1; list < begin_.size(); ++list) {
    begin_[list] = begin_[list - 1] + SpaceTiles::padded(begin_[list]);
  }
  label_.assign(begin_.back(), -1);
  vectors_ = SpaceTiles(begin_.back());
  std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
  std::vector<Centre> sums(static_cast<std::size_t>(n_lists));
  for (std::int64_t i = 0; i < n_labels; ++i) {
    const auto list = static_cast<std::size_t>(list_of_label[i]);
    const std::size_t at = next[list]++;
    label_[at] = static_cast<std::int32_t>(i);
    vectors_.set(at, labels[i], scale[i]);
    sums[list].add(labels[i], scale[i]);
  }
  for (std::size_t list = 0; list < sums.size(); ++list) sums[list].write(centres_, list);
}

// A few centres after the other are compared with all rows: they stay in the first-level cache meanwhile.
void SpaceLists::find_lists(const BlockKernels& kernels, std::int64_t most, SpaceRoom* rooms, std::size_t count) const {
  for (std::size_t r = 0; r < count; ++r) {
    rooms[r].row_.set(rooms[r].vector.data());
    rooms[r].reserve(centres_.size());
  }
  for (std::size_t begin = 0; begin < centres_.size(); begin += kCentresAtOnce) {
    const std::size_t end = std::min(begin + kCentresAtOnce, centres_.size());
    for (std::size_t r = 0; r < count; ++r) {
      centres_.cosines(kernels, begin, end, rooms[r].row_, kAboveZero, rooms[r].cosines_.data() + begin);
    }
  }
  for (std::size_t r = 0; r < count; ++r) {
    find_largest(kernels, rooms[r].cosines_, centres_.size(), std::min(n_searched(n_lists_), most), rooms[r].lists_);
  }
}

void SpaceLists::find_nearest(const BlockKernels& kernels, std::int64_t wanted, const std::uint8_t* allowed,
                              SpaceRoom& room, std::vector<std::int32_t>& found) const {
  std::size_t count = 0;
  for (const std::int32_t list : room.lists_) {
    const std::size_t first = begin_[static_cast<std::size_t>(list)], end = begin_[list + 1u];
    room.reserve(count + end - first);
    float* const cosines = room.cosines_.data() + count;
    vectors_.cosines(kernels, first, end, room.row_, 0, cosines);
    for (std::size_t at = first; allowed && at < end; ++at) {
      if (label_[at] < 0 || !allowed[label_[at]]) cosines[at - first] = 0;
    }
    count += end - first;
  }
  find_largest(kernels, room.cosines_, count, wanted, room.nearest_);
  const std::int32_t* list = room.lists_.begin();
  std::size_t before = 0;  // labels of the lists before this one
  for (const std::int32_t place : room.nearest_) {
    const auto at = static_cast<std::size_t>(place);
    while (at - before >= begin_[*list + 1u] - begin_[static_cast<std::size_t>(*list)]) {
      before += begin_[*list + 1u] - begin_[static_cast<std::size_t>(*list)];
      ++list;
    }
    const std::int32_t label = label_[begin_[static_cast<std::size_t>(*list)] + at - before];
    if (label >= 0) found.push_back(label);  // not what fills up a tile
  }
}

void find_lists(const SpaceVector* labels, const float* scale, std::int64_t n_labels, std::int64_t usual_labels,
                std::uint64_t seed, int n_threads, std::int32_t* list_of_label) {
  std::vector<std::int32_t> placed;
  for (std::int64_t i = 0; i < n_labels; ++i) {
    if (scale[i] > 0) placed.push_back(static_cast<std::int32_t>(i));
  }
  const auto n_placed = static_cast<std::int64_t>(placed.size());
  ListMeans means(labels, scale, placed, (n_placed + usual_labels - 1) / usual_labels, seed);
  for (int round = 1; round < kRounds; ++round) {
    means.assign(kSampled, n_threads);
    means.move(kSampled);
  }
  means.assign(1, n_threads);
  const std::int32_t n_lists = means.write(static_cast<std::size_t>(kLongest * usual_labels), list_of_label);
  for (std::int64_t i = 0; i < n_labels; ++i) {
    if (!(scale[i] > 0)) list_of_label[i] = n_lists;
  }
}

}  // namespace labelprism
