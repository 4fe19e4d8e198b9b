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
  const std::size_t size = measure(matrix, node);
  LargeVector<std::int32_t> seen(std::min(size, place.size()) + 1);
  const std::size_t n_seen = gather(matrix, node, place.data(), seen.data());
  for (std::size_t i = 0; i < n_seen; ++i) {
    std::int32_t& number = place[static_cast<std::size_t>(seen[i])];  // one less than the count of entries
    const bool is_kept = number + 1 >= min_count;
    number = is_kept ? static_cast<std::int32_t>(columns_.size()) : kLeftOut;
    if (is_kept) columns_.push_back(seen[i]);
  }
  if (columns_.size() == n_seen) {
    for (std::int32_t& index : indices_) index = place[static_cast<std::size_t>(index)];
  } else {
    leave_out(place.data());
  }
  for (std::size_t i = 0; i < n_seen; ++i) place[static_cast<std::size_t>(seen[i])] = kNew;
}

// Notes where the rows will begin, and makes room for their entries, whose number is returned.
std::size_t LocalCsr::measure(const CsrView& matrix, const NodeRows& node) {
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
  return static_cast<std::size_t>(size);
}

// Copies the rows as they are, counts the entries of each column in `place`, from -1 on, and writes the columns that
// have some to `seen`, in the order of their first appearance; returns how many there are.
std::size_t LocalCsr::gather(const CsrView& matrix, const NodeRows& node, std::int32_t* place, std::int32_t* seen) {
  std::int32_t* const indices = indices_.data();
  float* const data = data_.data();
  std::size_t at = 0, n_seen = 0;
  for (std::int64_t i = 0; i < node.count; ++i) {
    if (i + kAhead < node.count) {
      const std::int64_t next = matrix.indptr[node.rows[i + kAhead]];
      __builtin_prefetch(matrix.indices + next);
      if (has_data_) __builtin_prefetch(matrix.data + next);
    }
    const std::int64_t begin = matrix.indptr[node.rows[i]], end = matrix.indptr[node.rows[i] + 1];
    if (has_data_) std::copy(matrix.data + begin, matrix.data + end, data + at);
    for (std::int64_t t = begin; t < end; ++t, ++at) {
      // Noted in any case, and kept if it is new, which cannot be foretold: that needs no jump.
      const std::int32_t column = matrix.indices[t], count = place[column];
      indices[at] = seen[n_seen] = column;
      place[column] = count + 1;
      n_seen += count == kNew;
    }
  }
  return n_seen;
}

// Numbers the columns anew, and leaves entries out whose column has no number.
void LocalCsr::leave_out(const std::int32_t* place) {
  std::int32_t* const indices = indices_.data();
  float* const data = data_.data();
  std::size_t to = 0, from = 0;
  for (std::size_t row = 1; row < indptr_.size(); ++row) {
    for (const auto end = static_cast<std::size_t>(indptr_[row]); from < end; ++from) {
      const std::int32_t number = place[indices[from]];
      indices[to] = number;
      if (has_data_) data[to] = data[from];
      to += number >= 0;
    }
    indptr_[row] = static_cast<std::int64_t>(to);
  }
  indices_.resize(to);
  if (has_data_) data_.resize(to);
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
