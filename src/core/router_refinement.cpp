#include "router_refinement.hpp"

#include <algorithm>
#include <cmath>

#include "row_algebra.hpp"
#include "spectral_node.hpp"

namespace labelprism {
namespace {

constexpr float kConverged = 0.1f;  // the largest gradient that is left alone
// The offset is the weight of a feature that all examples have, whose value is the root of this: in two passes it would
// swing from side to side if it were as large as a row.
constexpr float kBiasSquare = 0.1f;
constexpr float kNoCost = 1e-9f;  // examples that cost no more are not looked at
constexpr double kTiny = 1e-9;

}  // namespace

template <class Matrix>
HingeClassifier<Matrix>::HingeClassifier(const Matrix& X)
    : X_(X), weights_(static_cast<std::size_t>(X.n_columns), 0.0f), examples_(static_cast<std::size_t>(X.n_rows)) {
  for (std::size_t i = 0; i < examples_.size(); ++i) examples_[i].square = row_square(X, static_cast<std::int64_t>(i));
}

template <class Matrix>
void HingeClassifier<Matrix>::descend(const LargeVector<float>& target, const LargeVector<float>& cost, int passes) {
  for (std::size_t i = 0; i < examples_.size(); ++i) aim(static_cast<std::int64_t>(i), target[i], cost[i]);
  for (int i = 0; i < passes && pass() >= kConverged; ++i) {
  }
}

// Sets the target and the cost of an example; what was learned from it for another target is unlearned.
template <class Matrix>
void HingeClassifier<Matrix>::aim(std::int64_t row, float target, float cost) {
  Example& example = examples_[static_cast<std::size_t>(row)];
  const bool counts = cost > kNoCost;
  if (example.alpha > 0 && !(counts && target == example.target)) {
    const float step = -example.alpha * example.target;
    add_row(X_, row, step, weights_.data());
    offset_ += kBiasSquare * step;
    example.alpha = 0;
  }
  example.target = target;
  example.diagonal = counts ? 0.5f / cost : 0.0f;
  example.inverse = counts ? 1 / (example.square + kBiasSquare + example.diagonal) : 0.0f;
}

// Returns the largest gradient that was met.
template <class Matrix>
float HingeClassifier<Matrix>::pass() {
  float largest = 0;
  float* weights = weights_.data();
  for (std::size_t i = 0; i < examples_.size(); ++i) {
    Example& example = examples_[i];
    if (example.inverse == 0) continue;
    const auto row = static_cast<std::int64_t>(i);
    const float margin = row_dot(X_, row, weights) + offset_;
    const float gradient = example.target * margin - 1 + example.alpha * example.diagonal;
    if (example.alpha == 0 && gradient > 0) continue;
    largest = std::max(largest, std::abs(gradient));
    const float next = std::max(example.alpha - gradient * example.inverse, 0.0f);
    const float step = (next - example.alpha) * example.target;
    example.alpha = next;
    add_row(X_, row, step, weights);
    offset_ += kBiasSquare * step;
  }
  return largest;
}

namespace {

// Who votes how: the sides of labels, and what follows from them for the examples.
class Votes {
 public:
  Votes(const CsrView& Y, const float* weight)
      : Y_(Y),
        weight_(weight),
        mass_(static_cast<std::size_t>(Y.n_columns)),
        possible_(static_cast<std::size_t>(Y.n_rows)) {
    for (std::size_t row = 0; row < possible_.size(); ++row) add_to_labels(row, weight_[row], mass_);
    for (float& mass : mass_) mass = std::max(mass, static_cast<float>(kTiny));
    strength_.reserve(mass_.size());
    for (const float mass : mass_) strength_.push_back(1 / std::sqrt(mass));
    for (std::size_t row = 0; row < possible_.size(); ++row) possible_[row] = sum_of(row, strength_);
  }

  // A label's side is where the mean margin of its examples lies, seen from the weighted median of all labels.
  void take_sides(const LargeVector<float>& margins) {
    const auto n = static_cast<double>(margins.size());
    double sum = 0, size = 0;
    for (const float margin : margins) sum += margin;
    const auto mean = static_cast<float>(sum / n);
    for (const float margin : margins) size += std::abs(margin - mean);
    const auto scale = static_cast<float>(1 / (size / n + kTiny));
    side_.assign(mass_.size(), 0.0f);
    for (std::size_t row = 0; row < margins.size(); ++row) {
      const float pull = weight_[row] * std::clamp((margins[row] - mean) * scale, -kLargestMargin, kLargestMargin);
      add_to_labels(row, pull, side_);
    }
    for (std::size_t l = 0; l < side_.size(); ++l) side_[l] /= mass_[l];
    const float median = weighted_median(side_.data(), mass_.data(), static_cast<std::int64_t>(side_.size()));
    for (std::size_t l = 0; l < side_.size(); ++l) {
      side_[l] = side_[l] > median ? strength_[l] : side_[l] < median ? -strength_[l] : 0.0f;
    }
  }

  // An example goes with the vote of its labels, rare ones voting more strongly, and weighs as the vote is clear.
  void count(float scale, LargeVector<float>& target, LargeVector<float>& cost) const {
    for (std::size_t row = 0; row < possible_.size(); ++row) {
      const float vote = sum_of(row, side_);
      target[row] = vote >= 0 ? 1.0f : -1.0f;
      cost[row] = possible_[row] > 0 ? scale * weight_[row] * std::abs(vote) / possible_[row] : 0.0f;
    }
  }

 private:
  const std::int32_t* begin(std::size_t row) const { return Y_.indices + Y_.indptr[row]; }

  void add_to_labels(std::size_t row, float value, std::vector<float>& of_label) const {
    for (const std::int32_t* label = begin(row); label != begin(row + 1); ++label) of_label[*label] += value;
  }

  float sum_of(std::size_t row, const std::vector<float>& of_label) const {
    float sum = 0;
    for (const std::int32_t* label = begin(row); label != begin(row + 1); ++label) sum += of_label[*label];
    return sum;
  }

  const CsrView& Y_;
  const float* weight_;
  std::vector<float> mass_, strength_, side_;
  LargeVector<float> possible_;  // of each row: the strength of all its labels
};

}  // namespace

template <class Matrix>
std::vector<float> refined_router(const Matrix& X, const CsrView& Y, const float* weight,
                                  const RefinementSettings& settings, LargeVector<float> margins) {
  Votes votes(Y, weight);
  HingeClassifier<Matrix> classifier(X);
  LargeVector<float> target(margins.size()), cost(margins.size());
  for (int round = 0; round < settings.rounds; ++round) {
    votes.take_sides(margins);
    votes.count(settings.cost, target, cost);
    classifier.descend(target, cost, settings.passes);
    if (round + 1 == settings.rounds) break;
    for (std::size_t i = 0; i < margins.size(); ++i) {
      margins[i] = row_dot(X, static_cast<std::int64_t>(i), classifier.weights().data()) + classifier.offset();
    }
  }
  std::vector<float> router = classifier.weights();
  router.push_back(-classifier.offset());
  return router;
}

template class HingeClassifier<CsrView>;
template class HingeClassifier<DenseView>;
template std::vector<float> refined_router(const CsrView&, const CsrView&, const float*, const RefinementSettings&,
                                           LargeVector<float>);
template std::vector<float> refined_router(const DenseView&, const CsrView&, const float*, const RefinementSettings&,
                                           LargeVector<float>);

}  // namespace labelprism
