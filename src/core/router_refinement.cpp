#include "router_refinement.hpp"

#include <algorithm>
#include <cmath>

#include "row_algebra.hpp"
#include "spectral_node.hpp"

namespace labelprism {
namespace {

constexpr float kConverged = 0.1f;   // the largest gradient that is left alone
constexpr float kNoCost = 1e-9f;     // examples that cost no more are not looked at
constexpr float kLargest = 3.0f;     // margins beyond so many mean margins count as that
constexpr double kTiny = 1e-9;

}  // namespace

template <class Matrix>
HingeClassifier<Matrix>::HingeClassifier(const Matrix& X)
    : X_(X), weights_(static_cast<std::size_t>(X.n_columns), 0.0f), square_(static_cast<std::size_t>(X.n_rows)) {
  for (std::int64_t row = 0; row < X.n_rows; ++row) square_[static_cast<std::size_t>(row)] = row_square(X, row);
}

template <class Matrix>
void HingeClassifier<Matrix>::descend(const std::vector<float>& target, const std::vector<float>& cost, int passes) {
  forget_changed(target, cost);
  for (int i = 0; i < passes && pass(target, cost) >= kConverged; ++i) {
  }
}

template <class Matrix>
void HingeClassifier<Matrix>::forget_changed(const std::vector<float>& target, const std::vector<float>& cost) {
  alpha_.resize(square_.size(), 0.0f);
  for (std::size_t i = 0; i < target_.size(); ++i) {
    if (alpha_[i] == 0 || (target[i] == target_[i] && cost[i] > kNoCost)) continue;
    const float step = -alpha_[i] * target_[i];
    add_row(X_, static_cast<std::int64_t>(i), step, weights_.data());
    offset_ += step;
    alpha_[i] = 0;
  }
  target_ = target;
}

// Returns the largest gradient that was met.
template <class Matrix>
float HingeClassifier<Matrix>::pass(const std::vector<float>& target, const std::vector<float>& cost) {
  float largest = 0;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (cost[i] <= kNoCost) continue;
    const auto row = static_cast<std::int64_t>(i);
    const float diagonal = 0.5f / cost[i];
    const float gradient = target[i] * (row_dot(X_, row, weights_.data()) + offset_) - 1 + alpha_[i] * diagonal;
    if (alpha_[i] == 0 && gradient > 0) continue;
    largest = std::max(largest, std::abs(gradient));
    const float next = std::max(alpha_[i] - gradient / (square_[i] + 1 + diagonal), 0.0f);
    const float step = (next - alpha_[i]) * target[i];
    alpha_[i] = next;
    add_row(X_, row, step, weights_.data());
    offset_ += step;
  }
  return largest;
}

namespace {

// Who votes how: the sides of labels, and what follows from them for the examples.
class Votes {
 public:
  Votes(const CsrView& Y, const float* weight) : Y_(Y), weight_(weight), mass_(static_cast<std::size_t>(Y.n_columns)) {
    for_entries([&](std::size_t row, std::size_t label) { mass_[label] += weight_[row]; });
    for (float& mass : mass_) mass = std::max(mass, static_cast<float>(kTiny));
    strength_.reserve(mass_.size());
    for (const float mass : mass_) strength_.push_back(1 / std::sqrt(mass));
  }

  // A label's side is where the mean margin of its examples lies, seen from the weighted median of all labels.
  void take_sides(const std::vector<float>& margins) {
    double size = 0;
    for (const float margin : margins) size += std::abs(margin);
    const auto scale = static_cast<float>(1 / (size / static_cast<double>(margins.size()) + kTiny));
    side_.assign(mass_.size(), 0.0f);
    for_entries([&](std::size_t row, std::size_t label) {
      side_[label] += weight_[row] * std::clamp(margins[row] * scale, -kLargest, kLargest);
    });
    for (std::size_t l = 0; l < side_.size(); ++l) side_[l] /= mass_[l];
    const float median = weighted_median(side_.data(), mass_.data(), static_cast<std::int64_t>(side_.size()));
    for (std::size_t l = 0; l < side_.size(); ++l) {
      side_[l] = side_[l] > median ? strength_[l] : side_[l] < median ? -strength_[l] : 0.0f;
    }
  }

  // An example goes with the vote of its labels, rare ones voting more strongly, and weighs as the vote is clear.
  void count(float scale, std::vector<float>& target, std::vector<float>& cost) const {
    for (std::int64_t row = 0; row < Y_.n_rows; ++row) {
      float vote = 0, possible = 0;
      for (std::int64_t t = Y_.indptr[row]; t < Y_.indptr[row + 1]; ++t) {
        vote += side_[static_cast<std::size_t>(Y_.indices[t])];
        possible += strength_[static_cast<std::size_t>(Y_.indices[t])];
      }
      const auto i = static_cast<std::size_t>(row);
      target[i] = vote >= 0 ? 1.0f : -1.0f;
      cost[i] = possible > 0 ? scale * weight_[i] * std::abs(vote) / possible : 0.0f;
    }
  }

 private:
  template <class Use>
  void for_entries(const Use& use) const {
    for (std::int64_t row = 0; row < Y_.n_rows; ++row) {
      for (std::int64_t t = Y_.indptr[row]; t < Y_.indptr[row + 1]; ++t) {
        use(static_cast<std::size_t>(row), static_cast<std::size_t>(Y_.indices[t]));
      }
    }
  }

  const CsrView& Y_;
  const float* weight_;
  std::vector<float> mass_, strength_, side_;
};

}  // namespace

template <class Matrix>
std::vector<float> refined_router(const Matrix& X, const CsrView& Y, const float* weight,
                                  const RefinementSettings& settings, std::vector<float> margins) {
  Votes votes(Y, weight);
  HingeClassifier<Matrix> classifier(X);
  std::vector<float> target(margins.size()), cost(margins.size());
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
                                           std::vector<float>);
template std::vector<float> refined_router(const DenseView&, const CsrView&, const float*, const RefinementSettings&,
                                           std::vector<float>);

}  // namespace labelprism
