// A sum of sparse rows, read in ascending order of its columns.
#pragma once

#include <cstdint>
#include <vector>

#include "csr.hpp"
#include "ordered_set.hpp"

namespace labelprism {

class SparseSum {
 public:
  void make_room(std::int64_t n_columns) {
    sums_.assign(static_cast<std::size_t>(n_columns), 0.0f);
    columns_.make_room(n_columns);
    has_room_ = true;
  }
  bool has_room() const { return has_room_; }

  // Adds a row of a matrix times `weight`. Sums are float32, and taken in the order of the calls.
  void add(const CsrView& matrix, std::int64_t row, float weight) {
    for (std::int64_t t = matrix.indptr[row]; t < matrix.indptr[row + 1]; ++t) {
      sums_[static_cast<std::size_t>(matrix.indices[t])] += weight * matrix.data[t];
      columns_.insert(matrix.indices[t]);
    }
  }

  // Calls visit(column, sum) for all sums that are not 0, columns ascending; the sum is empty afterwards.
  template <class Visit>
  void empty(const Visit& visit) {
    columns_.empty([&](std::int64_t column) {
      float& sum = sums_[static_cast<std::size_t>(column)];
      if (sum != 0) visit(static_cast<std::int32_t>(column), sum);
      sum = 0;
    });
  }

 private:
  bool has_room_ = false;
  std::vector<float> sums_;
  OrderedSet columns_;  // that were added to
};

}  // namespace labelprism
