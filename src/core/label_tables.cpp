#include "label_tables.hpp"

#include <algorithm>
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

class TablesBuilder {
 public:
  TablesBuilder(std::int64_t n_labels, std::int64_t longest_list)
      : n_labels_(n_labels), longest_list_(static_cast<std::size_t>(longest_list)) {}

  LabelTables build(const ByColumn& by_centroid, const ByColumn& by_head) {
    lists_.reserve(by_head.begin.size() - 1);
    near_begin_.push_back(0);
    for (std::size_t feature = 0; feature + 1 < by_head.begin.size(); ++feature) {
      join(by_centroid, by_head, feature);
      add_near(by_centroid, feature);
    }
    LabelTables made;
    made.n_labels = n_labels_;
    made.lists = Stored(std::move(lists_));
    made.list_labels = Stored(std::move(list_labels_));
    made.pairs = Stored(std::move(pairs_));
    made.words = Stored(std::move(words_));
    made.near_begin = Stored(std::move(near_begin_));
    made.near_label = Stored(std::move(near_label_));
    made.near_cosine = Stored(std::move(near_cosine_));
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

  // Adds the strongest labels of a feature, of equals the smaller.
  void add_near(const ByColumn& by_centroid, std::size_t feature) {
    strongest_.clear();
    for (auto t = static_cast<std::size_t>(by_centroid.begin[feature]);
         t < static_cast<std::size_t>(by_centroid.begin[feature + 1]); ++t) {
      strongest_.emplace_back(-by_centroid.value[t], by_centroid.label[t]);
    }
    if (strongest_.size() > longest_list_) {
      const auto end = strongest_.begin() + static_cast<std::ptrdiff_t>(longest_list_);
      std::nth_element(strongest_.begin(), end, strongest_.end());
      strongest_.erase(end, strongest_.end());
      std::sort(strongest_.begin(), strongest_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    }
    for (const auto& [negative, label] : strongest_) {
      near_label_.push_back(label);
      near_cosine_.push_back(static_cast<std::uint16_t>(to_half(-negative)));
    }
    near_begin_.push_back(static_cast<std::int64_t>(near_label_.size()));
  }

  std::int64_t n_labels_;
  std::size_t longest_list_;
  std::vector<std::int32_t> labels_;   // of the feature at hand,
  std::vector<std::uint32_t> joined_;  // and their weights
  std::vector<std::pair<float, std::int32_t>> strongest_;
  LargeVector<WeightList> lists_;
  LargeVector<std::int32_t> list_labels_;
  LargeVector<std::uint32_t> pairs_;
  LargeVector<LabelWord> words_;
  LargeVector<std::int64_t> near_begin_;
  LargeVector<std::int32_t> near_label_;
  LargeVector<std::uint16_t> near_cosine_;
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

}  // namespace

LabelTables label_tables(const CsrView& centroids, const CsrView& head, std::int64_t longest_list) {
  return TablesBuilder(centroids.n_rows, longest_list).build(ByColumn(centroids), ByColumn(head));
}

void check_tables(const LabelTables& tables) {
  bool good = tables.near_begin.size() == tables.lists.size() + 1 && tables.near_begin[0] == 0 &&
              tables.near_label.size() == tables.near_cosine.size();
  for (std::size_t i = 0; good && i < tables.lists.size(); ++i) {
    good = is_whole(tables.lists[i], tables) && tables.near_begin[i] <= tables.near_begin[i + 1];
  }
  if (!good || tables.near_begin[tables.lists.size()] != static_cast<std::int64_t>(tables.near_label.size())) {
    throw std::invalid_argument("the lists of the features' labels do not fit together");
  }
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
