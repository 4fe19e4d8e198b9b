#include "node_rows.hpp"

#include <algorithm>
#include <numeric>

namespace labelprism {

namespace {

constexpr std::int32_t kNew = -1, kLeftOut = -2;

}  // namespace

LocalCsr::LocalCsr(const CsrView& matrix, const NodeRows& node, std::vector<std::int32_t>& place, int min_count)
    : has_data_(matrix.data != nullptr) {
  std::int64_t size = 0;
  for (std::int64_t i = 0; i < node.count; ++i) {
    size += matrix.indptr[node.rows[i] + 1] - matrix.indptr[node.rows[i]];
  }
  indptr_.reserve(static_cast<std::size_t>(node.count + 1));
  indices_.resize(static_cast<std::size_t>(size));
  if (has_data_) data_.resize(static_cast<std::size_t>(size));
  if (min_count > 1) leave_out_rare(matrix, node, place, min_count);
  indptr_.push_back(0);
  std::size_t at = 0;
  for (std::int64_t i = 0; i < node.count; ++i) {
    const std::int64_t begin = matrix.indptr[node.rows[i]], end = matrix.indptr[node.rows[i] + 1];
    for (std::int64_t t = begin; t < end; ++t) {
      std::int32_t& number = place[static_cast<std::size_t>(matrix.indices[t])];
      if (number == kLeftOut) continue;
      if (number == kNew) {
        number = static_cast<std::int32_t>(columns_.size());
        columns_.push_back(matrix.indices[t]);
      }
      indices_[at] = number;
      if (has_data_) data_[at] = matrix.data[t];
      ++at;
    }
    indptr_.push_back(static_cast<std::int64_t>(at));
  }
  for (const std::int32_t column : columns_) place[static_cast<std::size_t>(column)] = kNew;
  for (const std::int32_t column : left_out_) place[static_cast<std::size_t>(column)] = kNew;
}

// Marks the columns with too few entries in `place`.
void LocalCsr::leave_out_rare(const CsrView& matrix, const NodeRows& node, std::vector<std::int32_t>& place,
                              int min_count) {
  for (std::int64_t i = 0; i < node.count; ++i) {
    for (std::int64_t t = matrix.indptr[node.rows[i]]; t < matrix.indptr[node.rows[i] + 1]; ++t) {
      if (++place[static_cast<std::size_t>(matrix.indices[t])] == 0) left_out_.push_back(matrix.indices[t]);
    }
  }
  std::size_t rare = 0;
  for (const std::int32_t column : left_out_) {
    std::int32_t& number = place[static_cast<std::size_t>(column)];  // one less than the count
    const bool is_rare = number + 1 < min_count;
    number = is_rare ? kLeftOut : kNew;
    if (is_rare) left_out_[rare++] = column;
  }
  left_out_.resize(rare);
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
