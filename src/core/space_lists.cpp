#include "space_lists.hpp"

#include <algorithm>
#include <cmath>

namespace labelprism {
namespace {

// How many lists are looked at for a row: more where there are many, of which more are near.
std::int64_t n_searched(std::size_t n_lists) {
  return std::clamp<std::int64_t>(std::lrint(std::sqrt(static_cast<double>(n_lists)) / 4), 4, 16);
}

constexpr float kRowSteps = 32767;

// Finds the largest values, and of equals the first ones.
void find_largest(const BlockKernels& kernels, const std::vector<float>& values, std::size_t count, std::int64_t wanted,
                  Largest& found) {
  found.find(kernels, values.data(), padded_to_eight(count), wanted);
  const auto most = static_cast<std::size_t>(wanted);
  if (found.size() > most) found.drop_last(values.data(), found.size() - most);
}

}  // namespace

void SpaceRoom::round() {
  for (std::size_t j = 0; j < vector.size(); ++j) {
    steps_[j] = static_cast<std::int16_t>(std::lrint(kRowSteps * std::clamp(vector[j], -1.0f, 1.0f)));
  }
}

void SpaceRoom::reserve(std::size_t count) {
  const std::size_t padded = padded_to_eight(count);
  if (cosines_.size() < padded) {
    cosines_.resize(padded);
    products_.resize(padded);
  }
  std::fill_n(cosines_.begin() + static_cast<std::ptrdiff_t>(count), padded - count, 0.0f);
}

SpaceLists::SpaceLists(const SpaceVector* labels, const float* scale, const std::int32_t* list_of_label,
                       std::int64_t n_labels, std::int64_t n_lists)
    : centres_(static_cast<std::size_t>(n_lists)),
      centre_scale_(static_cast<std::size_t>(n_lists)),
      begin_(static_cast<std::size_t>(n_lists) + 1, 0),
      label_(static_cast<std::size_t>(n_labels)),
      label_scale_(static_cast<std::size_t>(n_labels)),
      vector_(static_cast<std::size_t>(n_labels)) {
  for (std::int64_t i = 0; i < n_labels; ++i) ++begin_[static_cast<std::size_t>(list_of_label[i]) + 1];
  for (std::size_t list = 1; list < begin_.size(); ++list) begin_[list] += begin_[list - 1];
  std::vector<std::int64_t> next(begin_.begin(), begin_.end() - 1);
  for (std::int64_t i = 0; i < n_labels; ++i) {
    const auto at = static_cast<std::size_t>(next[static_cast<std::size_t>(list_of_label[i])]++);
    label_[at] = static_cast<std::int32_t>(i);
    label_scale_[at] = scale[i] / kRowSteps;
    vector_[at] = labels[i];
  }
  for (std::size_t list = 0; list < centres_.size(); ++list) set_centre(list);
}

// The centre of a list is the direction of the sum of its labels, in bytes as they are.
void SpaceLists::set_centre(std::size_t list) {
  std::array<double, kSpaceWidth> sum{};
  for (auto at = static_cast<std::size_t>(begin_[list]); at < static_cast<std::size_t>(begin_[list + 1]); ++at) {
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += static_cast<double>(label_scale_[at]) * vector_[at].steps[j];
  }
  double largest = 0, square = 0;
  for (const double value : sum) {
    largest = std::max(largest, std::fabs(value));
    square += value * value;
  }
  if (!(largest > 0)) return;  // labels without vectors: it stays 0, and is not looked at
  for (std::size_t j = 0; j < sum.size(); ++j) {
    centres_[list].steps[j] = static_cast<std::int8_t>(std::lrint(kVectorSteps / largest * sum[j]));
  }
  centre_scale_[list] = static_cast<float>(largest / kVectorSteps / std::sqrt(square) / kRowSteps);
}

void SpaceLists::choose_lists(const BlockKernels& kernels, SpaceRoom& room) const {
  room.reserve(centres_.size());
  kernels.dot_steps(centres_.data(), static_cast<std::int64_t>(centres_.size()), room.steps_.data(),
                    room.products_.data());
  for (std::size_t i = 0; i < centres_.size(); ++i) {
    // Only values above 0 are compared: some lists are nearest even to a row that lies far from all.
    const float above_0 = static_cast<float>(room.products_[i]) * centre_scale_[i] + 2;
    room.cosines_[i] = centre_scale_[i] > 0 ? above_0 : 0.0f;
  }
  find_largest(kernels, room.cosines_, centres_.size(), n_searched(centres_.size()), room.lists_);
}

void SpaceLists::find_nearest(const BlockKernels& kernels, std::int64_t wanted, const std::uint8_t* allowed,
                              SpaceRoom& room, std::vector<std::int32_t>& found) const {
  room.round();
  choose_lists(kernels, room);
  std::int64_t count = 0;
  for (const std::int32_t list : room.lists_) count += begin_[list + 1u] - begin_[static_cast<std::size_t>(list)];
  room.reserve(static_cast<std::size_t>(count));
  room.labels_.clear();
  for (const std::int32_t list : room.lists_) {
    const std::int64_t first = begin_[static_cast<std::size_t>(list)], end = begin_[list + 1u];
    const std::size_t before = room.labels_.size();
    kernels.dot_steps(vector_.data() + first, end - first, room.steps_.data(), room.products_.data() + before);
    room.labels_.insert(room.labels_.end(), label_.begin() + first, label_.begin() + end);
    for (std::int64_t i = first; i < end; ++i) {
      const std::size_t at = before + static_cast<std::size_t>(i - first);
      const bool may_be = !allowed || allowed[label_[static_cast<std::size_t>(i)]];
      const float cosine = static_cast<float>(room.products_[at]) * label_scale_[static_cast<std::size_t>(i)];
      room.cosines_[at] = may_be ? cosine : 0.0f;
    }
  }
  find_largest(kernels, room.cosines_, room.labels_.size(), wanted, room.nearest_);
  for (const std::int32_t at : room.nearest_) found.push_back(room.labels_[static_cast<std::size_t>(at)]);
}

}  // namespace labelprism
