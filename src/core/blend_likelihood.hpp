// The likelihood of true candidates as a function of the weights of a blend, for Newton's method.
#pragma once

#include <cstdint>

namespace labelprism {

constexpr int kMostBlendFeatures = 8;

// What is said of the candidates of rows. The bindings check it.
struct Candidates {
  std::int64_t n_rows;
  const std::int64_t* indptr;  // n_rows + 1: where the candidates of each row begin
  int n_features;              // 1 to kMostBlendFeatures
  const double* features;      // of all candidates, one after the other
};

// Which of the true labels of a row are to be likely.
enum class Wanted { kAll, kAny };

// What follows is a sum over rows of mass * f(row); mass is the sum of the row's shares, and a row where it is 0 is
// left out. Matrices are n_features x n_features.
struct Derivatives {
  double* gradient;            // of the likelihood: the mean of the features by belief, less that by p
  double* covariance;          // of the features of a candidate that is drawn by p, the softmax of weighted features
  double* covariance_if_true;  // of one that is drawn by belief
};

// The log-likelihood of candidates that count by their shares, which are 0 for wrong ones, without any penalty.
// kAll: the sum of share * log p, and belief is share / mass; minus its curvature is `covariance`.
// kAny: the sum of mass * log(sum of share * p), and belief is share * p over its sum; minus its curvature is
// covariance - covariance_if_true.
double softmax_likelihood(const Candidates& candidates, const double* share, const double* weights, Wanted wanted,
                          int n_threads, const Derivatives& derivatives);

// The log-likelihood of `count` candidates that are each true by 1 / (1 + exp(-weighted features)), whatever is said of
// the others; its gradient, and its curvature with the sign turned.
double logistic_likelihood(std::int64_t count, int n_features, const double* features, const bool* is_true,
                           const double* weights, double* gradient, double* curvature);

// The n_best candidates of each row by their weighted features, rounded to float32: best first, equal ones in their
// order, never NaN or -infinity; -1 where there are no more. `best` is [n_rows][n_best].
void best_candidates(const Candidates& candidates, const double* weights, std::int64_t n_best, int n_threads,
                     std::int64_t* best);

}  // namespace labelprism
