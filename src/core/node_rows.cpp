#include "node_rows.hpp"

#include <algorithm>
#include <numeric>

namespace labelprism {

namespace {

constexpr std::int32_t kNew = -1, kLeftOut = -2;

// The rows of a node lie anywhere in the matrix: those that come soon are asked for early.
constexpr std::int64_t kAhead = 8, kFarAhead = 16;

}  // namespace

LocalCsr::LocalCsr(const CsrView& matrix, const NodeRows& node, std::vector<std::int32_t>& place, int min_count)
    : has_data_(matrix.data != nullptr) {
  gather(matrix, node);
  std::vector<std::int32_t> left_out;
  if (min_count > 1) left_out = mark_rare(place, min_count);
  std::size_t to = 0, from = 0;
  for (std::size_t row = 1; row < indptr_.size(); ++row) {
    for (const auto end = static_cast<std::size_t>(indptr_[row]); from < end; ++from) {
      std::int32_t& number = place[static_cast<std::size_t>(indices_[from])];
      if (number == kLeftOut) continue;
      if (number == kNew) {
        number = static_cast<std::int32_t>(columns_.size());
        columns_.push_back(indices_[from]);
      }
      indices_[to] = number;
      if (has_data_) data_[to] = data_[from];
      ++to;
    }
    indptr_[row] = static_cast<std::int64_t>(to);
  }
  indices_.resize(to);
  if (has_data_) data_.resize(to);
  for (const std::int32_t column : columns_) place[static_cast<std::size_t>(column)] = kNew;
  for (const std::int32_t column : left_out) place[static_cast<std::size_t>(column)] = kNew;
}

// Copies the rows as they are.
void LocalCsr::gather(const CsrView& matrix, const NodeRows& node) {
  indptr_.resize(static_cast<std::size_t>(node.count) + 1);
  std::int64_t size = 0;
  for (std::int64_t i = 0; i < node.count; ++i) {
    if (i + kFarAhead < node.count) __builtin_prefetch(matrix.indptr + node.rows[i + kFarAhead]);
    indptr_[static_cast<std::size_t>(i)] = size;
    size += matrix.indptr[node.rows[i] + 1] - matrix.indptr[node.rows[i]];
  }
  indptr_[static_cast<std::size_t>(node.count)] = size;
  indices_.resize(static_cast<std::size_t>(size));
  if (has_data_) data_.resize(static_cast<std::size_t>(size));
  std::size_t at = 0;
  for (std::int64_t i = 0; i < node.count; ++i) {
    if (i + kAhead < node.count) {
      const std::int64_t next = matrix.indptr[node.rows[i + kAhead]];
      __builtin_prefetch(matrix.indices + next);
      if (has_data_) __builtin_prefetch(matrix.data + next);
    }
    const std::int64_t begin = matrix.indptr[node.rows[i]], end = matrix.indptr[node.rows[i] + 1];
    for (std::int64_t t = begin; t < end; ++t, ++at) {
      indices_[at] = matrix.indices[t];
      if (has_data_) data_[at] = matrix.data[t];
    }
  }
}

// Marks the columns with too few entries in `place`, and returns them.
std::vector<std::int32_t> LocalCsr::mark_rare(std::vector<std::int32_t>& place, int min_count) const {
  std::vector<std::int32_t> seen;
  for (const std::int32_t column : indices_) {
    if (++place[static_cast<std::size_t>(column)] == 0) seen.push_back(column);
  }
  std::size_t rare = 0;
  for (const std::int32_t column : seen) {
    std::int32_t& number = place[static_cast<std::size_t>(column)];  // one less than the count
    const bool is_rare = number + 1 < min_count;
    number = is_rare ? kLeftOut : kNew;
    if (is_rare) seen[rare++] = column;
  }
  seen.resize(rare);
  return seen;
}

CsrView LocalCsr::view() const {
  static const float nothing = 0;  // an empty vector may have a null pointer, which stands for "all ones"
  return {static_cast<std::int64_t>(indptr_.size()) - 1, static_cast<std::int64_t>(columns_.size()), indptr_.data(),
          indices_.data(),
          !has_data_      ? nullptr
          : data_.empty() ? &nothing
                          : data_.data()};
}

LocalDense::LocalDense(const DenseView& matrix, const NodeRows& node, std::vector<std::int32_t>&, int)
    : n_rows_(node.count), n_columns_(matrix.n_columns), columns_(static_cast<std::size_t>(matrix.n_columns)) {
  data_.reserve(static_cast<std::size_t>(node.count * n_columns_));
  for (std::int64_t i = 0; i < node.count; ++i) {
    const float* row = matrix.data + node.rows[i] * n_columns_;
    data_.insert(data_.end(), row, row + n_columns_);
  }
  std::iota(columns_.begin(), columns_.end(), 0);
}

bool is_whole(const NodeRows& node, std::int64_t n_rows) {
  if (node.count != n_rows) return false;
  for (std::int64_t i = 0; i < n_rows; ++i) {
    if (node.rows[i] != i) return false;
  }
  return true;
}

}  // namespace labelprism
