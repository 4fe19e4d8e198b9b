#include "spread_sums.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "block_algebra.hpp"
#include "block_kernels.hpp"
#include "normal_table.hpp"
#include "router_refinement.hpp"
#include "row_algebra.hpp"
#include "row_routing.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kRowsAtOnce = 256;  // of the sketch, whose numbers stay in the cache between two products

// Calls use(rows, weights, count) for a few rows at a time.
template <class Use>
void for_pieces(const NodeRows& node, const Use& use) {
  for (std::int64_t first = 0; first < node.count; first += kRowsAtOnce) {
    use(node.rows + first, node.weight + first, std::min(kRowsAtOnce, node.count - first));
  }
}

using Piece = std::array<float, kRowsAtOnce * kBlock>;

void subtract(const float* means, std::int64_t count, Piece& piece) {
  for (std::int64_t i = 0; i < count; ++i) {
    for (int j = 0; j < kBlock; ++j) piece[static_cast<std::size_t>(i * kBlock + j)] -= means[j];
  }
}

// `to` may be `from`.
void weigh(const float* weight, std::int64_t count, const Piece& from, Piece& to) {
  for (std::int64_t i = 0; i < count; ++i) {
    for (int j = 0; j < kBlock; ++j) {
      const auto at = static_cast<std::size_t>(i * kBlock + j);
      to[at] = weight[i] * from[at];
    }
  }
}

void round_to(float* out, const std::vector<double>& sums) {
  for (std::size_t i = 0; i < sums.size(); ++i) out[i] = static_cast<float>(sums[i]);
}

// Where a row belongs, and what a mistake costs.
struct Target {
  float side, cost;
};

Target target_of(const CsrView& Y, std::int64_t row, float weight, const LabelVotes& votes) {
  float vote = 0, possible = 0;
  for (std::int64_t t = Y.indptr[row]; t < Y.indptr[row + 1]; ++t) {
    const float* label = votes.table + std::int64_t{2} * Y.indices[t];
    vote += label[0];
    possible += label[1];
  }
  return {vote >= 0 ? 1.0f : -1.0f, possible > 0 ? votes.cost * weight * std::abs(vote) / possible : 0.0f};
}

// Products of a row with two vectors that lie side by side, [n_columns][2].
std::array<float, 2> row_dots(const CsrView& X, std::int64_t row, const float* pairs) {
  const std::int64_t end = X.indptr[row + 1];
  std::int64_t t = X.indptr[row];
  float even[2] = {}, odd[2] = {};
  for (; t + 1 < end; t += 2) {
    const float* one = pairs + std::int64_t{2} * X.indices[t];
    const float* other = pairs + std::int64_t{2} * X.indices[t + 1];
    for (int i = 0; i < 2; ++i) even[i] += one[i] * X.data[t];
    for (int i = 0; i < 2; ++i) odd[i] += other[i] * X.data[t + 1];
  }
  if (t < end) {
    const float* last = pairs + std::int64_t{2} * X.indices[t];
    for (int i = 0; i < 2; ++i) even[i] += last[i] * X.data[t];
  }
  return {even[0] + odd[0], even[1] + odd[1]};
}

float right_of(const ChunkRows& chunk, std::int64_t row, const SpreadRouter& router) {
  return probability_right(normal_table(), row_dot(chunk.X, row, router.weights) - router.bias, router.noise);
}

}  // namespace

void count_rows(const ChunkRows& chunk, const NodeRows& node, float* label_mass, std::int32_t* feature_rows,
                float* feature_sums) {
  const CsrView &X = chunk.X, &Y = chunk.Y;
  std::vector<double> masses(static_cast<std::size_t>(Y.n_columns)), sums(static_cast<std::size_t>(X.n_columns));
  std::fill(feature_rows, feature_rows + X.n_columns, 0);
  for (std::int64_t i = 0; i < node.count; ++i) {
    const std::int64_t row = node.rows[i];
    for (std::int64_t t = Y.indptr[row]; t < Y.indptr[row + 1]; ++t) {
      masses[static_cast<std::size_t>(Y.indices[t])] += node.weight[i];
    }
    for (std::int64_t t = X.indptr[row]; t < X.indptr[row + 1]; ++t) {
      ++feature_rows[X.indices[t]];
      sums[static_cast<std::size_t>(X.indices[t])] += static_cast<double>(node.weight[i]) * X.data[t];
    }
  }
  round_to(label_mass, masses);
  round_to(feature_sums, sums);
}

void features_of_codes(const ChunkRows& chunk, const NodeRows& node, const float* codes, const float* means,
                       float* features) {
  const BlockKernels& kernels = block_kernels();
  std::fill(features, features + chunk.X.n_columns * kBlock, 0.0f);
  Piece piece;
  for_pieces(node, [&](const std::int32_t* rows, const float* weight, std::int64_t count) {
    kernels.gather_some(chunk.Y, rows, count, codes, piece.data());
    subtract(means, count, piece);
    weigh(weight, count, piece, piece);
    kernels.scatter_some(chunk.X, rows, count, piece.data(), features);
  });
}

void labels_of_features(const ChunkRows& chunk, const NodeRows& node, const float* features, const float* means,
                        float* labels, double* moments) {
  const BlockKernels& kernels = block_kernels();
  std::fill(labels, labels + chunk.Y.n_columns * kBlock, 0.0f);
  if (moments) std::fill(moments, moments + kBlock * kBlock, 0.0);
  Piece piece, weighted;
  for_pieces(node, [&](const std::int32_t* rows, const float* weight, std::int64_t count) {
    kernels.gather_some(chunk.X, rows, count, features, piece.data());
    subtract(means, count, piece);
    weigh(weight, count, piece, weighted);
    kernels.scatter_some(chunk.Y, rows, count, weighted.data(), labels);
    if (!moments) return;
    Coefficients products;
    kernels.gram(weighted.data(), piece.data(), count, products.data());
    for (std::size_t i = 0; i < products.size(); ++i) moments[i] += products[i];
  });
}

void sides_of_labels(const ChunkRows& chunk, const NodeRows& node, const Margin& margin, float* sides) {
  const CsrView& Y = chunk.Y;
  std::vector<double> sums(static_cast<std::size_t>(Y.n_columns));
  for (std::int64_t i = 0; i < node.count; ++i) {
    const std::int64_t row = node.rows[i];
    const float seen = (row_dot(chunk.X, row, margin.weights) + margin.offset - margin.mean) * margin.scale;
    const float cut = node.weight[i] * std::clamp(seen, -kLargestMargin, kLargestMargin);
    for (std::int64_t t = Y.indptr[row]; t < Y.indptr[row + 1]; ++t)
      sums[static_cast<std::size_t>(Y.indices[t])] += cut;
  }
  round_to(sides, sums);
}

void hinge_gradient(const ChunkRows& chunk, const NodeRows& node, const LabelVotes& votes, const Margin& margin,
                    float* gradient, float* diagonal) {
  const CsrView& X = chunk.X;
  const bool is_zero = std::all_of(margin.weights, margin.weights + X.n_columns, [](float w) { return w == 0; });
  std::fill(gradient, gradient + X.n_columns + 1, 0.0f);
  if (diagonal) std::fill(diagonal, diagonal + X.n_columns + 1, 0.0f);
  double pull_sum = 0, cost_sum = 0;
  for (std::int64_t i = 0; i < node.count; ++i) {
    const std::int64_t row = node.rows[i];
    const Target target = target_of(chunk.Y, row, node.weight[i], votes);
    if (target.cost == 0) continue;
    const float product = is_zero ? 0.0f : row_dot(X, row, margin.weights);
    const float slack = 1 - target.side * (product + margin.offset);
    if (slack > 0) {
      const float pull = -2 * target.cost * target.side * slack;
      add_row(X, row, pull, gradient);
      pull_sum += pull;
    }
    if (diagonal) {
      for (std::int64_t t = X.indptr[row]; t < X.indptr[row + 1]; ++t) {
        diagonal[X.indices[t]] += 2 * target.cost * (X.data[t] * X.data[t]);
      }
      cost_sum += target.cost;
    }
  }
  gradient[X.n_columns] = static_cast<float>(pull_sum);
  if (diagonal) diagonal[X.n_columns] = static_cast<float>(2 * cost_sum);
}

void line_search(const ChunkRows& chunk, const NodeRows& node, const LabelVotes& votes, const MarginLine& line,
                 const float* steps, int n_steps, double* losses, double* sizes) {
  constexpr std::int64_t kRowsOfSum = 64;  // that are added in float32 before the sum goes to float64
  std::array<float, kMostSteps> step{};
  std::copy(steps, steps + n_steps, step.begin());
  std::fill(losses, losses + n_steps, 0.0);
  std::fill(sizes, sizes + n_steps, 0.0);
  std::array<RowOnLine, kRowsOfSum> rows;
  for (std::int64_t first = 0; first < node.count; first += kRowsOfSum) {
    const std::int64_t count = std::min(kRowsOfSum, node.count - first);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int32_t row = node.rows[first + i];
      const float weight = node.weight[first + i];
      const Target target = target_of(chunk.Y, row, weight, votes);
      const auto [product, product_move] = row_dots(chunk.X, row, line.pairs);
      const float margin = product + line.offset, move = product_move + line.offset_move;
      rows[static_cast<std::size_t>(i)] = {target.cost, 1 - target.side * margin, -target.side * move,
                                           weight,      margin - line.mean,       move - line.mean_move};
    }
    std::array<float, kMostSteps> loss{}, size{};
    block_kernels().add_line(rows.data(), count, step.data(), loss.data(), size.data());
    for (std::size_t s = 0; s < static_cast<std::size_t>(n_steps); ++s) {
      losses[s] += loss[s];
      sizes[s] += size[s];
    }
  }
}

void margins_of(const ChunkRows& chunk, const NodeRows& node, const float* weights, float* margins) {
  for (std::int64_t i = 0; i < node.count; ++i) margins[i] = row_dot(chunk.X, node.rows[i], weights);
}

double right_mass(const ChunkRows& chunk, const NodeRows& node, const SpreadRouter& router) {
  double mass = 0;
  for (std::int64_t i = 0; i < node.count; ++i) {
    mass += static_cast<double>(node.weight[i]) * right_of(chunk, node.rows[i], router);
  }
  return mass;
}

void route_rows(const ChunkRows& chunk, const NodeRows& node, const SpreadRouter& router, std::uint64_t key,
                std::uint64_t first_row, float prune_below, RoutedRows& sides) {
  for (std::int64_t i = 0; i < node.count; ++i) {
    const std::int32_t row = node.rows[i];
    for_sides(key, first_row + static_cast<std::uint64_t>(row), node.weight[i], right_of(chunk, row, router),
              prune_below, [&](int side, float weight) {
                sides.rows[side].push(row);
                sides.weight[side].push(weight);
              });
  }
}

}  // namespace labelprism
