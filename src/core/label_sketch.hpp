// The direction of a node by a sketch: randomised subspace iteration that starts from the labels.
//
// Eight random numbers for every label, carried from labels to rows to features (Z = X'D Y C) and back (C = the mean of
// X Z over the rows of each label), grow along the directions that tell labels apart; Rayleigh-Ritz picks the best in
// the span of Z. A start for the refinement need not be exact, and this spares all algebra with the many features of a
// node but the two products with X: see `spectral_node.hpp` for the exact solver.
#pragma once

#include "spectral_node.hpp"

namespace labelprism {

// `steps` is how often labels are carried to the features and back; with a `rank` above 0, below 8, so many better
// directions are passed over. X and Y hold the rows of the node; one thread.
template <class Matrix>
Direction sketched_direction(const Matrix& X, const CsrView& Y, const float* weight, int steps, std::uint64_t seed,
                             int rank);

}  // namespace labelprism
