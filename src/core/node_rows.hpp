// The rows of a tree node: which examples reach it, and its own copy of their features and labels.
//
// Below the top of a tree a node sees few of the features. Numbered anew, they lie close together, and the blocks of
// the eigenproblem fit the cache.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "csr.hpp"
#include "large_vector.hpp"

namespace labelprism {

// The examples of one node.
struct NodeRows {
  const std::int32_t* rows;
  const float* weight;  // the example weights D
  std::int64_t count;
};

// The examples of several nodes, one after the other.
struct NodeGroups {
  const std::int32_t* rows;
  const float* weight;
  const std::int64_t* offsets;  // n_nodes + 1
  std::int64_t n_nodes;

  NodeRows operator[](std::int64_t node) const {
    return {rows + offsets[node], weight ? weight + offsets[node] : nullptr, offsets[node + 1] - offsets[node]};
  }
};

// A copy of some rows with columns numbered from 0 in the order of their first appearance.
class LocalCsr {
 public:
  // `place` has -1 for every column, before and after. Columns with fewer than `min_count` entries in the rows are left
  // out.
  LocalCsr(const CsrView& matrix, const NodeRows& node, std::vector<std::int32_t>& place, int min_count = 1);

  CsrView view() const;
  const std::vector<std::int32_t>& columns() const { return columns_; }  // the old number of each column

 private:
  std::size_t measure(const CsrView& matrix, const NodeRows& node);
  std::size_t gather(const CsrView& matrix, const NodeRows& node, std::int32_t* place, std::int32_t* seen);
  void leave_out(const std::int32_t* place);

  bool has_data_;
  LargeVector<std::int64_t> indptr_;
  LargeVector<std::int32_t> indices_;
  LargeVector<float> data_;
  std::vector<std::int32_t> columns_;
};

// The same for a dense matrix, which keeps all its columns.
class LocalDense {
 public:
  LocalDense(const DenseView& matrix, const NodeRows& node, std::vector<std::int32_t>& place, int min_count = 1);

  DenseView view() const { return {n_rows_, n_columns_, data_.data()}; }
  const std::vector<std::int32_t>& columns() const { return columns_; }

 private:
  std::int64_t n_rows_;
  std::int64_t n_columns_;
  LargeVector<float> data_;
  std::vector<std::int32_t> columns_;
};

// Whether the rows are all rows of the matrix in their order: then no copy is needed.
bool is_whole(const NodeRows& node, std::int64_t n_rows);

// Objects that are costly to make, lent to one task at a time: at most as many are made as tasks run at once.
template <class T>
class Lender {
 public:
  template <class Use>
  void lend(const Use& use) {
    std::unique_ptr<T> object;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        object = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (!object) object = std::make_unique<T>();
    use(*object);
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(object));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> free_;
};

}  // namespace labelprism
