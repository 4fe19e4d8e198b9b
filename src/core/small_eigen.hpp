// Eigenvalues of small symmetric matrices.
#pragma once

#include <vector>

namespace labelprism {

// A square matrix of doubles, row by row.
struct SquareMatrix {
  explicit SquareMatrix(int order) : n(order), values(static_cast<std::size_t>(order) * order, 0.0) {}
  double& operator()(int i, int j) { return values[static_cast<std::size_t>(i) * n + j]; }
  double operator()(int i, int j) const { return values[static_cast<std::size_t>(i) * n + j]; }

  int n;
  std::vector<double> values;
};

struct Eigenpairs {
  std::vector<double> values;  // descending
  SquareMatrix vectors;        // column j belongs to value j
};

// All eigenvalues and eigenvectors of a symmetric matrix, by Jacobi's rotations; meant for orders up to a hundred.
Eigenpairs symmetric_eigen(SquareMatrix matrix);

}  // namespace labelprism
