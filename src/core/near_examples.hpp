// The training examples nearest to a row, and what their labels say of its candidates.
//
// Examples are found through lists by feature, each cut to the examples of its largest values, so that a row costs the
// same however many examples there are. Cosines are sums over the lists of the row's strongest features. The nearest
// examples vote for their labels, the more the nearer they are.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "block_kernels.hpp"
#include "csr.hpp"
#include "growing_csr.hpp"
#include "largest.hpp"
#include "stored.hpp"
#include "weight_pairs.hpp"

namespace labelprism {

// Examples and labels in these arrays are not checked beforehand, for there are many: who reads one makes sure that it
// is in range.
struct ExampleTables {
  Stored<std::int64_t> begin;        // for each feature, and the end: its list
  Stored<std::int32_t> example;      // ascending within a feature
  Stored<std::uint16_t> value;       // float16
  Stored<std::int64_t> label_begin;  // for each example, and the end: its labels
  Stored<std::int32_t> label;
  Stored<float> weight;  // of each example; empty where all count the same

  std::int64_t n_features() const { return static_cast<std::int64_t>(begin.size()) - 1; }
  std::int64_t n_examples() const { return static_cast<std::int64_t>(label_begin.size()) - 1; }
};

// Throws std::invalid_argument unless all that is read without a check is in range.
void check_tables(const ExampleTables& tables);

// For each feature the rows of X with the `longest` values of largest size, ascending; of equals the first rows.
void strongest_examples(const CsrView& X, std::int64_t longest, int n_threads, GrowingCsr& lists);

// Room for one row at a time; one for each thread.
struct ExampleRoom {
  std::vector<float> sum;  // by example, and one for all that a damaged model makes up; 0 between two rows
  std::vector<std::pair<std::size_t, std::size_t>> lists;  // of the row's features: where they begin, how long they are
  std::vector<std::int32_t> found;                         // the examples that are near at all,
  std::vector<float> cosine;                               // and how near, with zeros to a multiple of 8
  Largest nearest;                                         // their places
  std::vector<float> sizes;
};

class NearExamples {
 public:
  explicit NearExamples(ExampleTables&& tables) : tables_(std::move(tables)), kernels_(&block_kernels()) {
    check_tables(tables_);
  }

  std::int64_t n_features() const { return tables_.n_features(); }

  // Adds what the examples near a row give to each of their labels that has a place: votes[slot[label] - 1], where slot
  // has 0 for labels without one. Then votes become log(kUnvoted + share of all votes).
  void vote(const SparseRow& row, const std::uint16_t* slot, std::int64_t n_labels, std::size_t n_places,
            ExampleRoom& room, float* votes) const;

 private:
  void add_up(const SparseRow& row, ExampleRoom& room) const;

  ExampleTables tables_;
  const BlockKernels* kernels_;
};

// The votes for given candidates of rows, entry by entry.
void near_example_votes(const NearExamples& examples, const CsrView& X, const CsrView& candidates, int n_threads,
                        float* votes);

}  // namespace labelprism
