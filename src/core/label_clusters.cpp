#include "label_clusters.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "node_rows.hpp"
#include "scramble.hpp"
#include "thread_pool.hpp"

namespace labelprism {
namespace {

constexpr int kRounds = 10;             // at most,
constexpr std::size_t kOfLabels = 128;  // until not even one label in so many changes its side

// A set of labels that is to be halved: a range of the order of the labels in a clustering.
struct LabelSet {
  std::int64_t clustering;
  std::uint64_t number;  // 1 for all labels, 2i and 2i + 1 for the halves of i
  std::int64_t begin, end;
};

// The sums of the centroids of both sides for a feature, side by side: a projection reads both.
struct SideSums {
  float lower, upper;
};

// What halving takes. Only features that the labels of a set have are ever touched, and cleared afterwards.
class HalvingRoom {
 public:
  // Brings the labels of the lower half before those of the upper, both ascending as they were.
  void halve(const CsrView& centroids, std::uint64_t key, std::int32_t* labels, std::int64_t count) {
    find_features(centroids, labels, count);
    start(centroids, key, labels, count);
    const auto n_lower = static_cast<std::size_t>(count / 2);
    choose_sides(centroids, labels, count, n_lower);
    clear_sums();
    for (std::int64_t i = 0; i < count; ++i) add(centroids, labels[i], is_upper_[static_cast<std::size_t>(i)], 1);
    for (int round = 1; round < kRounds; ++round) {
      choose_sides(centroids, labels, count, n_lower);
      if (moved_.size() * kOfLabels <= static_cast<std::size_t>(count) || round + 1 == kRounds) break;
      for (const std::int32_t i : moved_) {
        const bool is_upper = is_upper_[static_cast<std::size_t>(i)];
        add(centroids, labels[i], !is_upper, -1);
        add(centroids, labels[i], is_upper, 1);
      }
    }
    clear_sums();
    for (const std::int32_t feature : features_) is_known_[static_cast<std::size_t>(feature)] = 0;
    bring_lower_first(labels, count, n_lower);
  }

 private:
  void find_features(const CsrView& centroids, const std::int32_t* labels, std::int64_t count) {
    if (sums_.empty()) {
      sums_.assign(static_cast<std::size_t>(centroids.n_columns), SideSums{0, 0});
      is_known_.assign(sums_.size(), 0);
    }
    features_.clear();
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t t = centroids.indptr[labels[i]]; t < centroids.indptr[labels[i] + 1]; ++t) {
        std::uint8_t& is_known = is_known_[static_cast<std::size_t>(centroids.indices[t])];
        if (!is_known) features_.push_back(centroids.indices[t]);
        is_known = 1;
      }
    }
    is_upper_.assign(static_cast<std::size_t>(count), 0);
  }

  // Two different labels stand for the two sides at first.
  void start(const CsrView& centroids, std::uint64_t key, const std::int32_t* labels, std::int64_t count) {
    const auto below = [](std::uint64_t bits, std::int64_t n) {
      return static_cast<std::int64_t>(((bits >> 32) * static_cast<std::uint64_t>(n)) >> 32);
    };
    const std::int64_t one = below(key, count);
    std::int64_t other = below(scramble(key), count - 1);
    if (other >= one) ++other;
    add(centroids, labels[one], false, 1);
    add(centroids, labels[other], true, 1);
  }

  // Adds a label to the sums of a side, or takes it away again: 1 or -1 times.
  void add(const CsrView& centroids, std::int32_t label, bool to_upper, float times) {
    for (std::int64_t t = centroids.indptr[label]; t < centroids.indptr[label + 1]; ++t) {
      SideSums& sums = sums_[static_cast<std::size_t>(centroids.indices[t])];
      (to_upper ? sums.upper : sums.lower) += times * centroids.data[t];
    }
  }

  void clear_sums() {
    for (const std::int32_t feature : features_) sums_[static_cast<std::size_t>(feature)] = {0, 0};
  }

  // The inner products of a label with the sums of both sides. Several grow side by side: additions wait for each
  // other.
  SideSums sums_with(const CsrView& centroids, std::int32_t label) const {
    constexpr std::int64_t kSums = 4;
    SideSums products[kSums] = {};
    const std::int64_t begin = centroids.indptr[label], end = centroids.indptr[label + 1];
    const auto add_product = [&](std::int64_t t, SideSums& product) {
      const SideSums sums = sums_[static_cast<std::size_t>(centroids.indices[t])];
      product.lower += sums.lower * centroids.data[t];
      product.upper += sums.upper * centroids.data[t];
    };
    std::int64_t t = begin;
    for (; t + kSums <= end; t += kSums) {
      for (std::int64_t k = 0; k < kSums; ++k) add_product(t + k, products[k]);
    }
    for (; t < end; ++t) add_product(t, products[0]);
    return {(products[0].lower + products[1].lower) + (products[2].lower + products[3].lower),
            (products[0].upper + products[1].upper) + (products[2].upper + products[3].upper)};
  }

  // Projects the labels on the difference of the unit means of the sides; the higher ones are the upper half. Notes the
  // labels that change sides.
  void choose_sides(const CsrView& centroids, const std::int32_t* labels, std::int64_t count, std::size_t n_lower) {
    double lower_square = 0, upper_square = 0;
    for (const std::int32_t feature : features_) {
      const SideSums sums = sums_[static_cast<std::size_t>(feature)];
      lower_square += static_cast<double>(sums.lower) * sums.lower;
      upper_square += static_cast<double>(sums.upper) * sums.upper;
    }
    const float lower_scale = lower_square > 0 ? static_cast<float>(1 / std::sqrt(lower_square)) : 0.0f;
    const float upper_scale = upper_square > 0 ? static_cast<float>(1 / std::sqrt(upper_square)) : 0.0f;
    places_.resize(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      const SideSums product = sums_with(centroids, labels[i]);
      places_[static_cast<std::size_t>(i)] = {upper_scale * product.upper - lower_scale * product.lower, labels[i]};
    }
    ranked_ = places_;
    // Equal projections are ordered by label: then there is one way alone to halve the set.
    const auto middle = ranked_.begin() + static_cast<std::ptrdiff_t>(n_lower);
    std::nth_element(ranked_.begin(), middle, ranked_.end());
    moved_.clear();
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const std::uint8_t is_upper = places_[i] < *middle ? 0 : 1;
      if (is_upper != is_upper_[i]) moved_.push_back(static_cast<std::int32_t>(i));
      is_upper_[i] = is_upper;
    }
  }

  void bring_lower_first(std::int32_t* labels, std::int64_t count, std::size_t n_lower) {
    std::size_t lower = 0, upper = n_lower;
    halves_.resize(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < halves_.size(); ++i) halves_[is_upper_[i] ? upper++ : lower++] = labels[i];
    std::copy(halves_.begin(), halves_.end(), labels);
  }

  std::vector<SideSums> sums_;          // of every feature
  std::vector<std::uint8_t> is_known_;  // whether a feature is among `features_`
  std::vector<std::int32_t> features_;
  std::vector<std::uint8_t> is_upper_;
  std::vector<std::int32_t> moved_;                              // the places of labels that changed sides
  std::vector<std::pair<float, std::int32_t>> places_, ranked_;  // projections and labels
  std::vector<std::int32_t> halves_;
};

}  // namespace

std::int64_t cluster_labels(const CsrView& centroids, const ClusterSettings& settings, int n_threads,
                            std::int32_t* cluster_of_label) {
  const std::int64_t n_labels = centroids.n_rows;
  if (n_labels == 0) return 0;
  std::vector<std::int32_t> order(static_cast<std::size_t>(settings.n_clusterings * n_labels));
  std::vector<std::uint8_t> begins(order.size(), 0);  // whether a cluster begins at this place of the order
  std::vector<LabelSet> level, next;
  const auto push = [&](const LabelSet& set) {
    begins[static_cast<std::size_t>(set.clustering * n_labels + set.begin)] = 1;
    if (set.end - set.begin > settings.most_labels) next.push_back(set);
  };
  for (std::int64_t k = 0; k < settings.n_clusterings; ++k) {
    std::iota(order.begin() + k * n_labels, order.begin() + (k + 1) * n_labels, 0);
    push({k, 1, 0, n_labels});
  }
  Lender<HalvingRoom> rooms;
  while (!next.empty()) {
    level.swap(next);
    next.clear();
    parallel_for(static_cast<std::int64_t>(level.size()), n_threads, [&](std::int64_t i) {
      const LabelSet& set = level[static_cast<std::size_t>(i)];
      const auto clustering = static_cast<std::uint64_t>(set.clustering);
      const std::uint64_t key = scramble(scramble(settings.seed ^ scramble(clustering)) ^ set.number);
      std::int32_t* const labels = order.data() + set.clustering * n_labels + set.begin;
      rooms.lend([&](HalvingRoom& room) { room.halve(centroids, key, labels, set.end - set.begin); });
    });
    for (const LabelSet& set : level) {
      const std::int64_t middle = set.begin + (set.end - set.begin) / 2;
      push({set.clustering, 2 * set.number, set.begin, middle});
      push({set.clustering, 2 * set.number + 1, middle, set.end});
    }
  }
  std::int32_t cluster = -1;
  for (std::size_t i = 0; i < order.size(); ++i) {
    cluster += begins[i];
    const std::size_t first = i / static_cast<std::size_t>(n_labels) * static_cast<std::size_t>(n_labels);
    cluster_of_label[first + static_cast<std::size_t>(order[i])] = cluster;
  }
  return cluster + 1;
}

}  // namespace labelprism
