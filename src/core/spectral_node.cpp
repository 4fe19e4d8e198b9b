#include "spectral_node.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "block_algebra.hpp"
#include "block_products.hpp"
#include "scramble.hpp"
#include "thread_pool.hpp"
#include "tree_kernels.hpp"

namespace labelprism {
namespace {

using Scalars = std::array<double, kBlock>;

// Conjugate gradients stop early once the preconditioned residual of every column has shrunk by this much.
constexpr double kSolved = 1e-7;

constexpr std::int64_t kLabelsPerTask = 4096;

constexpr int kMedianBuckets = 256;
constexpr std::int64_t kManyValues = 64;

// X'D 1 as column 0 of a block; what the other columns hold does not matter.
void weighted_column_sums(const CsrView& X, const float* weight, int n_threads, Block& block) {
  const LargeVector<float> ones(static_cast<std::size_t>(X.n_rows), 1.0f);
  LargeVector<float> sums(static_cast<std::size_t>(X.n_columns));
  csr_transposed_times_block(X, weight, ones.data(), 1, n_threads, sums.data());
  for (std::size_t f = 0; f < sums.size(); ++f) block[f * kBlock] = sums[f];
}

void weighted_column_sums(const DenseView& X, const float* weight, int n_threads, Block& block) {
  const Block ones(static_cast<std::size_t>(X.n_rows) * kBlock, 1.0f);
  transposed_times_block(X, weight, ones.data(), n_threads, block.data());
}

// The problem of one node. Matrix is CsrView or DenseView; X and Y hold the node's rows only.
template <class Matrix>
class SpectralProblem {
 public:
  SpectralProblem(const Matrix& X, const CsrView& Y, const float* weight, const SpectralSettings& settings,
                  int n_threads)
      : X_(X), Y_(Y), weight_(weight), settings_(settings), n_threads_(n_threads) {
    std::vector<double> counts(static_cast<std::size_t>(Y.n_columns), 0.0);
    for (std::int64_t row = 0; row < Y.n_rows; ++row) {
      for (std::int64_t t = Y.indptr[row]; t < Y.indptr[row + 1]; ++t) counts[Y.indices[t]] += weight[row];
    }
    inverse_count_.reserve(counts.size());
    for (const double count : counts) inverse_count_.push_back(count > 0 ? static_cast<float>(1 / count) : 0.0f);
  }

  Router solve(const std::vector<std::int32_t>& columns, std::uint64_t seed, float* margins) {
    Direction found = direction(columns, seed);
    Router router;
    router.mass = std::accumulate(weight_, weight_ + X_.n_rows, 0.0);
    router.eigenvalue = found.eigenvalue;
    keep_large_weights(columns, found.weights, router);
    // Computed as `router_margins` does, not from the products at hand: an example must not go one way while the tree
    // grows and the other when it is used.
    single_margins(X_, found.weights.data(), n_threads_, margins);
    router.bias = median_split(margins, weight_, X_.n_rows);
    return router;
  }

  // Block Krylov subspace iteration with Rayleigh-Ritz: the basis spans A G, A^2 G, ..., A^n_blocks G for a random
  // block G and A = X'D Xh, with the direction 1'DX projected out of it; w is the best vector in that span.
  Direction direction(const std::vector<std::int32_t>& columns, std::uint64_t seed) const {
    std::vector<Block> basis{constraint()};
    Block start = random_block(columns, seed);
    // Features with a large mean would drown all else in it, were the constraint not taken off the start already.
    orthonormalise(basis, n_threads_, start);
    // For a start the diagonal alone is as good as all of (Y'DY)^-1.
    Block next = transposed_product(predicted_from_labels(divided_by_counts(label_sums(product(start)))));
    std::vector<Block> sums, solutions;  // Y'D X Q and (Y'DY)^-1 Y'D X Q for each block Q of the basis
    for (int b = 0; b < settings_.n_blocks; ++b) {
      orthonormalise(basis, n_threads_, next);
      sums.push_back(label_sums(product(next)));
      solutions.push_back(label_solution(sums.back()));
      basis.push_back(std::move(next));
      if (b + 1 < settings_.n_blocks) next = transposed_product(predicted_from_labels(solutions.back()));
    }
    basis.erase(basis.begin());
    return best_direction(columns, basis, sums, solutions);
  }

 private:
  // The start depends on the numbers of the features alone: neither the order of the rows nor that of the labels
  // matters.
  Block random_block(const std::vector<std::int32_t>& columns, std::uint64_t seed) const {
    Block block(columns.size() * kBlock);
    for (std::size_t f = 0; f < columns.size(); ++f) {
      for (int j = 0; j < kBlock; ++j) {
        const std::uint64_t bits = scramble(seed ^ scramble(static_cast<std::uint64_t>(columns[f]) * kBlock + j));
        block[f * kBlock + j] = static_cast<float>(static_cast<double>(bits >> 11) * 0x1p-52 - 1.0);
      }
    }
    return block;
  }

  Block product(const Block& Q) const {  // X Q
    Block out(static_cast<std::size_t>(X_.n_rows) * kBlock);
    times_block(X_, Q.data(), n_threads_, out.data());
    return out;
  }
  Block transposed_product(const Block& R) const {  // X'D R
    Block out(static_cast<std::size_t>(X_.n_columns) * kBlock);
    transposed_times_block(X_, weight_, R.data(), n_threads_, out.data());
    return out;
  }
  Block label_sums(const Block& R) const {  // Y'D R
    Block out(static_cast<std::size_t>(Y_.n_columns) * kBlock);
    transposed_times_block(Y_, weight_, R.data(), n_threads_, out.data());
    return out;
  }
  Block predicted_from_labels(const Block& C) const {  // Y C
    Block out(static_cast<std::size_t>(Y_.n_rows) * kBlock);
    times_block(Y_, C.data(), n_threads_, out.data());
    return out;
  }

  Block divided_by_counts(Block S) const {
    for (std::size_t l = 0; l < inverse_count_.size(); ++l) {
      for (int j = 0; j < kBlock; ++j) S[l * kBlock + j] *= inverse_count_[l];
    }
    return S;
  }

  // (Y'DY)^-1 S. With one label a row Y'DY is the diagonal of the label counts; otherwise conjugate gradients,
  // preconditioned by that diagonal, all columns at once. For S in the range of Y'D a singular Y'DY does no harm.
  Block label_solution(const Block& S) const {
    if (settings_.one_label) return divided_by_counts(S);
    Block C(S.size(), 0.0f), residual = S, direction = divided_by_counts(S), applied(S.size());
    Scalars rho = sum_over_labels([&](std::size_t i, float) { return residual[i] * direction[i]; });
    const Scalars first = rho;
    for (int iteration = 0; iteration < settings_.cg_iterations; ++iteration) {
      normal_times_block(Y_, weight_, direction.data(), n_threads_, applied.data());
      const Scalars curvature = sum_over_labels([&](std::size_t i, float) { return direction[i] * applied[i]; });
      const std::array<float, kBlock> step = ratios(rho, curvature);
      const Scalars rho_new = sum_over_labels([&](std::size_t i, float inverse_count) {
        C[i] += step[i % kBlock] * direction[i];
        residual[i] -= step[i % kBlock] * applied[i];
        return residual[i] * residual[i] * inverse_count;
      });
      if (all_below(rho_new, first)) break;
      const std::array<float, kBlock> decay = ratios(rho_new, rho);
      for_labels([&](std::size_t i, float inverse_count) {
        direction[i] = inverse_count * residual[i] + decay[i % kBlock] * direction[i];
      });
      rho = rho_new;
    }
    return C;
  }

  static std::array<float, kBlock> ratios(const Scalars& numerator, const Scalars& denominator) {
    std::array<float, kBlock> result;
    for (int j = 0; j < kBlock; ++j) {
      result[j] = denominator[j] > 0 ? static_cast<float>(numerator[j] / denominator[j]) : 0.0f;
    }
    return result;
  }

  static bool all_below(const Scalars& rho, const Scalars& first) {
    for (int j = 0; j < kBlock; ++j) {
      if (rho[j] > kSolved * first[j]) return false;
    }
    return true;
  }

  // Calls use(i, inverse_count) for every element i of a block over the labels.
  template <class Use>
  void for_labels(const Use& use) const {
    parallel_ranges(Y_.n_columns, kLabelsPerTask, n_threads_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t l = begin; l < end; ++l) {
        for (int j = 0; j < kBlock; ++j) use(static_cast<std::size_t>(l) * kBlock + j, inverse_count_[l]);
      }
    });
  }

  // The same, adding up what use returns by column; in double precision, task by task.
  template <class Use>
  Scalars sum_over_labels(const Use& use) const {
    std::vector<Scalars> sums(static_cast<std::size_t>((Y_.n_columns + kLabelsPerTask - 1) / kLabelsPerTask));
    parallel_ranges(Y_.n_columns, kLabelsPerTask, n_threads_, [&](std::int64_t begin, std::int64_t end) {
      Scalars sum{};
      for (std::int64_t l = begin; l < end; ++l) {
        for (int j = 0; j < kBlock; ++j) sum[j] += use(static_cast<std::size_t>(l) * kBlock + j, inverse_count_[l]);
      }
      sums[static_cast<std::size_t>(begin / kLabelsPerTask)] = sum;
    });
    Scalars total{};
    for (const Scalars& sum : sums) {
      for (int j = 0; j < kBlock; ++j) total[j] += sum[j];
    }
    return total;
  }

  // X'D 1 scaled to length 1, as the first column of a block; the other columns are 0.
  Block constraint() const {
    Block block(static_cast<std::size_t>(X_.n_columns) * kBlock);
    weighted_column_sums(X_, weight_, n_threads_, block);
    double square = 0;
    for (std::size_t i = 0; i < block.size(); i += kBlock) square += static_cast<double>(block[i]) * block[i];
    const double scale = square > 0 ? 1 / std::sqrt(square) : 0;
    for (std::size_t i = 0; i < block.size(); i += kBlock) {
      block[i] = static_cast<float>(block[i] * scale);
      std::fill(block.begin() + i + 1, block.begin() + i + kBlock, 0.0f);
    }
    return block;
  }

  // Rayleigh-Ritz: on the span of the basis Q the objective is the small matrix Q'AQ = (Y'DXQ)' (Y'DY)^-1 (Y'DXQ).
  Direction best_direction(const std::vector<std::int32_t>& columns, const std::vector<Block>& basis,
                           const std::vector<Block>& sums, const std::vector<Block>& solutions) const {
    const int n_blocks = static_cast<int>(basis.size());
    SquareMatrix small(n_blocks * kBlock);
    for (int a = 0; a < n_blocks; ++a) {
      for (int b = 0; b < n_blocks; ++b) {
        const SquareMatrix part = inner_products(sums[a], solutions[b], n_threads_);
        for (int i = 0; i < kBlock; ++i) {
          for (int j = 0; j < kBlock; ++j) {  // half from here, half from the mirrored part: symmetric to the last bit
            small(a * kBlock + i, b * kBlock + j) += part(i, j) / 2;
            small(b * kBlock + j, a * kBlock + i) += part(i, j) / 2;
          }
        }
      }
    }
    const Eigenpairs eigen = symmetric_eigen(small);
    Direction best{std::max(eigen.values[0], 0.0), combined(basis, eigen.vectors)};
    fix_sign(columns, best.weights);
    return best;
  }

  // The sum of all columns of all blocks, weighted by the first eigenvector.
  static std::vector<float> combined(const std::vector<Block>& blocks, const SquareMatrix& vectors) {
    std::vector<float> sum(blocks[0].size() / kBlock, 0.0f);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      std::array<float, kBlock> c;
      for (int j = 0; j < kBlock; ++j) c[j] = static_cast<float>(vectors(static_cast<int>(b) * kBlock + j, 0));
      for (std::size_t row = 0; row < sum.size(); ++row) {
        for (int j = 0; j < kBlock; ++j) sum[row] += c[j] * blocks[b][row * kBlock + j];
      }
    }
    return sum;
  }

  // An eigenvector has two signs; the largest weight (of equals that of the first feature) is made positive.
  static void fix_sign(const std::vector<std::int32_t>& columns, std::vector<float>& w) {
    std::size_t largest = 0;
    for (std::size_t f = 1; f < w.size(); ++f) {
      const float size = std::abs(w[f]), record = std::abs(w[largest]);
      if (size > record || (size == record && columns[f] < columns[largest])) largest = f;
    }
    if (w.empty() || w[largest] >= 0) return;
    for (float& value : w) value = -value;
  }

  // Small weights become 0; the others go, by feature, into the router.
  void keep_large_weights(const std::vector<std::int32_t>& columns, std::vector<float>& w, Router& router) const {
    std::vector<std::pair<std::int32_t, float>> kept;
    for (std::size_t f = 0; f < w.size(); ++f) {
      if (std::abs(w[f]) > settings_.drop) {
        kept.emplace_back(columns[f], w[f]);
      } else {
        w[f] = 0;
      }
    }
    std::sort(kept.begin(), kept.end());
    for (const auto& [feature, weight] : kept) {
      router.features.push_back(feature);
      router.weights.push_back(weight);
    }
  }

  const Matrix& X_;
  const CsrView& Y_;
  const float* weight_;
  const SpectralSettings& settings_;
  int n_threads_;
  std::vector<float> inverse_count_;
};

// Room for numbering columns anew; -1 everywhere between two uses.
struct Places {
  std::vector<std::int32_t> features;
  std::vector<std::int32_t> labels;
};

template <class Local, class Matrix>
Router solve_node(const Matrix& X, const CsrView& Y, const NodeRows& node, std::uint64_t seed,
                  const SpectralSettings& settings, int n_threads, Places& places, float* margins) {
  if (is_whole(node, X.n_rows)) {
    std::vector<std::int32_t> columns(static_cast<std::size_t>(X.n_columns));
    std::iota(columns.begin(), columns.end(), 0);
    return SpectralProblem<Matrix>(X, Y, node.weight, settings, n_threads).solve(columns, seed, margins);
  }
  places.features.resize(static_cast<std::size_t>(X.n_columns), -1);
  places.labels.resize(static_cast<std::size_t>(Y.n_columns), -1);
  const Local local(X, node, places.features);
  const LocalCsr labels(Y, node, places.labels);
  const Matrix local_X = local.view();
  const CsrView local_Y = labels.view();
  return SpectralProblem<Matrix>(local_X, local_Y, node.weight, settings, n_threads)
      .solve(local.columns(), seed, margins);
}

template <class Local, class Matrix>
std::vector<Router> solve_all(const Matrix& X, const CsrView& Y, const NodeGroups& groups, const std::int64_t* node_ids,
                              const SpectralSettings& settings, int n_threads, float* margins) {
  std::vector<Router> routers(static_cast<std::size_t>(groups.n_nodes));
  Lender<Places> lender;
  const bool many = groups.n_nodes >= n_threads;
  parallel_for(groups.n_nodes, many ? n_threads : 1, [&](std::int64_t i) {
    lender.lend([&](Places& places) {
      const std::uint64_t seed = scramble(settings.seed ^ scramble(static_cast<std::uint64_t>(node_ids[i])));
      routers[static_cast<std::size_t>(i)] =
          solve_node<Local>(X, Y, groups[i], seed, settings, many ? 1 : n_threads, places, margins + groups.offsets[i]);
    });
  });
  return routers;
}

}  // namespace

std::vector<Router> solve_nodes(const CsrView& X, const CsrView& Y, const NodeGroups& groups,
                                const std::int64_t* node_ids, const SpectralSettings& settings, int n_threads,
                                float* margins) {
  return solve_all<LocalCsr>(X, Y, groups, node_ids, settings, n_threads, margins);
}

std::vector<Router> solve_nodes(const DenseView& X, const CsrView& Y, const NodeGroups& groups,
                                const std::int64_t* node_ids, const SpectralSettings& settings, int n_threads,
                                float* margins) {
  return solve_all<LocalDense>(X, Y, groups, node_ids, settings, n_threads, margins);
}

Direction spectral_direction(const CsrView& X, const std::vector<std::int32_t>& columns, const CsrView& Y,
                             const float* weight, const SpectralSettings& settings, std::uint64_t seed) {
  return SpectralProblem<CsrView>(X, Y, weight, settings, 1).direction(columns, seed);
}

Direction spectral_direction(const DenseView& X, const std::vector<std::int32_t>& columns, const CsrView& Y,
                             const float* weight, const SpectralSettings& settings, std::uint64_t seed) {
  return SpectralProblem<DenseView>(X, Y, weight, settings, 1).direction(columns, seed);
}

namespace {

struct WeightedValue {
  float value, weight;
  friend bool operator<(const WeightedValue& a, const WeightedValue& b) { return a.value < b.value; }
};

// The values among which the weighted median is, and the weight of all below them.
struct MedianRange {
  std::vector<WeightedValue> values;
  double below = 0;
};

// Many values are counted first by where they lie between the least and the largest one: few are left to be sorted.
MedianRange median_range(const float* values, const float* weights, std::int64_t count, double half) {
  const auto [least, most] = std::minmax_element(values, values + count);
  const float per_bucket = (*most - *least) / kMedianBuckets;
  const float scale = per_bucket > 0 ? 1 / per_bucket : 0;
  const bool is_counted = count >= kManyValues && scale > 0 && scale < std::numeric_limits<float>::infinity();
  const float first = *least;
  const auto bucket_of = [&](float value) {
    const float place = (value - first) * scale;  // of what is no number, or beside it, anything
    return !is_counted || !(place > 0) ? 0 : place < kMedianBuckets ? static_cast<int>(place) : kMedianBuckets - 1;
  };
  std::array<double, kMedianBuckets> mass{};
  for (std::int64_t i = 0; is_counted && i < count; ++i) mass[bucket_of(values[i])] += weights[i];
  MedianRange range;
  int bucket = 0;
  for (; is_counted && bucket + 1 < kMedianBuckets && range.below + mass[bucket] < half; ++bucket) {
    range.below += mass[bucket];
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (bucket_of(values[i]) == bucket) range.values.push_back({values[i], weights[i]});
  }
  return range;
}

}  // namespace

float weighted_median(const float* values, const float* weights, std::int64_t count) {
  if (count == 0) return 0.0f;
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) total += weights[i];
  auto [rest, below] = median_range(values, weights, count, total / 2);
  if (rest.empty()) return 0.0f;
  // Quickselect by weight: halve the values that may be the median, and keep the weight of all below them.
  auto begin = rest.begin(), end = rest.end();
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end);
    double lower = 0;
    for (auto it = begin; it != middle; ++it) lower += it->weight;
    if (below + lower >= total / 2) {
      end = middle;
    } else {
      below += lower;
      begin = middle;
    }
  }
  return begin->value;
}

float median_split(const float* values, const float* weights, std::int64_t count) {
  const float median = weighted_median(values, weights, count);
  constexpr float kNone = std::numeric_limits<float>::infinity();
  float below = -kNone, above = kNone;
  double lower = 0, upper = 0;  // the weights below and above the median
  for (std::int64_t i = 0; i < count; ++i) {
    if (values[i] < median) {
      below = std::max(below, values[i]);
      lower += weights[i];
    } else if (values[i] > median) {
      above = std::min(above, values[i]);
      upper += weights[i];
    }
  }
  // The median itself goes to the smaller side.
  const float neighbour = lower < upper ? above : below > -kNone ? below : above;
  return std::abs(neighbour) < kNone ? median + (neighbour - median) / 2 : median;
}

}  // namespace labelprism
