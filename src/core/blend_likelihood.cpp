#include "blend_likelihood.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "thread_pool.hpp"

namespace labelprism {
namespace {

// As wide as the registers that every 64-bit processor has.
typedef double Pair __attribute__((vector_size(2 * sizeof(double)), aligned(sizeof(double)), may_alias));

// A share of nothing, for true candidates whose p is too small for a double: their logarithm must be finite.
constexpr double kLeastBelief = 1e-300;

constexpr std::int64_t kRowsPerTask = 64;

// At most so many factors up to 2 are multiplied before the logarithm is taken: their product stays a double.
constexpr int kFactors = 512;

template <int F>
double weighted(const double* x, const double* weights) {
  double sum = 0;
  for (int a = 0; a < F; ++a) sum += weights[a] * x[a];
  return sum;
}

// The sums of p, of p x and of p x x' over candidates. The number of features is known here, so that the compiler
// unrolls all loops over them.
template <int F>
class Moments {
 public:
  void add(double p, const double* x) {
    Pair pairs[kPairs];
    load(x, pairs);
    total_ += p;
    for (int j = 0; j < kPairs; ++j) first_[j] += p * pairs[j];
    for (int a = 0; a < F; ++a) {
      const double scaled = p * x[a];
      for (int j = a / 2; j < kPairs; ++j) second_[a][j] += scaled * pairs[j];  // what is left of it is symmetric
    }
  }

  double total() const { return total_; }
  double mean(int a) const { return first_[a / 2][a % 2] / total_; }

  // For a <= b.
  double covariance(int a, int b) const { return second_[a][b / 2][b % 2] / total_ - mean(a) * mean(b); }
  double second(int a, int b) const { return second_[a][b / 2][b % 2]; }

 private:
  static constexpr int kPairs = (F + 1) / 2;

  static void load(const double* x, Pair* pairs) {
    for (int j = 0; j < F / 2; ++j) pairs[j] = *reinterpret_cast<const Pair*>(x + 2 * j);
    if constexpr (F % 2) pairs[F / 2] = Pair{x[F - 1], 0.0};
  }

  double total_ = 0;
  Pair first_[kPairs] = {};
  Pair second_[F][kPairs] = {};
};

// Both halves of a symmetric matrix, from its upper one.
template <int F>
void mirror(double* matrix) {
  for (int a = 0; a < F; ++a) {
    for (int b = 0; b < a; ++b) matrix[a * F + b] = matrix[b * F + a];
  }
}

// What some rows add to the likelihood and to its derivatives.
template <int F>
struct SoftmaxPart {
  double value = 0;
  double gradient[F] = {};
  double covariance[F * F] = {};  // upper halves
  double covariance_if_true[F * F] = {};

  void add(const SoftmaxPart& other) {
    value += other.value;
    for (int a = 0; a < F; ++a) gradient[a] += other.gradient[a];
    for (int i = 0; i < F * F; ++i) covariance[i] += other.covariance[i];
    for (int i = 0; i < F * F; ++i) covariance_if_true[i] += other.covariance_if_true[i];
  }
};

template <int F>
void add_covariance(const Moments<F>& moments, double mass, double* covariance) {
  for (int a = 0; a < F; ++a) {
    for (int b = a; b < F; ++b) covariance[a * F + b] += mass * moments.covariance(a, b);
  }
}

template <int F>
SoftmaxPart<F> softmax_of_rows(const Candidates& candidates, const double* share, const double* weights, Wanted wanted,
                               std::int64_t first_row, std::int64_t end_row) {
  SoftmaxPart<F> part;
  std::vector<double> scores, powers;
  for (std::int64_t row = first_row; row < end_row; ++row) {
    const std::int64_t begin = candidates.indptr[row], count = candidates.indptr[row + 1] - begin;
    const double* const x = candidates.features + begin * F;
    const double* const shares = share + begin;
    double mass = 0;
    for (std::int64_t t = 0; t < count; ++t) mass += shares[t];
    if (!(mass > 0)) continue;
    if (scores.size() < static_cast<std::size_t>(count)) scores.resize(count), powers.resize(count);

    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t t = 0; t < count; ++t) {
      scores[t] = weighted<F>(x + t * F, weights);
      largest = std::max(largest, scores[t]);
    }
    // A loop of its own: a call of exp between the sums would throw them out of their registers.
    for (std::int64_t t = 0; t < count; ++t) powers[t] = std::exp(scores[t] -= largest);
    Moments<F> all;
    for (std::int64_t t = 0; t < count; ++t) all.add(powers[t], x + t * F);
    const double log_total = std::log(all.total());

    Moments<F> if_true;
    for (std::int64_t t = 0; t < count; ++t) {
      if (!(shares[t] > 0)) continue;
      if (wanted == Wanted::kAny) {
        if_true.add(powers[t] / all.total() * shares[t] + kLeastBelief, x + t * F);
      } else {
        if_true.add(shares[t], x + t * F);
        part.value += shares[t] * (scores[t] - log_total);
      }
    }
    if (wanted == Wanted::kAny) part.value += mass * std::log(if_true.total());
    for (int a = 0; a < F; ++a) part.gradient[a] += mass * (if_true.mean(a) - all.mean(a));
    add_covariance(all, mass, part.covariance);
    add_covariance(if_true, mass, part.covariance_if_true);
  }
  return part;
}

// Parts are of so many rows each, and added up in their order: the sum does not depend on n_threads.
template <int F>
double softmax_of(const Candidates& candidates, const double* share, const double* weights, Wanted wanted,
                  int n_threads, const Derivatives& to) {
  std::vector<SoftmaxPart<F>> parts(static_cast<std::size_t>((candidates.n_rows + kRowsPerTask - 1) / kRowsPerTask));
  parallel_ranges(candidates.n_rows, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    parts[static_cast<std::size_t>(begin / kRowsPerTask)] =
        softmax_of_rows<F>(candidates, share, weights, wanted, begin, end);
  });
  SoftmaxPart<F> sum;
  for (const SoftmaxPart<F>& part : parts) sum.add(part);
  std::copy_n(sum.gradient, F, to.gradient);
  std::copy_n(sum.covariance, F * F, to.covariance);
  std::copy_n(sum.covariance_if_true, F * F, to.covariance_if_true);
  mirror<F>(to.covariance);
  mirror<F>(to.covariance_if_true);
  return sum.value;
}

template <int F>
double logistic_of(std::int64_t count, const double* features, const bool* is_true, const double* weights,
                   double* gradient, double* curvature) {
  std::fill_n(gradient, F, 0.0);
  Moments<F> moments;
  double value = 0;
  double powers[kFactors], scores[kFactors];
  for (std::int64_t begin = 0; begin < count; begin += kFactors) {
    const int length = static_cast<int>(std::min<std::int64_t>(kFactors, count - begin));
    const double* const x = features + begin * F;
    double factors = 1;
    for (int t = 0; t < length; ++t) scores[t] = weighted<F>(x + t * F, weights);
    for (int t = 0; t < length; ++t) powers[t] = std::exp(-std::abs(scores[t]));
    for (int t = 0; t < length; ++t) {
      const bool is_above = scores[t] >= 0, truth = is_true[begin + t];
      factors *= 1 + powers[t];
      value -= is_above == truth ? 0.0 : std::abs(scores[t]);
      const double likelier = 1 / (1 + powers[t]), other = powers[t] * likelier;
      moments.add(likelier * other, x + t * F);
      const double missing = is_above == truth ? other : likelier;  // what p lacks to what is so
      for (int a = 0; a < F; ++a) gradient[a] += truth ? missing * x[t * F + a] : -missing * x[t * F + a];
    }
    value -= std::log(factors);
  }
  for (int a = 0; a < F; ++a) {
    for (int b = a; b < F; ++b) curvature[a * F + b] = moments.second(a, b);
  }
  mirror<F>(curvature);
  return value;
}

template <int F>
void best_of(const Candidates& candidates, const double* weights, std::int64_t n_best, std::int64_t first_row,
             std::int64_t end_row, std::int64_t* best) {
  std::vector<float> scores(static_cast<std::size_t>(n_best));
  best += first_row * n_best;
  for (std::int64_t row = first_row; row < end_row; ++row, best += n_best) {
    std::int64_t found = 0;
    float least = -std::numeric_limits<float>::infinity();  // what a candidate must be better than
    for (std::int64_t t = candidates.indptr[row]; t < candidates.indptr[row + 1]; ++t) {
      const auto score = static_cast<float>(weighted<F>(candidates.features + t * F, weights));
      if (!(score > least)) continue;
      std::int64_t at = found < n_best ? found++ : n_best - 1;
      for (; at > 0 && scores[at - 1] < score; --at) scores[at] = scores[at - 1], best[at] = best[at - 1];
      scores[at] = score, best[at] = t;
      if (found == n_best) least = scores[n_best - 1];
    }
    std::fill(best + found, best + n_best, -1);
  }
}

// Calls function with the number of features as a constant.
template <class Function>
auto with_features(int n_features, const Function& function) {
  switch (n_features) {
    case 1:
      return function(std::integral_constant<int, 1>());
    case 2:
      return function(std::integral_constant<int, 2>());
    case 3:
      return function(std::integral_constant<int, 3>());
    case 4:
      return function(std::integral_constant<int, 4>());
    case 5:
      return function(std::integral_constant<int, 5>());
    case 6:
      return function(std::integral_constant<int, 6>());
    case 7:
      return function(std::integral_constant<int, 7>());
    default:
      return function(std::integral_constant<int, kMostBlendFeatures>());
  }
}

}  // namespace

double softmax_likelihood(const Candidates& candidates, const double* share, const double* weights, Wanted wanted,
                          int n_threads, const Derivatives& derivatives) {
  return with_features(candidates.n_features, [&](auto n) {
    return softmax_of<decltype(n)::value>(candidates, share, weights, wanted, n_threads, derivatives);
  });
}

double logistic_likelihood(std::int64_t count, int n_features, const double* features, const bool* is_true,
                           const double* weights, double* gradient, double* curvature) {
  return with_features(n_features, [&](auto n) {
    return logistic_of<decltype(n)::value>(count, features, is_true, weights, gradient, curvature);
  });
}

void best_candidates(const Candidates& candidates, const double* weights, std::int64_t n_best, int n_threads,
                     std::int64_t* best) {
  parallel_ranges(candidates.n_rows, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    with_features(candidates.n_features,
                  [&](auto n) { best_of<decltype(n)::value>(candidates, weights, n_best, begin, end, best); });
  });
}

}  // namespace labelprism
