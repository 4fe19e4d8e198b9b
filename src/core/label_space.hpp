// Features and labels as vectors of one space, in which a row lies near its labels.
//
// The vector of a row is the sum of those of its features, each times its value, made unit; that of a label is the sum
// of its rows, made unit. Only features are learned: a row should lie nearer to its label than to labels of other rows.
// So features that mean the same come to lie together, and rows find labels with which they share no feature.
#pragma once

#include <cstdint>
#include <vector>

#include "block_kernels.hpp"
#include "counter.hpp"
#include "csr.hpp"
#include "growing_csr.hpp"
#include "space_lists.hpp"
#include "stored.hpp"

namespace labelprism {

// Writes vectors of 64 numbers in steps of a 127th of the largest of each, and how large a step is.
void round_vectors(const float* vectors, std::int64_t count, int n_threads, SpaceVector* steps, float* scale);

struct SpaceRows {
  CsrView X;
  CsrView Y;
  const float* weight;  // of each row; null stands for ones
  CsrView candidates;   // of each row, to be told from its labels; or of none, and without any
};

struct SpaceStep {
  std::int64_t pass, n_passes;
  float rate;   // of the first pass; it falls to 0 until the end of the last one
  float scale;  // of cosines in the softmax
  std::uint64_t seed;
};

// One pass over all rows, in a drawn order. Each row is compared with one of its labels, those of 31 other rows, and a
// candidate of each of these rows; features move along the gradient of a softmax over them, by Adagrad with one
// `squares` a feature. `labels`, [n_labels][kSpaceWidth], are unit or 0 and stay as they are.
void learn_space(const SpaceRows& rows, const float* labels, const SpaceStep& step, int n_threads, Counter* counter,
                 float* features, float* squares);

// Vectors in bytes, times a number for each.
struct SpaceTables {
  Stored<SpaceVector> features;
  Stored<float> feature_scale;
  Stored<SpaceVector> labels;
  Stored<float> label_scale;
  Stored<std::int32_t> list_of_label;  // lists of labels that lie together; empty: there are none
};

class LabelSpace {
 public:
  // Throws std::invalid_argument unless there is a number for every vector.
  explicit LabelSpace(SpaceTables&& tables);

  std::int64_t n_features() const { return static_cast<std::int64_t>(tables_.features.size()); }
  std::int64_t n_labels() const { return static_cast<std::int64_t>(tables_.labels.size()); }

  bool has_lists() const { return !lists_.empty(); }

  // Places a row, for the functions below.
  void place(const SparseRow& row, SpaceRoom& room) const;

  // The cosines of the row that was placed and of labels, which are in range.
  void cosines(const SpaceRoom& room, const std::int32_t* labels, std::int64_t count, float* cosines) const;

  // Finds the lists nearest to rows that were placed, at most so many for each, which find_nearest looks through. Those
  // of several rows at once take less time.
  void find_lists(std::int64_t most, SpaceRoom* rooms, std::size_t count) const {
    lists_.find_lists(*kernels_, most, rooms, count);
  }

  // Adds the labels nearest to the row that was placed; see SpaceLists.
  void find_nearest(std::int64_t wanted, const std::uint8_t* allowed, SpaceRoom& room,
                    std::vector<std::int32_t>& found) const {
    if (room.is_placed) lists_.find_nearest(*kernels_, wanted, allowed, room, found);
  }

 private:
  SpaceTables tables_;
  SpaceLists lists_;
  const BlockKernels* kernels_;
};

// The cosines of rows and their candidates, entry by entry.
void space_cosines(const LabelSpace& space, const CsrView& X, const CsrView& candidates, int n_threads, float* cosines);

struct Sieve {
  std::int64_t n_near, n_kept, most_lists;
};

// The `n_kept` candidates of each row that are nearest to it, of those given, which ascend, and of the `n_near` labels
// that lists find, at most so many of them; all candidates where a row has no place. Without values.
void sieve_candidates(const LabelSpace& space, const CsrView& X, const CsrView& candidates, const Sieve& sieve,
                      int n_threads, GrowingCsr& sieved);

}  // namespace labelprism
