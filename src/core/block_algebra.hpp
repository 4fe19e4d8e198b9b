// Linear algebra on blocks of 8 vectors, [row][8]: inner products, combinations, orthonormal bases.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "large_vector.hpp"
#include "small_eigen.hpp"

namespace labelprism {

constexpr int kBlock = 8;
using Block = LargeVector<float>;            // n rows of 8
using Coefficients = std::array<float, 64>;  // 8 x 8, row by row

// a'b for two blocks of the same number of rows, summed up in double precision piece by piece.
SquareMatrix inner_products(const Block& a, const Block& b, int n_threads);

// z += a * coefficients, or z = z * coefficients.
void add_combination(const Block& a, const Coefficients& coefficients, int n_threads, Block& z);
void transform(const Coefficients& coefficients, int n_threads, Block& z);

// Makes the columns of z orthonormal, and orthogonal to those of every block in `basis`. Columns that depend on others
// become zero, so that the number of non-zero columns is the dimension that z adds.
void orthonormalise(const std::vector<Block>& basis, int n_threads, Block& z);

}  // namespace labelprism
