// A CSR matrix in the making, whose arrays are given to NumPy when it is done.
#pragma once

#include <cstdint>
#include <vector>

#include "buffer.hpp"

namespace labelprism {

struct GrowingCsr {
  Buffer<std::int64_t> indptr;  // the ends of the rows; a whole matrix has a 0 before them
  Buffer<std::int32_t> indices;
  Buffer<float> data;

  void push(std::int32_t column, float value) {
    indices.push(column);
    data.push(value);
  }
  void end_row() { indptr.push(static_cast<std::int64_t>(indices.size())); }

  // Makes this, which must be empty, the whole matrix of pieces that were filled in parallel.
  void join(std::vector<GrowingCsr>& pieces) {
    indptr.push(0);
    for (GrowingCsr& piece : pieces) {
      const std::int64_t before = static_cast<std::int64_t>(indices.size());
      for (std::size_t i = 0; i < piece.indptr.size(); ++i) indptr.push(before + piece.indptr[i]);
      indices.append(piece.indices.data(), piece.indices.size());
      data.append(piece.data.data(), piece.data.size());
    }
  }
};

}  // namespace labelprism
