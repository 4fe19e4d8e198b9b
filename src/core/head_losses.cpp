#include "head_losses.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace labelprism {
namespace {

double softmax_gradient(std::int64_t n_places, std::int64_t n_rows, const std::vector<Positive>& positives,
                        float* scores) {
  const std::size_t n = static_cast<std::size_t>(n_rows);
  std::vector<float> highest(n, -std::numeric_limits<float>::infinity()), sums(n, 0), target(n, 0);
  for (const Positive& positive : positives) target[static_cast<std::size_t>(positive.row)] += 1;
  for (std::int64_t place = 0; place < n_places; ++place) {
    for (std::size_t i = 0; i < n; ++i) highest[i] = std::max(highest[i], scores[place * n_rows + i]);
  }
  // The loss is log(sum) + highest less the mean score of the positives.
  double loss = 0;
  for (const Positive& positive : positives) {
    const std::size_t i = static_cast<std::size_t>(positive.row);
    loss += (highest[i] - scores[positive.place * n_rows + positive.row]) / target[i];
  }
  for (std::int64_t place = 0; place < n_places; ++place) {
    for (std::size_t i = 0; i < n; ++i) {
      float& score = scores[place * n_rows + i];
      score = std::exp(score - highest[i]);
      sums[i] += score;
    }
  }
  std::vector<float> scale(n);
  for (std::size_t i = 0; i < n; ++i) {
    scale[i] = target[i] > 0 ? 1 / (sums[i] * static_cast<float>(n)) : 0;
    if (target[i] > 0) loss += std::log(sums[i]);
  }
  for (std::int64_t place = 0; place < n_places; ++place) {
    for (std::size_t i = 0; i < n; ++i) scores[place * n_rows + i] *= scale[i];
  }
  for (const Positive& positive : positives) {
    scores[positive.place * n_rows + positive.row] -=
        1 / (target[static_cast<std::size_t>(positive.row)] * static_cast<float>(n));
  }
  return loss;
}

}  // namespace

double logistic_gradient(float& score, bool is_positive) {
  const float small = std::exp(-std::abs(score));
  const float probability = (score >= 0 ? 1 : small) / (1 + small);
  const double loss = std::max(is_positive ? -score : score, 0.0f) + std::log1p(small);
  score = probability - (is_positive ? 1 : 0);
  return loss;
}

double loss_gradient(Loss loss, std::int64_t n_places, std::int64_t n_rows, const std::vector<Positive>& positives,
                     float* scores) {
  if (loss == Loss::kSoftmax) return softmax_gradient(n_places, n_rows, positives, scores);
  std::vector<bool> is_positive(static_cast<std::size_t>(n_places * n_rows), false);
  for (const Positive& positive : positives) {
    is_positive[static_cast<std::size_t>(positive.place * n_rows + positive.row)] = true;
  }
  double sum = 0;
  for (std::int64_t at = 0; at < n_places * n_rows; ++at) {
    sum += logistic_gradient(scores[at], is_positive[static_cast<std::size_t>(at)]);
    scores[at] /= static_cast<float>(n_rows);
  }
  return sum;
}

}  // namespace labelprism
