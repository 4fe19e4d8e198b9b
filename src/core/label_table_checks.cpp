// Tables of labels that were read: whether all in them is in range, and the weights again.
#include <cstddef>
#include <stdexcept>

#include "label_tables.hpp"

namespace labelprism {
namespace {

// Whether so many elements from `first` on lie within an array of `size`.
bool is_inside(std::int64_t first, std::int64_t count, std::size_t size) {
  const auto most = static_cast<std::int64_t>(size);
  return first >= 0 && count >= 0 && count <= most && first <= most - count;
}

bool is_whole(const WeightList& list, const LabelTables& tables) {
  const std::int64_t length = list.length;
  switch (list.layout) {
    case WeightList::kShort:
    case WeightList::kByLabel:
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

// Calls visit(label, feature, pair) for all weights that lie label by label.
template <class Visit>
void visit_own_lists(const LabelTables& tables, const Visit& visit) {
  for (std::size_t label = 0; label < tables.lists.size(); ++label) {
    const WeightList& list = tables.lists[label];
    for (std::int64_t t = 0; t < list.length; ++t) {
      const std::int32_t feature = tables.list_labels[static_cast<std::size_t>(list.first_label + t)];
      const std::uint32_t pair = tables.pairs[static_cast<std::size_t>(list.first_pair + t)];
      if (feature >= 0 && feature < tables.n_features && pair != 0)
        visit(label, static_cast<std::size_t>(feature), pair);
    }
  }
}

ListedWeights weights_of_own_lists(const LabelTables& tables) {
  ListedWeights found;
  found.begin.assign(static_cast<std::size_t>(tables.n_features) + 1, 0);
  visit_own_lists(tables, [&](std::size_t, std::size_t feature, std::uint32_t) { ++found.begin[feature + 1]; });
  for (std::size_t i = 1; i < found.begin.size(); ++i) found.begin[i] += found.begin[i - 1];
  std::vector<std::int64_t> end(found.begin.begin(), found.begin.end() - 1);
  const auto size = static_cast<std::size_t>(found.begin.back());
  found.label.resize(size);
  found.head.resize(size);
  found.centroid.resize(size);
  visit_own_lists(tables, [&](std::size_t label, std::size_t feature, std::uint32_t pair) {
    const auto at = static_cast<std::size_t>(end[feature]++);
    found.label[at] = static_cast<std::int32_t>(label);
    found.head[at] = from_half(pair);
    found.centroid[at] = from_half(pair >> 16);
  });
  return found;
}

}  // namespace

void check_tables(const LabelTables& tables) {
  const auto n_features = static_cast<std::size_t>(tables.n_features);
  const bool is_by_label = tables.is_by_label();
  bool good =
      is_whole(tables.near, n_features) && (tables.votes.begin.size() == 0 || is_whole(tables.votes, n_features));
  good = good && tables.lists.size() == (is_by_label ? static_cast<std::size_t>(tables.n_labels) : n_features);
  for (std::size_t i = 0; good && i < tables.lists.size(); ++i) {
    const WeightList& list = tables.lists[i];
    good = is_whole(list, tables) && (list.layout == WeightList::kByLabel) == is_by_label;
  }
  if (!good) throw std::invalid_argument("the lists of the features' labels do not fit together");
}

ListedWeights listed_weights(const LabelTables& tables) {
  if (tables.is_by_label()) return weights_of_own_lists(tables);
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
