// The loops of block_kernels.hpp, included by one .cpp per instruction set that defines LABELPRISM_KERNELS.
//
// No templates of the standard library in here: the linker keeps one copy of such a function for the whole module, and
// that copy must not be the one compiled with AVX-512. Lanes never mix, so all instruction sets give the same bits.

#include "block_kernels.hpp"
#include "exp_lanes.hpp"
#include "unit_vector.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace labelprism {
namespace {

// W floats that may lie at any address; the compiler makes registers of the size it has out of them.
template <int W>
struct Lanes {
  typedef float type __attribute__((vector_size(W * sizeof(float)), aligned(sizeof(float)), may_alias));
};

// Entries this far ahead are asked for early: rows of a block that does not fit the cache come from memory in time.
constexpr std::int64_t kAhead = 12;

constexpr int kLine = 16;  // floats in a line of the cache

// Asks for W floats.
template <int W, int ForWriting>
inline void ask_for(const float* at) {
  for (int i = 0; i < W; i += kLine) __builtin_prefetch(at + i, ForWriting);
}

// A sum that does not fit one register must be kept as several that do, or the compiler keeps it in memory.
#if defined(__AVX512F__)
constexpr int kWidest = 16;
#elif defined(__AVX2__)
constexpr int kWidest = 8;
#else
constexpr int kWidest = 4;
#endif

template <int W, bool HasData>
inline void gather_row(const CsrView& m, std::int64_t row, const float* block, std::int64_t width, float* out) {
  constexpr int kLanes = W < kWidest ? W : kWidest;
  using Vector = typename Lanes<kLanes>::type;
  Vector sums[W / kLanes] = {};
  const std::int64_t last = m.indptr[row + 1];
  for (std::int64_t t = m.indptr[row]; t < last; ++t) {
    // indices of the rows that follow are next in memory; only the very end of the matrix has none
    if (t + kAhead < m.indptr[m.n_rows]) ask_for<W, 0>(block + m.indices[t + kAhead] * width);
    const float* from = block + m.indices[t] * width;
    for (int i = 0; i < W / kLanes; ++i) {
      const Vector lanes = *reinterpret_cast<const Vector*>(from + i * kLanes);
      sums[i] += HasData ? m.data[t] * lanes : lanes;
    }
  }
  for (int i = 0; i < W / kLanes; ++i) *reinterpret_cast<Vector*>(out + i * kLanes) = sums[i];
}

template <int W, bool HasData>
inline void scatter_row(const CsrView& m, std::int64_t row, const float* scaled, std::int64_t width, float* out) {
  constexpr int kLanes = W < kWidest ? W : kWidest;
  using Vector = typename Lanes<kLanes>::type;
  const std::int64_t last = m.indptr[row + 1];
  for (std::int64_t t = m.indptr[row]; t < last; ++t) {
    if (t + kAhead < m.indptr[m.n_rows]) ask_for<W, 1>(out + m.indices[t + kAhead] * width);
    float* to = out + m.indices[t] * width;
    for (int i = 0; i < W / kLanes; ++i) {
      const Vector lanes = *reinterpret_cast<const Vector*>(scaled + i * kLanes);
      *reinterpret_cast<Vector*>(to + i * kLanes) += HasData ? m.data[t] * lanes : lanes;
    }
  }
}

// Widths are served in pieces of 64, 16, 8 and 1 vectors: for each piece the entries of a row are gone through again.
template <bool HasData>
void gather_rows(const CsrView& m, std::int64_t begin, std::int64_t end, const float* block, std::int64_t width,
                 float* out) {
  for (std::int64_t row = begin; row < end; ++row) {
    float* to = out + row * width;
    std::int64_t j = 0;
    for (; j + 64 <= width; j += 64) gather_row<64, HasData>(m, row, block + j, width, to + j);
    for (; j + 16 <= width; j += 16) gather_row<16, HasData>(m, row, block + j, width, to + j);
    for (; j + 8 <= width; j += 8) gather_row<8, HasData>(m, row, block + j, width, to + j);
    for (; j < width; ++j) gather_row<1, HasData>(m, row, block + j, width, to + j);
  }
}

template <bool HasData>
void scatter_rows(const CsrView& m, std::int64_t begin, std::int64_t end, const float* row_weight, const float* block,
                  std::int64_t width, float* scaled, float* out) {
  for (std::int64_t row = begin; row < end; ++row) {
    const float weight = row_weight ? row_weight[row] : 1.0f;
    for (std::int64_t j = 0; j < width; ++j) scaled[j] = weight * block[row * width + j];
    std::int64_t j = 0;
    for (; j + 64 <= width; j += 64) scatter_row<64, HasData>(m, row, scaled + j, width, out + j);
    for (; j + 16 <= width; j += 16) scatter_row<16, HasData>(m, row, scaled + j, width, out + j);
    for (; j + 8 <= width; j += 8) scatter_row<8, HasData>(m, row, scaled + j, width, out + j);
    for (; j < width; ++j) scatter_row<1, HasData>(m, row, scaled + j, width, out + j);
  }
}

void gather(const CsrView& m, std::int64_t begin, std::int64_t end, const float* block, std::int64_t width,
            float* out) {
  (m.data ? gather_rows<true> : gather_rows<false>)(m, begin, end, block, width, out);
}

void scatter(const CsrView& m, std::int64_t begin, std::int64_t end, const float* row_weight, const float* block,
             std::int64_t width, float* scaled, float* out) {
  (m.data ? scatter_rows<true> : scatter_rows<false>)(m, begin, end, row_weight, block, width, scaled, out);
}

template <bool HasData>
void gather_some_rows(const CsrView& m, const std::int32_t* rows, std::int64_t count, const float* block, float* out) {
  for (std::int64_t i = 0; i < count; ++i) gather_row<8, HasData>(m, rows[i], block, 8, out + i * 8);
}

template <bool HasData>
void scatter_some_rows(const CsrView& m, const std::int32_t* rows, std::int64_t count, const float* block, float* out) {
  for (std::int64_t i = 0; i < count; ++i) scatter_row<8, HasData>(m, rows[i], block + i * 8, 8, out);
}

void gather_some(const CsrView& m, const std::int32_t* rows, std::int64_t count, const float* block, float* out) {
  (m.data ? gather_some_rows<true> : gather_some_rows<false>)(m, rows, count, block, out);
}

void scatter_some(const CsrView& m, const std::int32_t* rows, std::int64_t count, const float* block, float* out) {
  (m.data ? scatter_some_rows<true> : scatter_some_rows<false>)(m, rows, count, block, out);
}

// Dense rows are taken four at a time: a row of the block is loaded once for all four, and four sums grow side by side.
// Every sum is still added up in the same order.
constexpr int kDenseRows = 4;
using Eight = Lanes<8>::type;

inline Eight lanes_at(const float* at) { return *reinterpret_cast<const Eight*>(at); }

// Eight floats that are written. No reference to Eight: of one that a function returns Clang believes it is aligned.
struct EightAt {
  float* at;
  operator Eight() const { return lanes_at(static_cast<const float*>(at)); }
  void operator=(Eight lanes) const { *reinterpret_cast<Eight*>(at) = lanes; }
  void operator+=(Eight lanes) const { *reinterpret_cast<Eight*>(at) += lanes; }
};
inline EightAt lanes_at(float* at) { return {at}; }

template <int Rows>
inline void gather_dense_rows(const float* x, std::int64_t n_columns, const float* block, float* out) {
  Eight sums[Rows] = {};
  for (std::int64_t j = 0; j < n_columns; ++j) {
    const Eight lanes = lanes_at(block + j * 8);
    for (int r = 0; r < Rows; ++r) sums[r] += x[r * n_columns + j] * lanes;
  }
  for (int r = 0; r < Rows; ++r) lanes_at(out + r * 8) = sums[r];
}

template <int Rows>
inline void scatter_dense_rows(const float* x, std::int64_t n_columns, const float* row_weight, const float* block,
                               float* out) {
  Eight scaled[Rows];
  for (int r = 0; r < Rows; ++r) scaled[r] = (row_weight ? row_weight[r] : 1.0f) * lanes_at(block + r * 8);
  for (std::int64_t j = 0; j < n_columns; ++j) {
    Eight sum = lanes_at(out + j * 8);
    for (int r = 0; r < Rows; ++r) sum += x[r * n_columns + j] * scaled[r];
    lanes_at(out + j * 8) = sum;
  }
}

void gather_dense(const DenseView& m, std::int64_t begin, std::int64_t end, const float* block, float* out) {
  const std::int64_t d = m.n_columns;
  std::int64_t row = begin;
  for (; row + kDenseRows <= end; row += kDenseRows) {
    gather_dense_rows<kDenseRows>(m.data + row * d, d, block, out + row * 8);
  }
  for (; row < end; ++row) gather_dense_rows<1>(m.data + row * d, d, block, out + row * 8);
}

void scatter_dense(const DenseView& m, std::int64_t begin, std::int64_t end, const float* row_weight,
                   const float* block, float* out) {
  const std::int64_t d = m.n_columns;
  std::int64_t row = begin;
  const auto weight = [row_weight](std::int64_t r) { return row_weight ? row_weight + r : nullptr; };
  for (; row + kDenseRows <= end; row += kDenseRows) {
    scatter_dense_rows<kDenseRows>(m.data + row * d, d, weight(row), block + row * 8, out);
  }
  for (; row < end; ++row) scatter_dense_rows<1>(m.data + row * d, d, weight(row), block + row * 8, out);
}

void normal(const CsrView& m, std::int64_t begin, std::int64_t end, const float* row_weight, const float* block,
            float* out) {
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t first = m.indptr[row], last = m.indptr[row + 1];
    Eight sum = {};
    for (std::int64_t t = first; t < last; ++t) {
      if (t + kAhead < m.indptr[m.n_rows]) __builtin_prefetch(block + m.indices[t + kAhead] * std::int64_t{8});
      sum += lanes_at(block + m.indices[t] * std::int64_t{8});
    }
    sum *= row_weight[row];
    for (std::int64_t t = first; t < last; ++t) lanes_at(out + m.indices[t] * std::int64_t{8}) += sum;
  }
}

void gram(const float* a, const float* b, std::int64_t n_rows, float* products) {
  Eight sums[8] = {};
  for (std::int64_t row = 0; row < n_rows; ++row) {
    const Eight lanes = lanes_at(b + row * 8);
    for (int i = 0; i < 8; ++i) sums[i] += a[row * 8 + i] * lanes;
  }
  for (int i = 0; i < 8; ++i) lanes_at(products + i * 8) = sums[i];
}

void combine(const float* a, const float* coefficients, std::int64_t n_rows, bool add, float* out) {
  for (std::int64_t row = 0; row < n_rows; ++row) {
    Eight sum = {};
    for (int i = 0; i < 8; ++i) sum += a[row * 8 + i] * lanes_at(coefficients + i * 8);
    if (add) sum += Eight(lanes_at(out + row * 8));
    lanes_at(out + row * 8) = sum;
  }
}

void add_line(const RowOnLine* rows, std::int64_t count, const float* steps, float* losses, float* sizes) {
  for (int first = 0; first < 16; first += 8) {  // eight steps at a time: all sums stay in registers
    const Eight step = lanes_at(steps + first), zero = {};
    Eight loss = zero, size = zero;
    for (std::int64_t i = 0; i < count; ++i) {
      const RowOnLine& row = rows[i];
      const Eight slack = row.slack + step * row.slack_move, centred = row.centred + step * row.centred_move;
      const Eight lost = slack > zero ? slack : zero;
      loss += row.cost * (lost * lost);
      size += row.weight * (centred > zero ? centred : -centred);
    }
    lanes_at(losses + first) += loss;
    lanes_at(sizes + first) += size;
  }
}

#include "router_kernels.inl"
#include "selection_kernels.inl"
#include "space_kernels.inl"
#include "space_learning.inl"

}  // namespace

const BlockKernels LABELPRISM_KERNELS = {LABELPRISM_NAME, gather,        scatter,      gather_some,   scatter_some,
                                         gather_dense,    scatter_dense, normal,       gram,          combine,
                                         add_line,        route_dense,   route_hashed, leave_block,   add_weights,
                                         add_all_weights, find_places,   add_halves,   nth_largest,   places_from,
                                         add_vectors,     copy_vectors,  pull_rows,    round_vectors, dot_vectors,
                                         tile_cosines};

}  // namespace labelprism
