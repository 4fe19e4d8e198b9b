// The direction of a node by a sketch: randomised subspace iteration that starts from the labels.
//
// Eight random numbers for every label, carried from labels to rows to features (Z = X'D Y C) and back (C = the mean of
// X Z over the rows of each label), grow along the directions that tell labels apart; Rayleigh-Ritz picks the best in
// the span of Z. A start for the refinement need not be exact, and this spares all algebra with the many features of a
// node but the two products with X: see `spectral_node.hpp` for the exact solver.
#pragma once

#include "block_algebra.hpp"
#include "spectral_node.hpp"

namespace labelprism {

// The span of Z, and what Rayleigh-Ritz needs to pick from it.
struct LabelSketch {
  Block features;          // Z
  SquareMatrix objective;  // of combinations of its columns: how well they tell labels apart,
  SquareMatrix lengths;    // and their inner products

  // The best direction or, with a `rank` above 0, below 8, the best one that is orthogonal to so many better ones.
  Direction direction(int rank) const;
};

// `steps` is how often labels are carried to the features and back. X and Y hold the rows of the node; one thread.
template <class Matrix>
LabelSketch label_sketch(const Matrix& X, const CsrView& Y, const float* weight, int steps, std::uint64_t seed);

}  // namespace labelprism
