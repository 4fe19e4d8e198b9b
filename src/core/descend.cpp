#include "descend.hpp"

#include <algorithm>
#include <cmath>

#include "scramble.hpp"
#include "thread_pool.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kRowsPerTask = 512;
constexpr int kRowsAtOnce = 8;  // side by side, so that their sums do not wait for each other

bool goes_right(const TreeView& tree, std::int32_t node, float margin, std::int64_t row,
                const std::optional<std::uint64_t>& seed) {
  if (!seed || tree.noise[node] <= 0) return margin > tree.bias[node];
  const double distance = static_cast<double>(margin) - tree.bias[node];
  const double probability = 0.5 * std::erfc(-distance / (tree.noise[node] * std::sqrt(2.0)));
  const std::uint64_t bits =
      scramble(scramble(*seed ^ scramble(static_cast<std::uint64_t>(row))) ^ static_cast<std::uint64_t>(node));
  return uniform(bits) < probability;
}

float margin_of(const CsrView& X, std::int64_t row, const CsrView& routers, std::int32_t node) {
  const std::int32_t* at = routers.indices + routers.indptr[node];
  const std::int32_t* const end = routers.indices + routers.indptr[node + 1];
  float sum = 0;
  for (std::int64_t t = X.indptr[row]; t < X.indptr[row + 1] && at != end; ++t) {
    at = std::lower_bound(at, end, X.indices[t]);  // both ascend
    if (at != end && *at == X.indices[t]) sum += routers.data[at - routers.indices] * X.data[t];
  }
  return sum;
}

float margin_of(const DenseView& X, std::int64_t row, const CsrView& routers, std::int32_t node) {
  const float* x = X.data + row * X.n_columns;
  float sum = 0;
  for (std::int64_t t = routers.indptr[node]; t < routers.indptr[node + 1]; ++t) {
    sum += routers.data[t] * x[routers.indices[t]];
  }
  return sum;
}

// The margins of several dense rows at routers that have a weight for every feature.
void full_margins(const DenseView& X, const std::int64_t* rows, const CsrView& routers, const std::int32_t* nodes,
                  float* margins) {
  const float* w[kRowsAtOnce];
  const float* x[kRowsAtOnce];
  float sums[kRowsAtOnce] = {};
  for (int r = 0; r < kRowsAtOnce; ++r) {
    w[r] = routers.data + routers.indptr[nodes[r]];
    x[r] = X.data + rows[r] * X.n_columns;
  }
  for (std::int64_t j = 0; j < X.n_columns; ++j) {
    for (int r = 0; r < kRowsAtOnce; ++r) sums[r] += w[r][j] * x[r][j];
  }
  std::copy_n(sums, kRowsAtOnce, margins);
}

template <class Matrix>
void descend_one(const Matrix& X, const TreeView& tree, std::int64_t row, const std::optional<std::uint64_t>& seed,
                 std::int32_t& node) {
  while (tree.children[node] >= 0) {
    node = tree.children[node] + goes_right(tree, node, margin_of(X, row, tree.routers, node), row, seed);
  }
}

void descend_range(const CsrView& X, const TreeView& tree, std::int64_t begin, std::int64_t end,
                   const std::optional<std::uint64_t>& seed, std::int32_t* nodes) {
  for (std::int64_t row = begin; row < end; ++row) descend_one(X, tree, row, seed, nodes[row] = 0);
}

// Eight rows are on their way; one that arrives makes room for the next.
void descend_range(const DenseView& X, const TreeView& tree, std::int64_t begin, std::int64_t end,
                   const std::optional<std::uint64_t>& seed, std::int32_t* nodes) {
  const auto is_full = [&](std::int32_t node) {
    return tree.routers.indptr[node + 1] - tree.routers.indptr[node] == X.n_columns;
  };
  std::int64_t rows[kRowsAtOnce], next = begin;
  std::int32_t at[kRowsAtOnce];
  int n_under_way = 0;
  const auto admit = [&] {
    while (n_under_way < kRowsAtOnce && next < end) {
      rows[n_under_way] = next++;
      at[n_under_way++] = 0;
    }
  };
  float margins[kRowsAtOnce];
  for (admit(); n_under_way > 0; admit()) {
    bool all_full = n_under_way == kRowsAtOnce;
    for (int r = 0; r < n_under_way && all_full; ++r) all_full = tree.children[at[r]] >= 0 && is_full(at[r]);
    if (all_full) {
      full_margins(X, rows, tree.routers, at, margins);
    } else {
      for (int r = 0; r < n_under_way; ++r) {
        margins[r] = tree.children[at[r]] < 0 ? 0 : margin_of(X, rows[r], tree.routers, at[r]);
      }
    }
    int kept = 0;
    for (int r = 0; r < n_under_way; ++r) {
      std::int32_t node = at[r];
      if (tree.children[node] >= 0) {
        node = tree.children[node] + goes_right(tree, node, margins[r], rows[r], seed);
      }
      if (tree.children[node] < 0) {
        nodes[rows[r]] = node;
      } else {
        rows[kept] = rows[r];
        at[kept++] = node;
      }
    }
    n_under_way = kept;
  }
}

template <class Matrix>
void descend_all(const Matrix& X, const TreeView& tree, const std::optional<std::uint64_t>& seed, int n_threads,
                 std::int32_t* nodes) {
  parallel_ranges(X.n_rows, kRowsPerTask, n_threads,
                  [&](std::int64_t begin, std::int64_t end) { descend_range(X, tree, begin, end, seed, nodes); });
}

}  // namespace

void descend(const CsrView& X, const TreeView& tree, std::optional<std::uint64_t> seed, int n_threads,
             std::int32_t* nodes) {
  descend_all(X, tree, seed, n_threads, nodes);
}

void descend(const DenseView& X, const TreeView& tree, std::optional<std::uint64_t> seed, int n_threads,
             std::int32_t* nodes) {
  descend_all(X, tree, seed, n_threads, nodes);
}

}  // namespace labelprism
