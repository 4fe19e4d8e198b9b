// From a row of X to its best labels in one go: candidates of the forest, by label centroids, by votes of features and
// in the space, those of them that the space keeps, the scores of all experts, their blend, the k best.
//
// Clusters of labels, where there are any, have classifiers too. To the tables they are further labels, numbered from
// n_labels on, so that one way through the features of a row serves both.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "block_kernels.hpp"
#include "csr.hpp"
#include "forest_scores.hpp"
#include "growing_csr.hpp"
#include "label_clusters.hpp"
#include "label_space.hpp"
#include "label_tables.hpp"
#include "largest.hpp"
#include "near_examples.hpp"
#include "node_rows.hpp"
#include "nth_largest.hpp"

namespace labelprism {

// Places of candidates, by the forest or asked for, by centroids, by votes and in the space, and of their clusters are
// held in 16 bits.
inline constexpr std::int64_t kMostPlaces = 65535;
inline constexpr std::int64_t kMostCandidates = 30000;
inline constexpr std::int64_t kMostClusters = 35000;

// score = head * log p_H + forest * log p_F + centroid * cosine + clusters * (mean of log p of the label's clusters)
//         + examples * log(votes of near examples) + space * (cosine in the space of features and labels) +
//         prior[label]
//         + (unreached, where the forest does not know of the label)
struct BlendWeights {
  float head, forest, centroid, unreached, clusters, examples, space;
};

struct PredictorSettings {
  std::int64_t forest_candidates;    // the most probable labels by the forest,
  std::int64_t centroid_candidates;  // the nearest centroids,
  std::int64_t vote_candidates;      // the labels that most of the row's features' votes are for,
  std::int64_t space_candidates;     // and the nearest ones in the space, if that has lists; of all of them
  std::int64_t kept_candidates;      // so many are kept, the nearest in the space; 0: all
  std::int64_t strong_features;      // so many features of a row, its strongest, look for centroids and vote
  bool unit_rows;                    // whether rows are made unit first
};

// The candidates of a row and what the experts say of them.
struct RowCandidates {
  std::vector<std::int32_t> labels;  // ascending
  std::vector<float> forest;         // log p_F, kNotReached for labels that the forest does not know of
  std::vector<float> further;        // of labels that fill up the forest's probability, of candidates -1
  std::vector<float> margin;         // of the head; margins and cosines go on with the clusters, to a multiple of 8
  std::vector<float> cosine;
  std::vector<float> clusters;  // the mean of log p of the label's clusters; empty where there are none
  std::vector<float> examples;  // the votes of near examples; empty where there are none
  std::vector<float> space;     // the cosines in the space of features and labels; empty where there is none
  std::vector<float> score;     // their blend
};

// A bit for all features of the same remainder: most features that a row does not have are told without a look at more
// than this, which stays in the first-level cache.
struct RowFilter {
  static constexpr std::uint32_t kBits = 1u << 15;
  std::array<std::uint64_t, kBits / 64> words{};

  std::uint64_t& word(std::int32_t feature) { return words[static_cast<std::uint32_t>(feature) % kBits / 64]; }
  void add(std::int32_t feature) { word(feature) |= std::uint64_t{1} << (static_cast<std::uint32_t>(feature) % 64); }
  bool may_have(std::int32_t feature) { return word(feature) >> (static_cast<std::uint32_t>(feature) % 64) & 1u; }
};

// Room for one row at a time; one for each thread.
class PredictorRoom {
 public:
  PredictorRoom(std::int64_t n_labels, std::int64_t n_clusters);
  RowCandidates found;

 private:
  friend class Predictor;
  ScoreRoom forest_;
  ExampleRoom examples_;
  SpaceRoom space_;
  LargestValues largest_;
  std::vector<float>
      sum_;  // by label, one that stands for all labels of a damaged model, to a multiple of 8; 0 between two rows
  std::vector<std::int32_t> strong_features_;
  std::vector<float> strong_values_;
  std::vector<std::int32_t> summed_;  // the labels that have sums,
  std::vector<float> sums_of_;        // and these
  Largest strongest_;
  std::vector<std::int32_t> retrieved_;  // by centroids, by votes and in the space
  std::vector<std::uint16_t>
      slot_;  // by label: its place among the candidates from 1, or 0: small, to stay in the cache
  std::vector<std::int32_t> scored_;         // the candidates and their clusters, and zeros to a multiple of 8
  std::vector<std::int32_t> places_;         // of them in a list
  std::vector<float> all_sums_;              // margin and cosine of every label, where most are candidates
  std::vector<const std::uint32_t*> lists_;  // of weights, which are to be added up,
  std::vector<float> list_values_;           // times these
  std::vector<std::pair<const WeightList*, float>> short_lists_;
  RowFilter filter_;               // of the row's features, and
  std::vector<float> by_feature_;  // their values by feature, 0 between two rows; where weights lie label by label
  std::vector<std::pair<float, std::int32_t>> ranking_;
  std::vector<std::pair<float, std::size_t>> further_;  // places of labels that fill up, by their probability
  std::vector<float> values_;                           // of the row, made unit
  std::vector<float> sizes_;                            // of its values, or of probabilities
};

inline constexpr float kNotReached = -9.2103404f;  // log 1e-4
inline constexpr float kCandidate = -1;            // in place of the probability of a label that fills up

// log of p_H = exp(-max(0, 1 - margin)^2), bounded so that no label is out of the race by the head alone.
inline float log_head(float margin) {
  const float miss = margin < 1 ? 1 - margin : 0;
  return miss < 3.7f ? -miss * miss : -13.69f;
}

// Which labels a row may be given: `flags` has one for each label; without flags all are.
struct AllowList {
  const std::uint8_t* flags = nullptr;
  std::int64_t count = 0;
};

class Predictor {
 public:
  // `forest`, `examples` and `space` (null where there are none) and the arrays of `clusters` are kept by reference.
  // Bias (of the head, then of the clusters' classifiers) and prior (of labels) are copied.
  Predictor(const ForestScorer& forest, LabelTables&& tables, const ClusterView& clusters, const NearExamples* examples,
            const LabelSpace* space, const float* bias, const float* prior, const BlendWeights& blend,
            const PredictorSettings& settings);

  std::int64_t n_features() const { return forest_.n_features(); }
  std::int64_t n_labels() const { return forest_.n_labels(); }
  const LabelTables& tables() const { return tables_; }
  bool has_clusters() const { return clusters_.n_clusterings > 0; }
  bool has_examples() const { return examples_ != nullptr; }
  bool has_space() const { return space_ != nullptr; }

  // Lends a room to use(room): making one costs more than predicting a row.
  template <class Use>
  void with_room(const Use& use) const {
    rooms_.lend([&](std::unique_ptr<PredictorRoom>& room) {
      if (!room) room = std::make_unique<PredictorRoom>(n_labels(), clusters_.n_clusters);
      use(*room);
    });
  }

  // Fills room.found with the candidates of a row, or with all labels that are allowed if these are no more than the
  // forest's candidates. Where more are `wanted`, further labels fill up: those of the forest, and all that are allowed
  // if these are no more than that. Margins (0 without a head) and cosines only if they are to be scored.
  void find(const SparseRow& row, std::int64_t wanted, const Routing& routing, const AllowList& allowed, bool scored,
            PredictorRoom& room) const;

  // Fills room.found for given candidates, which ascend: as `find` would if it had found them.
  void score_given(const SparseRow& row, const std::int32_t* labels, std::int64_t count, const Routing& routing,
                   PredictorRoom& room) const;

  // The k best labels of a row; the rest of both arrays is -1 and -infinity. Labels that fill up come after all
  // candidates, as probable as the forest finds them, with scores that are cut to that of the label before: the first
  // labels and their scores do not depend on k.
  void predict(const SparseRow& row, std::int64_t k, const Routing& routing, const AllowList& allowed,
               PredictorRoom& room, std::int32_t* labels, float* scores) const;

  // Fills found.score with the blend of what the experts say of each candidate.
  void blend(RowCandidates& found) const;

 private:
  SparseRow prepared(const SparseRow& row, PredictorRoom& room) const;
  void retrieve(const SparseRow& row, const AllowList& allowed, PredictorRoom& room) const;
  void add_by_features(const SparseRow& row, const AllowList& allowed, PredictorRoom& room) const;
  void add_strongest(const StrongestLabels& lists, std::int64_t n_wanted, const AllowList& allowed,
                     PredictorRoom& room) const;
  std::pair<float, std::int64_t> least_candidate(PredictorRoom& room) const;
  void unite(PredictorRoom& room) const;
  void add_allowed(const AllowList& allowed, PredictorRoom& room) const;
  bool sieves() const { return space_ && space_->has_lists() && settings_.kept_candidates > 0; }
  void sieve(std::int64_t wanted, PredictorRoom& room) const;
  void measure_in_space(PredictorRoom& room) const;
  void look_up(const std::int32_t* labels, std::int64_t count, PredictorRoom& room) const;
  std::int32_t cluster_of(std::int64_t clustering, std::int32_t label) const {
    return static_cast<std::int32_t>(n_labels()) + clusters_.of_label[clustering * n_labels() + label];
  }
  std::size_t place_scored(PredictorRoom& room) const;
  void score(const SparseRow& row, PredictorRoom& room) const;
  template <class Use>
  void for_lists(const SparseRow& row, PredictorRoom& room, const Use& use) const;
  void score_own(const SparseRow& row, std::size_t count, PredictorRoom& room) const;
  bool score_all(const SparseRow& row, std::size_t count, PredictorRoom& room) const;
  void score_some(const SparseRow& row, std::size_t count, PredictorRoom& room) const;
  void score_short(const WeightList& list, float value, std::size_t count, PredictorRoom& room) const;
  void add_up_clusters(PredictorRoom& room) const;
  void rank(std::size_t k, PredictorRoom& room) const;

  const ForestScorer& forest_;
  LabelTables tables_;
  ClusterView clusters_;
  const NearExamples* examples_;
  const LabelSpace* space_;
  BlendWeights blend_;
  PredictorSettings settings_;
  std::vector<float> bias_, prior_;
  const BlockKernels* kernels_;
  mutable Lender<std::unique_ptr<PredictorRoom>> rooms_;
};

void predict_rows(const Predictor& predictor, const CsrView& X, std::int64_t k, const Routing& routing,
                  const AllowList& allowed, int n_threads, std::int32_t* labels, float* scores);

// The candidates of every row as CSR of log p_F and, if they are to be scored, for each of them the cosine and the
// margin.
void find_candidates(const Predictor& predictor, const CsrView& X, const Routing& routing, bool scored, int n_threads,
                     GrowingCsr& candidates, Buffer<float>& cosine, Buffer<float>& margin);

// What the experts say of given candidates, which ascend within each row, entry by entry.
struct GivenScores {
  float *score, *forest, *margin, *cosine;
  float *clusters, *examples, *space;  // null where there are none
};
void score_candidates(const Predictor& predictor, const CsrView& X, const CsrView& candidates, const Routing& routing,
                      int n_threads, const GivenScores& out);

}  // namespace labelprism
