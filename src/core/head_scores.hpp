// The scores of candidates by a trained head; see head_trainer.hpp for the terms of a score.
#pragma once

#include "csr.hpp"

namespace labelprism {

// A row of weights for every unit, dense as [unit][width], or sparse with sorted columns where `dense` is null.
struct UnitWeights {
  const float* dense;
  std::int64_t width;
  CsrView sparse;
};

struct HeadModel {
  CsrView candidates;      // (n_leaves, n_labels), sorted; a stored entry is a slot
  const float* slot_bias;  // the bias of the label and of the slot together
  bool by_slot;            // whether the units of `weights` are slots; labels otherwise
  UnitWeights weights;
  std::int64_t n_codes;  // a_fq, [leaf][code]; the weights w_lq begin at (q + 1) * code_shift
  const float* codes;
  std::int64_t code_shift;
  bool has_deviations;  // weights of slots on top of those of labels
  UnitWeights deviations;
};

// Writes the scores of row i's candidates at out + begin[i], in their order. X is sparse, or dense with rows padded to
// the width of the weights, a multiple of 8.
void head_scores(const CsrView& X, const HeadModel& model, const std::int32_t* leaves, const std::int64_t* begin,
                 int n_threads, float* out);
void head_scores(const DenseView& X, const HeadModel& model, const std::int32_t* leaves, const std::int64_t* begin,
                 int n_threads, float* out);

// The labels and scores of the k best candidates of every row, as top_k.hpp has them.
void head_top_k(const CsrView& X, const HeadModel& model, const std::int32_t* leaves, std::int64_t k, int n_threads,
                std::int32_t* labels, float* scores);
void head_top_k(const DenseView& X, const HeadModel& model, const std::int32_t* leaves, std::int64_t k, int n_threads,
                std::int32_t* labels, float* scores);

}  // namespace labelprism
