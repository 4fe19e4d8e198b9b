#include "embedding.hpp"

#include <algorithm>

#include "block_kernels.hpp"
#include "thread_pool.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kColumnsPerTask = 16;

}  // namespace

void PlainSparse::fetch(BatchRoom<SparseRow>& room) const {
  room.rows.clear();
  for (std::int64_t row = room.batch.begin; row < room.batch.end; ++row) {
    const std::int64_t first = X_.indptr[row];
    room.rows.push_back({X_.indices + first, X_.data + first, X_.indptr[row + 1] - first});
  }
}

void PlainDense::fetch(BatchRoom<DenseRow>& room) const {
  room.rows.clear();
  for (std::int64_t row = room.batch.begin; row < room.batch.end; ++row) {
    room.rows.push_back({X_.data + row * X_.n_columns});
  }
}

Embedding::Embedding(std::int64_t n_features, std::int64_t width, const float* initial)
    : n_features_(n_features),
      width_(width),
      weights_(initial, initial + n_features * width),
      momenta_(static_cast<std::size_t>(n_features * width), 0.0f),
      wave_of_feature_(static_cast<std::size_t>(n_features), 0) {}

void Embedding::embed(const CsrView& X, std::int64_t begin, std::int64_t end, float* out) const {
  block_kernels().gather(X, begin, end, weights_.data(), width_, out - begin * width_);
}

void Embedding::learn(const CsrView& X, const std::vector<BatchRoom<DenseRow>>& rooms, std::size_t n_rooms,
                      const Rate& rate, int n_threads) {
  ++wave_;
  touched_.clear();
  std::int64_t n_rows = 0;
  for (std::size_t r = 0; r < n_rooms; ++r) {
    n_rows += rooms[r].batch.size();
    for (std::int64_t t = X.indptr[rooms[r].batch.begin]; t < X.indptr[rooms[r].batch.end]; ++t) {
      std::int64_t& last = wave_of_feature_[static_cast<std::size_t>(X.indices[t])];
      if (last != wave_) touched_.push_back(X.indices[t]);
      last = wave_;
    }
  }
  parallel_ranges(width_, kColumnsPerTask, n_threads, [&](std::int64_t first, std::int64_t last) {
    for (const std::int32_t j : touched_) {
      for (std::int64_t q = first; q < last; ++q) momenta_[j * width_ + q] *= rate.momentum;
    }
    for (std::size_t r = 0; r < n_rooms; ++r) {
      const Batch& batch = rooms[r].batch;
      const float share = static_cast<float>(batch.size()) / static_cast<float>(n_rows);
      for (std::int64_t row = batch.begin; row < batch.end; ++row) {
        const float* gradient = rooms[r].row_gradient.data() + (row - batch.begin) * width_;
        for (std::int64_t t = X.indptr[row]; t < X.indptr[row + 1]; ++t) {
          float* m = momenta_.data() + X.indices[t] * width_;
          const float scale = share * X.data[t];
          for (std::int64_t q = first; q < last; ++q) m[q] += scale * gradient[q];
        }
      }
    }
    for (const std::int32_t j : touched_) {
      for (std::int64_t q = first; q < last; ++q) weights_[j * width_ + q] -= rate.rate * momenta_[j * width_ + q];
    }
  });
}

void Embedded::fetch(BatchRoom<DenseRow>& room) const {
  const std::int64_t n = room.batch.size(), width = embedding_.width();
  room.embedded.resize(static_cast<std::size_t>(n * width));
  embedding_.embed(X_, room.batch.begin, room.batch.end, room.embedded.data());
  room.rows.clear();
  for (std::int64_t i = 0; i < n; ++i) room.rows.push_back({room.embedded.data() + i * width});
  // Steps are made for rows of unit norm, and embeddings grow as they are trained.
  float square = 0;
  for (const float value : room.embedded) square += value * value;
  room.caution = 1 / std::max(1.0f, square / static_cast<float>(n));
}

void Embedded::learn(std::vector<BatchRoom<DenseRow>>& rooms, std::size_t n_rooms, const HeadStep& step,
                     int n_threads) {
  embedding_.learn(X_, rooms, n_rooms, step.rate, n_threads);
}

}  // namespace labelprism
