// The losses of heads, and their gradients by the scores.
#pragma once

#include <cstdint>
#include <vector>

namespace labelprism {

enum class Loss { kSoftmax, kLogistic };

// A label of a row that is among the candidates: the candidate's place in its leaf, and the row's in its batch.
struct Positive {
  std::int64_t place;
  std::int64_t row;
};

// The loss of one independent score, and its derivative in place of the score.
double logistic_gradient(float& score, bool is_positive);

// Turns scores into gradients of the mean loss; returns the sum of the losses. All matrices are [place][row]. A row of
// which no label is a candidate has no gradient under softmax, and only negatives under independent losses.
double loss_gradient(Loss loss, std::int64_t n_places, std::int64_t n_rows, const std::vector<Positive>& positives,
                     float* scores);

}  // namespace labelprism
