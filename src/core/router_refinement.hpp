// Supervised refinement of a node's router: labels take sides, examples follow their labels, a linear classifier
// learns where the examples went.
#pragma once

#include <cstdint>
#include <vector>

#include "csr.hpp"
#include "large_vector.hpp"

namespace labelprism {

// When labels take sides, margins beyond so many mean margins count as that.
constexpr float kLargestMargin = 3.0f;

struct RefinementSettings {
  int rounds;  // how often labels take sides anew
  int passes;  // of dual coordinate descent, at most, in each round
  float cost;  // C of the squared hinge loss
};

// A linear classifier by the squared hinge loss, with a bias, in the making:
//
//   minimise (|w|^2 + b^2 / kBiasSquare) / 2 + sum_i cost_i max(0, 1 - target_i (w.x_i + b))^2
//
// by dual coordinate descent. Rows are taken in the order of the matrix: the caller has shuffled them. Between two
// calls of `descend` targets and costs may change; what was learned from rows that keep their target is kept.
template <class Matrix>
class HingeClassifier {
 public:
  explicit HingeClassifier(const Matrix& X);

  // Makes at most `passes` passes; ends early when no gradient is as large as 0.1. A target is 1 or -1.
  void descend(const LargeVector<float>& target, const LargeVector<float>& cost, int passes);

  const std::vector<float>& weights() const { return weights_; }
  float offset() const { return offset_; }  // b

 private:
  struct Example {
    float target = 0;
    float alpha = 0;     // its dual variable
    float square = 0;    // |x|^2
    float diagonal = 0;  // 1 / (2 cost)
    float inverse = 0;   // of the second derivative; 0 for an example that does not count
  };

  void aim(std::int64_t row, float target, float cost);
  float pass();

  const Matrix& X_;
  std::vector<float> weights_;
  LargeVector<Example> examples_;
  float offset_ = 0;
};

// Refines the split that `margins` (w.x of every row of the node) make about their mean. X, Y and the example weights
// are those of the node's rows. Returns the router: weights for the columns of X, and the bias as the last element; an
// example goes right if w.x > bias.
template <class Matrix>
std::vector<float> refined_router(const Matrix& X, const CsrView& Y, const float* weight,
                                  const RefinementSettings& settings, LargeVector<float> margins);

}  // namespace labelprism
