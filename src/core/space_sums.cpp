#include "space_sums.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "block_kernels.hpp"
#include "large_vector.hpp"
#include "thread_pool.hpp"
#include "unit_vector.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kRowsAtOnce = 8192;  // whose vectors stay in the cache until they are added up
constexpr std::int64_t kRowsPerTask = 256;

// Some rows of a matrix.
CsrView rows_of(const CsrView& matrix, std::int64_t first, std::int64_t count) {
  return {count, matrix.n_columns, matrix.indptr + first, matrix.indices, matrix.data};
}

// The entries of some columns, and what adds them up.
class PartSums {
 public:
  void add(const CsrView& to, const float* vectors, std::int64_t part, std::int64_t n_parts,
           const BlockKernels& kernels, float* out) {
    indptr_.assign(1, 0);
    indices_.clear();
    values_.clear();
    for (std::int64_t r = 0; r < to.n_rows; ++r) {
      for (std::int64_t t = to.indptr[r]; t < to.indptr[r + 1]; ++t) {
        if (!is_of_part(to.indices[t], part, n_parts)) continue;
        indices_.push_back(to.indices[t]);
        values_.push_back(to.data ? to.data[t] : 1.0f);
      }
      indptr_.push_back(static_cast<std::int64_t>(indices_.size()));
    }
    const CsrView own{to.n_rows, to.n_columns, indptr_.data(), indices_.data(), values_.data()};
    kernels.scatter(own, 0, to.n_rows, nullptr, vectors, kSpaceWidth, scaled_.data(), out);
  }

 private:
  std::vector<std::int64_t> indptr_;
  std::vector<std::int32_t> indices_;
  std::vector<float> values_;
  std::array<float, kSpaceWidth> scaled_;
};

}  // namespace

void add_through_rows(const CsrView& from, const CsrView& to, const float* weight, const float* vectors, bool unit,
                      int n_threads, float* out) {
  const BlockKernels& kernels = block_kernels();
  const std::int64_t n_rows = from.n_rows, n_parts = parts_for(n_threads);
  std::vector<PartSums> parts(static_cast<std::size_t>(n_parts));
  LargeVector<float> of_rows(static_cast<std::size_t>(std::min(kRowsAtOnce, n_rows) * kSpaceWidth));
  for (std::int64_t first = 0; first < n_rows; first += kRowsAtOnce) {
    const std::int64_t count = std::min(kRowsAtOnce, n_rows - first);
    const CsrView some = rows_of(from, first, count);
    parallel_ranges(count, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
      kernels.gather(some, begin, end, vectors, kSpaceWidth, of_rows.data());
      for (std::int64_t r = begin; r < end; ++r) {
        float* const vector = of_rows.data() + r * kSpaceWidth;
        if (unit) make_unit(vector);
        for (std::int64_t j = 0; weight && j < kSpaceWidth; ++j) vector[j] *= weight[first + r];
      }
    });
    parallel_for(n_parts, n_threads, [&](std::int64_t part) {
      parts[static_cast<std::size_t>(part)].add(rows_of(to, first, count), of_rows.data(), part, n_parts, kernels, out);
    });
  }
}

}  // namespace labelprism
