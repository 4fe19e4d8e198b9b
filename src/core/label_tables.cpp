#include "label_tables.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace labelprism {
namespace {

// Lists get a bitmap when they are longer than this and have at least one label in `kLabelsPerEntry`.
constexpr std::int64_t kShortList = 128, kLabelsPerEntry = 64;
// Lists become arrays by label when they are longer than this and have at least one label in `kLabelsPerDenseEntry`.
constexpr std::int64_t kShortDenseList = 16, kLabelsPerDenseEntry = 3;

std::int64_t words_of(std::int64_t n_labels) { return (n_labels + 31) / 32; }

// A matrix column by column, rows ascending.
struct ByColumn {
  std::vector<std::int64_t> begin;
  std::vector<std::int32_t> label;
  std::vector<float> value;

  explicit ByColumn(const CsrView& matrix) {
    const std::int64_t n_entries = matrix.indptr[matrix.n_rows];
    label.resize(static_cast<std::size_t>(n_entries));
    value.resize(label.size());
    begin.assign(static_cast<std::size_t>(matrix.n_columns) + 1, 0);
    for (std::int64_t t = 0; t < n_entries; ++t) ++begin[static_cast<std::size_t>(matrix.indices[t]) + 1];
    for (std::size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
    std::vector<std::int64_t> next(begin.begin(), begin.end() - 1);
    for (std::int64_t row = 0; row < matrix.n_rows; ++row) {
      for (std::int64_t t = matrix.indptr[row]; t < matrix.indptr[row + 1]; ++t) {
        const auto at = static_cast<std::size_t>(next[static_cast<std::size_t>(matrix.indices[t])]++);
        label[at] = static_cast<std::int32_t>(row);
        value[at] = matrix.data[t];
      }
    }
  }
};

// Makes the lists of StrongestLabels, feature by feature.
class StrongestBuilder {
 public:
  explicit StrongestBuilder(std::int64_t longest) : longest_(static_cast<std::size_t>(longest)) { begin_.push_back(0); }

  void add(float weight, std::int32_t label) { strongest_.emplace_back(-weight, label); }

  // Ends the list of a feature. Of equals the smaller labels are kept.
  void end_list() {
    if (strongest_.size() > longest_) {
      const auto end = strongest_.begin() + static_cast<std::ptrdiff_t>(longest_);
      std::nth_element(strongest_.begin(), end, strongest_.end());
      strongest_.erase(end, strongest_.end());
      std::sort(strongest_.begin(), strongest_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    }
    for (const auto& [negative, label] : strongest_) {
      label_.push_back(label);
      weight_.push_back(static_cast<std::uint16_t>(to_half(-negative)));
    }
    begin_.push_back(static_cast<std::int64_t>(label_.size()));
    strongest_.clear();
  }

  StrongestLabels taken() {
    StrongestLabels made;
    made.begin = Stored(std::move(begin_));
    made.label = Stored(std::move(label_));
    made.weight = Stored(std::move(weight_));
    return made;
  }

 private:
  std::size_t longest_;
  std::vector<std::pair<float, std::int32_t>> strongest_;  // of the feature at hand, weights negative
  LargeVector<std::int64_t> begin_;
  LargeVector<std::int32_t> label_;
  LargeVector<std::uint16_t> weight_;
};

class TablesBuilder {
 public:
  TablesBuilder(std::int64_t n_labels, const double* norms, const LongestLists& longest)
      : n_labels_(n_labels), norms_(norms), has_votes_(longest.votes > 0), near_(longest.near), votes_(longest.votes) {}

  LabelTables build(const ByColumn& by_centroid, const ByColumn& by_head) {
    lists_.reserve(by_head.begin.size() - 1);
    for (std::size_t feature = 0; feature + 1 < by_head.begin.size(); ++feature) {
      join(by_centroid, by_head, feature);
      add_strongest(by_centroid, feature);
    }
    LabelTables made;
    made.n_labels = n_labels_;
    made.lists = Stored(std::move(lists_));
    made.list_labels = Stored(std::move(list_labels_));
    made.pairs = Stored(std::move(pairs_));
    made.words = Stored(std::move(words_));
    made.near = near_.taken();
    if (has_votes_) made.votes = votes_.taken();
    return made;
  }

 private:
  // Merges what head and centroids have for a feature into one list.
  void join(const ByColumn& by_centroid, const ByColumn& by_head, std::size_t feature) {
    auto s = static_cast<std::size_t>(by_head.begin[feature]), t = static_cast<std::size_t>(by_centroid.begin[feature]);
    const auto s_end = static_cast<std::size_t>(by_head.begin[feature + 1]);
    const auto t_end = static_cast<std::size_t>(by_centroid.begin[feature + 1]);
    labels_.clear();
    joined_.clear();
    while (s < s_end || t < t_end) {
      std::int32_t label = std::numeric_limits<std::int32_t>::max();
      float weight = 0, cosine = 0;
      if (s < s_end) label = by_head.label[s];
      if (t < t_end) label = std::min(label, by_centroid.label[t]);
      while (s < s_end && by_head.label[s] == label) weight += by_head.value[s++];
      while (t < t_end && by_centroid.label[t] == label) cosine += by_centroid.value[t++];
      labels_.push_back(label);
      joined_.push_back(weight_pair(weight, cosine));
    }
    add_list();
  }

  void add_list() {
    const auto length = static_cast<std::int64_t>(labels_.size());
    WeightList list{static_cast<std::int64_t>(pairs_.size()), static_cast<std::int64_t>(list_labels_.size()),
                    static_cast<std::int32_t>(length), WeightList::kShort};
    if (length > kShortDenseList && length * kLabelsPerDenseEntry >= n_labels_) {
      list.layout = WeightList::kArray;
      pairs_.resize(pairs_.size() + static_cast<std::size_t>(n_labels_), 0);
      std::uint32_t* by_label = pairs_.data() + list.first_pair;
      for (std::size_t i = 0; i < labels_.size(); ++i) by_label[labels_[i]] = joined_[i];
    } else if (length > kShortList && length * kLabelsPerEntry >= n_labels_) {
      list.layout = WeightList::kBitmap;
      list.first_label = static_cast<std::int64_t>(words_.size());
      words_.resize(words_.size() + static_cast<std::size_t>(words_of(n_labels_)), LabelWord{0, 0});
      LabelWord* words = words_.data() + list.first_label;
      for (const std::int32_t label : labels_) words[label / 32].bits |= std::uint32_t{1} << (label % 32);
      for (std::size_t i = labels_.size(); i-- > 0;) words[labels_[i] / 32].before = static_cast<std::uint32_t>(i);
      pairs_.push_back(0);
      pairs_.insert(pairs_.end(), joined_.begin(), joined_.end());
    } else {
      list_labels_.insert(list_labels_.end(), labels_.begin(), labels_.end());
      pairs_.insert(pairs_.end(), joined_.begin(), joined_.end());
    }
    lists_.push_back(list);
  }

  void add_strongest(const ByColumn& by_centroid, std::size_t feature) {
    const auto begin = static_cast<std::size_t>(by_centroid.begin[feature]);
    const auto end = static_cast<std::size_t>(by_centroid.begin[feature + 1]);
    // The sum of a label's examples is its centroid times the norm.
    const auto sum = [&](std::size_t t) { return by_centroid.value[t] * norms_[by_centroid.label[t]]; };
    double total = std::numeric_limits<double>::min();
    for (std::size_t t = begin; t < end; ++t) total += std::fabs(sum(t));
    for (std::size_t t = begin; t < end; ++t) {
      near_.add(by_centroid.value[t], by_centroid.label[t]);
      // Ranked as it is stored: labels of the same share stay equal however their sums were rounded.
      if (has_votes_) votes_.add(from_half(to_half(static_cast<float>(sum(t) / total))), by_centroid.label[t]);
    }
    near_.end_list();
    if (has_votes_) votes_.end_list();
  }

  std::int64_t n_labels_;
  const double* norms_;
  bool has_votes_;
  std::vector<std::int32_t> labels_;   // of the feature at hand,
  std::vector<std::uint32_t> joined_;  // and their weights
  StrongestBuilder near_, votes_;
  LargeVector<WeightList> lists_;
  LargeVector<std::int32_t> list_labels_;
  LargeVector<std::uint32_t> pairs_;
  LargeVector<LabelWord> words_;
};

// Whether so many elements from `first` on lie within an array of `size`.
bool is_inside(std::int64_t first, std::int64_t count, std::size_t size) {
  const auto most = static_cast<std::int64_t>(size);
  return first >= 0 && count >= 0 && count <= most && first <= most - count;
}

bool is_whole(const WeightList& list, const LabelTables& tables) {
  const std::int64_t length = list.length;
  switch (list.layout) {
    case WeightList::kShort:
      return is_inside(list.first_label, length, tables.list_labels.size()) &&
             is_inside(list.first_pair, length, tables.pairs.size());
    case WeightList::kBitmap:
      return length >= 0 && is_inside(list.first_label, words_of(tables.n_labels), tables.words.size()) &&
             is_inside(list.first_pair, length + 1, tables.pairs.size());
    case WeightList::kArray:
      return is_inside(list.first_pair, tables.n_labels, tables.pairs.size());
    default:
      return false;
  }
}

bool is_whole(const StrongestLabels& lists, std::size_t n_features) {
  if (lists.begin.size() != n_features + 1 || lists.begin[0] != 0 || lists.label.size() != lists.weight.size()) {
    return false;
  }
  for (std::size_t i = 0; i < n_features; ++i) {
    if (lists.begin[i] > lists.begin[i + 1]) return false;
  }
  return lists.begin[n_features] == static_cast<std::int64_t>(lists.label.size());
}

}  // namespace

LabelTables label_tables(const CsrView& centroids, const CsrView& head, const double* norms,
                         const LongestLists& longest) {
  return TablesBuilder(centroids.n_rows, norms, longest).build(ByColumn(centroids), ByColumn(head));
}

void check_tables(const LabelTables& tables) {
  const std::size_t n_features = tables.lists.size();
  bool good =
      is_whole(tables.near, n_features) && (tables.votes.begin.size() == 0 || is_whole(tables.votes, n_features));
  for (std::size_t i = 0; good && i < n_features; ++i) good = is_whole(tables.lists[i], tables);
  if (!good) throw std::invalid_argument("the lists of the features' labels do not fit together");
}

ListedWeights listed_weights(const LabelTables& tables) {
  ListedWeights found;
  found.begin.push_back(0);
  const auto add = [&](std::int64_t label, std::uint32_t pair) {
    if (label < 0 || label >= tables.n_labels || pair == 0) return;
    found.label.push_back(static_cast<std::int32_t>(label));
    found.head.push_back(from_half(pair));
    found.centroid.push_back(from_half(pair >> 16));
  };
  for (std::size_t i = 0; i < tables.lists.size(); ++i) {
    const WeightList& list = tables.lists[i];
    const std::uint32_t* pairs = tables.pairs.data() + list.first_pair;
    if (list.layout == WeightList::kArray) {
      for (std::int64_t label = 0; label < tables.n_labels; ++label) add(label, pairs[label]);
    } else if (list.layout == WeightList::kShort) {
      const std::int32_t* labels = tables.list_labels.data() + list.first_label;
      for (std::int32_t t = 0; t < list.length; ++t) add(labels[t], pairs[t]);
    } else {
      const LabelWord* words = tables.words.data() + list.first_label;
      std::int32_t place = 0;
      for (std::int64_t label = 0; label < tables.n_labels && place < list.length; ++label) {
        if (words[label / 32].bits >> (label % 32) & 1u) add(label, pairs[++place]);
      }
    }
    found.begin.push_back(static_cast<std::int64_t>(found.label.size()));
  }
  return found;
}

}  // namespace labelprism
