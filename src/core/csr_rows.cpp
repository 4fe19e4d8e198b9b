#include "csr_rows.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "thread_pool.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kRowsPerTask = 1024;

}  // namespace

bool sort_rows(const CsrView& matrix, int n_threads, std::int32_t* indices, float* data) {
  std::atomic<bool> has_twice{false};
  parallel_ranges(matrix.n_rows, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::uint64_t> entries;  // the column, then the bits of the value: whole numbers are sorted fast
    bool twice = false;
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t first = matrix.indptr[row];
      const auto count = static_cast<std::size_t>(matrix.indptr[row + 1] - first);
      entries.resize(count);
      for (std::size_t i = 0; i < count; ++i) {
        std::uint32_t bits;
        std::memcpy(&bits, matrix.data + first + i, sizeof bits);
        entries[i] = static_cast<std::uint64_t>(matrix.indices[first + static_cast<std::int64_t>(i)]) << 32 | bits;
      }
      std::sort(entries.begin(), entries.end());
      for (std::size_t i = 0; i < count; ++i) {
        const auto bits = static_cast<std::uint32_t>(entries[i]);
        std::memcpy(data + first + i, &bits, sizeof bits);
        indices[first + static_cast<std::int64_t>(i)] = static_cast<std::int32_t>(entries[i] >> 32);
        twice |= i > 0 && entries[i] >> 32 == entries[i - 1] >> 32;
      }
    }
    if (twice) has_twice = true;
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
