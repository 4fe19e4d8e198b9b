#include "tree_kernels.hpp"

#include <algorithm>
#include <vector>

#include "thread_pool.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kNodesPerTask = 16;
constexpr std::int64_t kRowsPerTask = 4096;

struct CountRoom {
  std::vector<double> sums;  // zero everywhere between two uses
  std::vector<std::int32_t> touched;
};

void count_node(const CsrView& Y, const NodeRows& node, CountRoom& room, GrowingCsr& out) {
  for (std::int64_t i = 0; i < node.count; ++i) {
    for (std::int64_t t = Y.indptr[node.rows[i]]; t < Y.indptr[node.rows[i] + 1]; ++t) {
      double& sum = room.sums[static_cast<std::size_t>(Y.indices[t])];
      if (sum == 0) room.touched.push_back(Y.indices[t]);
      sum += node.weight[i];
    }
  }
  std::sort(room.touched.begin(), room.touched.end());
  // A label whose weights so far were all zero was noted more than once.
  room.touched.erase(std::unique(room.touched.begin(), room.touched.end()), room.touched.end());
  for (const std::int32_t label : room.touched) {
    out.push(label, static_cast<float>(room.sums[static_cast<std::size_t>(label)]));
    room.sums[static_cast<std::size_t>(label)] = 0;
  }
  room.touched.clear();
  out.end_row();
}

// The weights of one router, spread out so that the weight of a feature is found by its number.
struct SpreadRouter {
  std::vector<float> weights;  // zero everywhere between two uses
};

float sparse_dot(const CsrView& X, std::int64_t row, const float* weights) {
  float sum = 0;
  for (std::int64_t t = X.indptr[row]; t < X.indptr[row + 1]; ++t) sum += weights[X.indices[t]] * X.data[t];
  return sum;
}

// The same without spreading the router out: every feature is searched among the router's.
float searched_dot(const CsrView& X, std::int64_t row, const std::int32_t* begin, const std::int32_t* end,
                   const float* weights) {
  float sum = 0;
  for (std::int64_t t = X.indptr[row]; t < X.indptr[row + 1]; ++t) {
    const std::int32_t* found = std::lower_bound(begin, end, X.indices[t]);
    if (found != end && *found == X.indices[t]) sum += weights[found - begin] * X.data[t];
  }
  return sum;
}

// Few rows at a large router are better served by searching than by spreading it out.
constexpr std::int64_t kSearchCost = 8;

void part_margins(const CsrView& X, const CsrView& routers, std::int64_t node, const NodeRows& part,
                  SpreadRouter& spread, float* margins) {
  const std::int64_t begin = routers.indptr[node], end = routers.indptr[node + 1];
  std::int64_t entries = 0;
  for (std::int64_t i = 0; i < part.count; ++i) entries += X.indptr[part.rows[i] + 1] - X.indptr[part.rows[i]];
  if (kSearchCost * entries < end - begin) {
    for (std::int64_t i = 0; i < part.count; ++i) {
      margins[i] = searched_dot(X, part.rows[i], routers.indices + begin, routers.indices + end, routers.data + begin);
    }
    return;
  }
  spread.weights.resize(static_cast<std::size_t>(X.n_columns), 0.0f);
  for (std::int64_t t = begin; t < end; ++t)
    spread.weights[static_cast<std::size_t>(routers.indices[t])] = routers.data[t];
  for (std::int64_t i = 0; i < part.count; ++i) margins[i] = sparse_dot(X, part.rows[i], spread.weights.data());
  for (std::int64_t t = begin; t < end; ++t) spread.weights[static_cast<std::size_t>(routers.indices[t])] = 0;
}

void part_margins(const DenseView& X, const CsrView& routers, std::int64_t node, const NodeRows& part, SpreadRouter&,
                  float* margins) {
  for (std::int64_t i = 0; i < part.count; ++i) {
    const float* row = X.data + part.rows[i] * X.n_columns;
    float sum = 0;
    for (std::int64_t t = routers.indptr[node]; t < routers.indptr[node + 1]; ++t) {
      sum += routers.data[t] * row[routers.indices[t]];
    }
    margins[i] = sum;
  }
}

// Some rows of a group, so that a large group occupies several threads.
struct Part {
  std::int64_t group;
  std::int64_t first;  // within all rows
  std::int64_t count;
};

template <class Matrix>
void all_margins(const Matrix& X, const CsrView& routers, const NodeGroups& groups, const std::int64_t* nodes,
                 int n_threads, float* margins) {
  std::vector<Part> parts;
  for (std::int64_t g = 0; g < groups.n_nodes; ++g) {
    for (std::int64_t first = groups.offsets[g]; first < groups.offsets[g + 1]; first += kRowsPerTask) {
      parts.push_back({g, first, std::min(kRowsPerTask, groups.offsets[g + 1] - first)});
    }
  }
  Lender<SpreadRouter> lender;
  parallel_for(static_cast<std::int64_t>(parts.size()), n_threads, [&](std::int64_t i) {
    const Part& part = parts[static_cast<std::size_t>(i)];
    lender.lend([&](SpreadRouter& spread) {
      const NodeRows rows{groups.rows + part.first, nullptr, part.count};
      part_margins(X, routers, nodes[part.group], rows, spread, margins + part.first);
    });
  });
}

}  // namespace

void label_counts(const CsrView& Y, const NodeGroups& groups, int n_threads, GrowingCsr& counts) {
  std::vector<GrowingCsr> pieces(static_cast<std::size_t>((groups.n_nodes + kNodesPerTask - 1) / kNodesPerTask));
  Lender<CountRoom> lender;
  parallel_ranges(groups.n_nodes, kNodesPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    lender.lend([&](CountRoom& room) {
      room.sums.resize(static_cast<std::size_t>(Y.n_columns), 0.0);
      GrowingCsr& piece = pieces[static_cast<std::size_t>(begin / kNodesPerTask)];
      for (std::int64_t node = begin; node < end; ++node) count_node(Y, groups[node], room, piece);
    });
  });
  counts.join(pieces);
}

void router_margins(const CsrView& X, const CsrView& routers, const NodeGroups& groups, const std::int64_t* nodes,
                    int n_threads, float* margins) {
  all_margins(X, routers, groups, nodes, n_threads, margins);
}

void router_margins(const DenseView& X, const CsrView& routers, const NodeGroups& groups, const std::int64_t* nodes,
                    int n_threads, float* margins) {
  all_margins(X, routers, groups, nodes, n_threads, margins);
}

void single_margins(const CsrView& X, const float* weights, int n_threads, float* out) {
  parallel_ranges(X.n_rows, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) out[row] = sparse_dot(X, row, weights);
  });
}

void single_margins(const DenseView& X, const float* weights, int n_threads, float* out) {
  parallel_ranges(X.n_rows, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* x = X.data + row * X.n_columns;
      float sum = 0;
      for (std::int64_t j = 0; j < X.n_columns; ++j) sum += weights[j] * x[j];
      out[row] = sum;
    }
  });
}

}  // namespace labelprism
