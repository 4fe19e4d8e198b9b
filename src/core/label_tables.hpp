// What head and centroids know of labels, laid out for prediction: flat arrays that are used as they lie in a file.
//
// A row has few features, so all that is known of labels lies feature by feature: the weights of the head and of the
// centroids are one list, and a row reads the lists of its features only. Lists that are much longer than there are
// candidates are looked up instead of read: in an array by label, or through a bitmap of their labels, where that is
// not much larger than the list. Weights are float16 (weight_pairs.hpp). Retrieval has lists of its own, cut to the
// strongest labels: by the values of centroids, and by the share that a label has in what all centroids keep of a
// feature.
//
// Where rows have many features, and candidates few weights, it is the other way round: weights lie label by label, and
// a row reads the lists of its candidates.
#pragma once

#include <cstdint>
#include <vector>

#include "csr.hpp"
#include "stored.hpp"
#include "weight_pairs.hpp"

namespace labelprism {

// What is known of a feature, or, if it is its own, of a label.
struct WeightList {
  enum Layout : std::int32_t { kShort, kBitmap, kArray, kByLabel };
  std::int64_t first_pair;   // of its weights: an entry for every label of an array; before those of a bitmap is a 0
  std::int64_t first_label;  // of its labels, or of the words of its bitmap; of its features, if it is a label's own
  std::int32_t length;
  std::int32_t layout;
};
static_assert(sizeof(WeightList) == 24, "a list is kept in files");

// For each feature, its strongest labels.
struct StrongestLabels {
  Stored<std::int64_t> begin;    // for each feature, and the end; all is empty where there are none
  Stored<std::int32_t> label;    // ascending within a feature
  Stored<std::uint16_t> weight;  // float16
};

// The labels, or features, in these arrays are not checked beforehand, for there are many: who reads one makes sure
// that it is below n_labels, or n_features. Weights are finite whatever their bits are.
struct LabelTables {
  std::int64_t n_labels = 0, n_features = 0;
  Stored<WeightList> lists;          // one for each feature, or one for each label, its own
  Stored<std::int32_t> list_labels;  // ascending within a list; apart from the weights, most of which go unread
  Stored<std::uint32_t> pairs;
  Stored<LabelWord> words;
  StrongestLabels near;   // by the values of their centroids: a row's sum is a cosine, but for what was cut off
  StrongestLabels votes;  // by shares: a feature has one vote, which is divided among labels as its occurrences are

  bool is_by_label() const { return lists.size() > 0 && lists[0].layout == WeightList::kByLabel; }
};

// How many words the bitmap of a list has.
inline std::int64_t words_of(std::int64_t n_labels) { return (n_labels + 31) / 32; }

// How many labels of a feature retrieval gets, by centroids and by votes; 0: none are kept for it.
struct LongestLists {
  std::int64_t near, votes;
};

// `head` and `centroids` are n_labels x n_features; `norms` has that of the sum of each label's examples, for as many
// labels as have centroids. If weights are to lie label by label, the features of both ascend within each label. The
// result does not depend on n_threads.
LabelTables label_tables(const CsrView& centroids, const CsrView& head, const double* norms,
                         const LongestLists& longest, bool by_label, int n_threads);

// Throws std::invalid_argument unless all that is read without a check is in range.
void check_tables(const LabelTables& tables);

// The weights again, feature by feature: labels, weights of the head and of the centroids, 0 where there is none.
struct ListedWeights {
  std::vector<std::int64_t> begin;
  std::vector<std::int32_t> label;
  std::vector<float> head, centroid;
};
ListedWeights listed_weights(const LabelTables& tables);

}  // namespace labelprism
