#include "csr_rows.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

#include "thread_pool.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kRowsPerTask = 1024;
constexpr std::int64_t kEntriesAtOnce = 1 << 14;  // twice as many fit the second-level cache
constexpr int kDigitBits = 11;

// Some rows, which are sorted together: by the digits of the columns, from the lowest on, and then by row. To sort each
// by itself, by comparing, takes several times as long.
class RowSorter {
 public:
  RowSorter(const CsrView& matrix, std::int32_t* indices, float* data)
      : matrix_(matrix), indices_(indices), data_(data) {
    int bits = 1;
    while (bits < 31 && (matrix.n_columns - 1) >> bits > 0) ++bits;
    n_digits_ = (bits + kDigitBits - 1) / kDigitBits;
    digit_bits_ = (bits + n_digits_ - 1) / n_digits_;
    counts_.resize(std::size_t{1} << digit_bits_);
  }

  // Sorts and writes the rows `begin` to `end`; returns whether one has a column twice.
  bool run(std::int64_t begin, std::int64_t end) {
    load(begin, end);
    for (int digit = 0; digit < n_digits_; ++digit) sort_by(digit * digit_bits_);
    return write(begin, end);
  }

 private:
  struct Entry {
    std::uint32_t column, row;
    float value;
  };

  void load(std::int64_t begin, std::int64_t end) {
    const std::int64_t first = matrix_.indptr[begin];
    entries_.resize(static_cast<std::size_t>(matrix_.indptr[end] - first));
    sorted_.resize(entries_.size());
    Entry* entry = entries_.data();
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t t = matrix_.indptr[row]; t < matrix_.indptr[row + 1]; ++t) {
        *entry++ = {static_cast<std::uint32_t>(matrix_.indices[t]), static_cast<std::uint32_t>(row - begin),
                    matrix_.data[t]};
      }
    }
  }

  void sort_by(int shift) {
    const std::uint32_t mask = (1u << digit_bits_) - 1;
    std::fill(counts_.begin(), counts_.end(), 0u);
    for (const Entry& entry : entries_) ++counts_[entry.column >> shift & mask];
    std::uint32_t before = 0;
    for (std::uint32_t& count : counts_) before += std::exchange(count, before);
    for (const Entry& entry : entries_) sorted_[counts_[entry.column >> shift & mask]++] = entry;
    entries_.swap(sorted_);
  }

  bool write(std::int64_t begin, std::int64_t end) {
    next_.assign(matrix_.indptr + begin, matrix_.indptr + end);
    bool twice = false;
    for (const Entry& entry : entries_) {
      const std::int64_t at = next_[entry.row]++;
      indices_[at] = static_cast<std::int32_t>(entry.column);
      data_[at] = entry.value;
    }
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t t = matrix_.indptr[row] + 1; t < matrix_.indptr[row + 1]; ++t) {
        twice |= indices_[t] == indices_[t - 1];
      }
    }
    return twice;
  }

  const CsrView& matrix_;
  std::int32_t* indices_;
  float* data_;
  int n_digits_, digit_bits_;
  std::vector<std::uint32_t> counts_;
  std::vector<Entry> entries_, sorted_;
  std::vector<std::int64_t> next_;  // where the next entry of a row is to be written
};

}  // namespace

bool sort_rows(const CsrView& matrix, int n_threads, std::int32_t* indices, float* data) {
  std::atomic<bool> has_twice{false};
  parallel_ranges(matrix.n_rows, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    RowSorter sorter(matrix, indices, data);
    while (begin < end) {
      std::int64_t next = begin + 1;
      while (next < end && matrix.indptr[next + 1] - matrix.indptr[begin] <= kEntriesAtOnce) ++next;
      if (sorter.run(begin, next)) has_twice = true;
      begin = next;
    }
  });
  return !has_twice;
}

void gather_rows(const CsrView& matrix, const std::int64_t* rows, std::int64_t count, const std::int64_t* indptr,
                 int n_threads, std::int32_t* indices, float* data) {
  parallel_ranges(count, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t first = matrix.indptr[rows[r]];
      std::copy_n(matrix.indices + first, indptr[r + 1] - indptr[r], indices + indptr[r]);
      std::copy_n(matrix.data + first, indptr[r + 1] - indptr[r], data + indptr[r]);
    }
  });
}

}  // namespace labelprism
