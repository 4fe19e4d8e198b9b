// From a row of X to its best labels in one go: candidates of the forest and of the label centroids, the scores of all
// three experts, their blend, the k best.
//
// Layout. A row has few features, so all that is known of labels lies feature by feature: the weights of the head and
// of the centroids are one list, and a row reads the lists of its features only. Lists that are much longer than there
// are candidates are looked up instead of read: in an array by label, or through a bitmap of their labels, where that
// is not much larger than the list. Weights are float16 (weight_pairs.hpp). Retrieval has lists of its own, cut to the
// strongest labels.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "block_kernels.hpp"
#include "csr.hpp"
#include "forest_scores.hpp"
#include "growing_csr.hpp"
#include "large_vector.hpp"
#include "node_rows.hpp"

namespace labelprism {

// score = head * log p_H + forest * log p_F + centroid * cosine + prior[label]
struct BlendWeights {
  float head, forest, centroid;
};

struct PredictorSettings {
  std::int64_t forest_candidates;    // the most probable labels by the forest,
  std::int64_t centroid_candidates;  // and the nearest centroids
  std::int64_t longest_list;         // retrieval reads at most so many labels of each feature
  bool unit_rows;                    // whether rows are made unit first
};

// The candidates of a row and what the experts say of them.
struct RowCandidates {
  std::vector<std::int32_t> labels;  // ascending
  std::vector<float> forest;         // log p_F, kNotReached for labels that the forest does not know of
  std::vector<float> margin;         // of the head; margins and cosines go on to a multiple of 8
  std::vector<float> cosine;
};

// Room for one row at a time; one for each thread.
class PredictorRoom {
 public:
  explicit PredictorRoom(std::int64_t n_labels);
  RowCandidates found;

 private:
  friend class Predictor;
  ScoreRoom forest_;
  std::vector<float> sum_;  // by label; 0 between two rows
  std::vector<std::int32_t> touched_;
  std::vector<std::pair<float, std::int32_t>> near_;
  std::vector<std::uint16_t>
      slot_;  // by label: its place among the candidates from 1, or 0: small, to stay in the cache
  std::vector<std::int32_t> padded_;  // the candidates, and zeros to a multiple of 8
  std::vector<std::int32_t> places_;  // of them in a list
  std::vector<std::pair<float, std::int32_t>> ranking_;
  std::vector<float> values_;  // of the row, made unit
};

class Predictor {
 public:
  // `forest` is kept by reference; all else is copied. `head` and `centroids` are n_labels x n_features; without a
  // head `bias` is null.
  Predictor(const ForestScorer& forest, const CsrView& centroids, const CsrView& head, const float* bias,
            const float* prior, const BlendWeights& blend, const PredictorSettings& settings);

  std::int64_t n_features() const { return forest_.n_features(); }
  std::int64_t n_labels() const { return forest_.n_labels(); }

  // Lends a room to use(room): making one costs more than predicting a row.
  template <class Use>
  void with_room(const Use& use) const {
    rooms_.lend([&](std::unique_ptr<PredictorRoom>& room) {
      if (!room) room = std::make_unique<PredictorRoom>(n_labels());
      use(*room);
    });
  }

  // Fills room.found with at least `wanted` candidates where there are as many. Margins (0 without a head) and cosines
  // only if they are to be scored.
  void find(const SparseRow& row, std::int64_t wanted, const Routing& routing, bool scored, PredictorRoom& room) const;

  // The k best labels of a row; the rest of both arrays is -1 and -infinity.
  void predict(const SparseRow& row, std::int64_t k, const Routing& routing, PredictorRoom& room, std::int32_t* labels,
               float* scores) const;

 private:
  enum class Layout : std::int32_t { kShort, kBitmap, kArray };
  // What is known of a feature.
  struct List {
    std::int64_t first_pair;   // of its weights: an entry for every label of an array; before those of a bitmap is a 0
    std::int64_t first_label;  // of its labels, or of the words of its bitmap
    std::int32_t length;
    Layout layout;
  };
  struct Near {
    std::int32_t label;
    float cosine;
  };

  struct ByColumn;
  void join_weights(const ByColumn& by_centroid, const ByColumn& by_head);
  void add_list(const std::vector<std::int32_t>& labels, const std::vector<std::uint32_t>& pairs);
  void index_centroids(const ByColumn& lists);
  SparseRow prepared(const SparseRow& row, PredictorRoom& room) const;
  void nearest(const SparseRow& row, PredictorRoom& room) const;
  void unite(PredictorRoom& room) const;
  void score(const SparseRow& row, PredictorRoom& room) const;
  void score_short(const List& list, float value, PredictorRoom& room) const;

  const ForestScorer& forest_;
  BlendWeights blend_;
  PredictorSettings settings_;
  std::vector<float> bias_, prior_;
  std::vector<List> lists_;                // one for each feature
  std::vector<std::int32_t> list_labels_;  // ascending within a list; apart from the weights, most of which go unread
  LargeVector<std::uint32_t> pairs_;
  LargeVector<LabelWord> words_;
  std::vector<std::int64_t> near_begin_;
  LargeVector<Near> near_;
  const BlockKernels* kernels_;
  mutable Lender<std::unique_ptr<PredictorRoom>> rooms_;
};

inline constexpr float kNotReached = -9.2103404f;  // log 1e-4

// log of p_H = exp(-max(0, 1 - margin)^2), bounded so that no label is out of the race by the head alone.
inline float log_head(float margin) {
  const float miss = margin < 1 ? 1 - margin : 0;
  return miss < 3.7f ? -miss * miss : -13.69f;
}

void predict_rows(const Predictor& predictor, const CsrView& X, std::int64_t k, const Routing& routing, int n_threads,
                  std::int32_t* labels, float* scores);

// The candidates of every row as CSR of log p_F and, if they are to be scored, for each of them the cosine and the
// margin.
void find_candidates(const Predictor& predictor, const CsrView& X, const Routing& routing, bool scored, int n_threads,
                     GrowingCsr& candidates, Buffer<float>& cosine, Buffer<float>& margin);

}  // namespace labelprism
