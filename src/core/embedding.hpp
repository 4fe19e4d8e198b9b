// The shared embedding of a low-rank head: z = V'x, and the sources of rows for the trainers of heads.
#pragma once

#include "head_trainer.hpp"

namespace labelprism {

// Rows as they are.
class PlainSparse : public RowSource<SparseRow> {
 public:
  explicit PlainSparse(const CsrView& X) : X_(X) {}
  void fetch(BatchRoom<SparseRow>& room) const override;

 private:
  CsrView X_;
};

class PlainDense : public RowSource<DenseRow> {
 public:
  explicit PlainDense(const DenseView& X) : X_(X) {}
  void fetch(BatchRoom<DenseRow>& room) const override;

 private:
  DenseView X_;
};

// V, [n_features][width], with width a multiple of 8. A feature's momentum rests while no row has it.
class Embedding {
 public:
  Embedding(std::int64_t n_features, std::int64_t width, const float* initial);

  std::int64_t n_features() const { return n_features_; }
  std::int64_t width() const { return width_; }
  const LargeVector<float>& weights() const { return weights_; }

  // z of the rows begin to end, as [row][width].
  void embed(const CsrView& X, std::int64_t begin, std::int64_t end, float* out) const;

  // One step along the mean gradient of all rows of a wave.
  void learn(const CsrView& X, const std::vector<BatchRoom<DenseRow>>& rooms, std::size_t n_rooms, const Rate& rate,
             int n_threads);

 private:
  std::int64_t n_features_;
  std::int64_t width_;
  LargeVector<float> weights_;
  LargeVector<float> momenta_;
  std::vector<std::int64_t> wave_of_feature_;  // the last wave that had the feature
  std::int64_t wave_ = 0;
  std::vector<std::int32_t> touched_;
};

class Embedded : public RowSource<DenseRow> {
 public:
  Embedded(const CsrView& X, Embedding& embedding) : X_(X), embedding_(embedding) {}
  void fetch(BatchRoom<DenseRow>& room) const override;
  bool wants_gradient() const override { return true; }
  void learn(std::vector<BatchRoom<DenseRow>>& rooms, std::size_t n_rooms, const HeadStep& step,
             int n_threads) override;

 private:
  CsrView X_;
  Embedding& embedding_;
};

}  // namespace labelprism
