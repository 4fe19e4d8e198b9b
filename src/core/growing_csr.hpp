// A CSR matrix in the making, whose arrays are given to NumPy when it is done.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "buffer.hpp"
#include "thread_pool.hpp"

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

  // Makes this, which must be empty, the whole matrix of pieces that were filled in parallel. They are empty
  // afterwards: each gives its memory back when it is copied, so that the matrix is not held twice.
  void join(std::vector<GrowingCsr>& pieces, int n_threads = 1) {
    struct Place {
      std::size_t row, entry, value;  // there may be no values, or other ones than for every entry
    };
    std::vector<Place> places;
    Place end{1, 0, 0};
    for (const GrowingCsr& piece : pieces) {
      places.push_back(end);
      end = {end.row + piece.indptr.size(), end.entry + piece.indices.size(), end.value + piece.data.size()};
    }
    indptr.resize(end.row);
    indices.resize(end.entry);
    data.resize(end.value);
    indptr[0] = 0;
    parallel_for(static_cast<std::int64_t>(pieces.size()), n_threads, [&](std::int64_t number) {
      GrowingCsr& piece = pieces[static_cast<std::size_t>(number)];
      const Place at = places[static_cast<std::size_t>(number)];
      for (std::size_t i = 0; i < piece.indptr.size(); ++i) {
        indptr[at.row + i] = static_cast<std::int64_t>(at.entry) + piece.indptr[i];
      }
      std::copy_n(piece.indices.data(), piece.indices.size(), indices.data() + at.entry);
      std::copy_n(piece.data.data(), piece.data.size(), data.data() + at.value);
      piece.indptr.clear();
      piece.indices.clear();
      piece.data.clear();
    });
  }
};

}  // namespace labelprism
