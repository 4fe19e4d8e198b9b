// Training of a head by stochastic gradient descent, restricted to the candidates (section 3.5 of the paper).
//
// The score of candidate s (of label l) in leaf f for the row x is
//
//   [bias of l + bias of s] + w_l . x + sum over q of a_fq w_lq . x + w_s . x,
//
// where the task mode says which terms there are. Rows come grouped: a visit is some rows at one leaf, so that its rows
// share the weights that they fetch; it is cut into batches, and a step follows the mean gradient of a batch.
//
// Results do not depend on the number of threads. Labels are dealt into kParts parts by their numbers; a part's weights
// are changed by one task only. With independent losses labels never meet, and a task takes its part through all visits
// of a chunk ("apart"). Otherwise (softmax, or parameters that labels share) a wave takes one batch of each of several
// visits: gradients of all candidates first, one task a batch, then the steps, one task a part.
#pragma once

#include <cstdint>
#include <vector>

#include "csr.hpp"
#include "head_losses.hpp"
#include "visit_tile.hpp"
#include "weight_tables.hpp"

namespace labelprism {

// Which terms a score has; see above.
struct HeadTerms {
  bool label_weights;
  bool slot_bias;
  bool slot_weights;
  std::int64_t n_codes;
};

struct HeadStep {
  Rate rate;
  std::int64_t batch_size;
  float group_penalty;  // on the norm of each candidate's own weights
};

// Rows of one leaf after the other: visit v has the rows offsets[v] to offsets[v + 1] and the leaf leaves[v].
struct Visits {
  const std::int64_t* offsets;
  const std::int32_t* leaves;
  std::int64_t count;
};

// A number that learns with momentum.
struct Scalar {
  float weight = 0;
  float momentum = 0;

  void step(const Rate& step, float gradient) {
    momentum = step.momentum * momentum + gradient;
    weight -= step.rate * momentum;
  }
};

struct Batch {
  std::int64_t leaf;
  std::int64_t begin;
  std::int64_t end;

  std::int64_t size() const { return end - begin; }
};

// What one batch of a wave needs. Matrices of candidates and rows are [place][row].
template <class Row>
struct BatchRoom {
  Batch batch;
  std::vector<Row> rows;
  std::vector<float> gradient;  // scores first
  std::vector<float> terms;     // w_lq . x, [code][place][row]
  std::vector<float> code_gradient;
  std::vector<Positive> positives;
  std::vector<float> embedded;      // of a low-rank head: z, [row][width]
  std::vector<float> row_gradient;  // the same for the gradient of z
  float caution = 1;                // steps of weights are multiplied by it
  double loss = 0;
};

// The rows of a wave's batches, and what is to be done with them after the steps; a low-rank head embeds them first.
template <class Row>
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual void fetch(BatchRoom<Row>& room) const = 0;
  virtual bool wants_gradient() const { return false; }
  virtual void learn(std::vector<BatchRoom<Row>>&, std::size_t, const HeadStep&, int) {}
};

template <class Table>
class HeadTrainer {
 public:
  using Row = typename Table::Row;

  // `candidates` is copied; its rows must be sorted.
  HeadTrainer(const CsrView& candidates, Loss loss, const HeadTerms& terms, std::int64_t code_shift, Table labels,
              Table slots);

  // One pass over a chunk of rows; returns the sum of their losses before their steps.
  double train(RowSource<Row>& source, const CsrView& Y, const Visits& visits, const HeadStep& step, int n_threads);

  // Whether labels may be trained one apart from the other.
  bool apart() const { return loss_ == Loss::kLogistic && terms_.n_codes == 0; }

  CsrView candidates() const;
  Table& labels() { return labels_; }
  Table& slots() { return slots_; }
  std::vector<Scalar>& label_bias() { return label_bias_; }
  std::vector<Scalar>& slot_bias() { return slot_bias_; }
  std::vector<Scalar>& codes() { return codes_; }

 private:
  struct Place {  // a candidate of a leaf
    std::int64_t place;
    std::int64_t slot;
    std::int32_t label;
  };

  std::vector<Batch> batches_of(const Visits& visits, std::int64_t visit, std::int64_t batch_size) const;
  void find_positives(const CsrView& Y, const Batch& batch, std::vector<Positive>& positives) const;
  float bias(const Place& at) const;
  float caution(const BatchRoom<Row>& room) const;
  void prefetch(const Place& at, const BatchRoom<Row>& room) const;
  void margins(const Place& at, const BatchRoom<Row>& room, float* scores, float* terms) const;
  void step(const Place& at, const BatchRoom<Row>& room, const float* gradient, const HeadStep& step);
  template <class Use>
  void each_place(std::int64_t leaf, std::int64_t part, const Use& use) const;

  double train_apart(RowSource<Row>& source, const CsrView& Y, const Visits& visits, const HeadStep& step,
                     int n_threads);
  double train_tiles(std::int64_t part, std::vector<BatchRoom<Row>>& rooms, std::size_t n_batches, const HeadStep& step,
                     VisitFeatures& features, Tile& tile);
  double tile_step(const Place* places, int n_places, const BatchRoom<Row>& room, const std::int32_t* local,
                   const HeadStep& step, Tile& tile);
  double train_visit(std::int64_t part, std::vector<BatchRoom<Row>>& rooms, std::size_t n_batches,
                     const HeadStep& step);
  double train_waves(RowSource<Row>& source, const CsrView& Y, const Visits& visits, const HeadStep& step,
                     int n_threads);
  void find_gradient(const CsrView& Y, BatchRoom<Row>& room, bool of_rows) const;
  void pull_rows(BatchRoom<Row>& room) const;
  void pull_slot(std::int64_t leaf, std::int64_t slot, float gradient, float* out) const;

  Loss loss_;
  HeadTerms terms_;
  std::int64_t code_shift_;  // from the weights of one code to those of the next
  std::vector<std::int64_t> indptr_;
  std::vector<std::int32_t> labels_of_slots_;
  std::vector<std::int32_t> places_;      // the places of each leaf, part by part
  std::vector<std::int32_t> part_begin_;  // [leaf][kParts + 1]
  Table labels_;
  Table slots_;
  std::vector<Scalar> label_bias_;
  std::vector<Scalar> slot_bias_;
  std::vector<Scalar> codes_;
};

extern template class HeadTrainer<DensePairs>;
extern template class HeadTrainer<TouchedPairs>;
extern template class HeadTrainer<DenseWeights>;

}  // namespace labelprism
