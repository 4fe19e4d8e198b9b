// What head and centroids know of labels, laid out for prediction: flat arrays that are used as they lie in a file.
//
// A row has few features, so all that is known of labels lies feature by feature: the weights of the head and of the
// centroids are one list, and a row reads the lists of its features only. Lists that are much longer than there are
// candidates are looked up instead of read: in an array by label, or through a bitmap of their labels, where that is
// not much larger than the list. Weights are float16 (weight_pairs.hpp). Retrieval has lists of its own, cut to the
// strongest labels.
#pragma once

#include <cstdint>
#include <vector>

#include "csr.hpp"
#include "stored.hpp"
#include "weight_pairs.hpp"

namespace labelprism {

// What is known of a feature.
struct WeightList {
  enum Layout : std::int32_t { kShort, kBitmap, kArray };
  std::int64_t first_pair;   // of its weights: an entry for every label of an array; before those of a bitmap is a 0
  std::int64_t first_label;  // of its labels, or of the words of its bitmap
  std::int32_t length;
  std::int32_t layout;
};
static_assert(sizeof(WeightList) == 24, "a list is kept in files");

// The labels in these arrays are not checked beforehand, for there are many: who reads one makes sure that it is below
// n_labels. Weights are finite whatever their bits are.
struct LabelTables {
  std::int64_t n_labels = 0;
  Stored<WeightList> lists;          // one for each feature
  Stored<std::int32_t> list_labels;  // ascending within a list; apart from the weights, most of which go unread
  Stored<std::uint32_t> pairs;
  Stored<LabelWord> words;
  Stored<std::int64_t> near_begin;    // for each feature, and the end
  Stored<std::int32_t> near_label;    // ascending within a feature
  Stored<std::uint16_t> near_cosine;  // float16

  std::int64_t n_features() const { return static_cast<std::int64_t>(lists.size()); }
};

// `head` and `centroids` are n_labels x n_features; retrieval gets the `longest_list` strongest labels of each feature.
LabelTables label_tables(const CsrView& centroids, const CsrView& head, std::int64_t longest_list);

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
