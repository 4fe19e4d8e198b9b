// A linear classifier for every label, trained on the examples that have the label among their candidates.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "counter.hpp"
#include "csr.hpp"
#include "growing_csr.hpp"
#include "large_vector.hpp"

namespace labelprism {

// Some labels, one after the other: a shard of the head, trained apart from the others to the same bits.
struct LabelRange {
  std::int64_t first, end;
};

// The examples of the labels of a shard, one label after the other.
struct LabelExamples {
  std::int64_t first_label;
  std::int64_t n_labels;
  std::vector<std::int64_t> indptr;    // n_labels + 1
  LargeVector<std::int32_t> rows;      // ascending within a label
  LargeVector<std::uint8_t> positive;  // whether the example has the label
};

// Turns candidates by row into examples by label; an example's own labels count as candidates.
// The columns of both matrices ascend within a row.
LabelExamples examples_by_label(const CsrView& candidates, const CsrView& Y, LabelRange range, int n_threads);

// A label of few examples is a small and nearly separable problem, where errors should cost more and a few more passes
// cost nothing. Its rarity r is `rare_examples` / positives.
struct OneVsRestSettings {
  float cost;             // C of the support vector machine, times 1 + r,
  float positive_weight;  // and for positives again times 1 + positive_weight r
  float rare_examples;
  float tolerance;  // stop when the projected gradients differ by less,
  int passes;       // or after so many passes over the examples, times 1 + r
  float drop;       // weights of smaller size are dropped
  std::uint64_t seed;
  // From this one on labels are clusters of labels. Their problems are large and solved sooner: three passes are
  // enough.
  std::int64_t first_cluster = std::numeric_limits<std::int64_t>::max();
};

// The classifiers of a shard.
struct OneVsRestModel {
  GrowingCsr weights;       // n_labels x n_features
  std::vector<float> bias;  // n_labels
  // The margins of the held-out examples, by a model that has not seen them: CSR by label.
  GrowingCsr held_out;
};

// Where classifiers start from, if not from nothing: weights and biases of all labels.
struct OneVsRestStart {
  CsrView weights;
  const float* bias;
};

// min over w, b of (|w|^2 + (b + 1)^2 / kBiasSquare) / 2 + sum of C_i max(0, 1 - y_i (w.x_i + b))^2 for every label, by
// dual coordinate descent. Held-out examples (`held_out` has a flag for each row; null: none) join only after their
// margins were noted, and the solver goes on from where it was. Labels without a positive that is not held out get no
// weights and a bias of -1. `row_weight` has a factor to C for each row; null stands for ones. With a `start`, |w|^2 is
// the distance to that, and labels learn from negatives too if they have no positive. `counter`, which may be null,
// counts the labels that are done.
void fit_one_vs_rest(const CsrView& X, const LabelExamples& examples, const std::uint8_t* held_out,
                     const float* row_weight, const OneVsRestStart* start, const OneVsRestSettings& settings,
                     int n_threads, Counter* counter, OneVsRestModel& model);

// The scores w_l.x + b_l of the stored entries of `candidates`, which has the rows of X; `weights` is n_features x
// n_labels: feature by feature.
void candidate_scores(const CsrView& X, const CsrView& weights, const float* bias, const CsrView& candidates,
                      int n_threads, float* scores);

}  // namespace labelprism
