// How rows of a space are pulled by what they are compared with (label_space.cpp). Part of block_kernels.inl.

// The bits of the columns that have a label. From a table, which registers can be filled with on all processors.
inline std::uint32_t columns_of(const std::int32_t* columns, std::int32_t label) {
  static const std::uint32_t kBits[kComparedColumns] = {
      1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,  1u << 8,  1u << 9,  1u << 10,
      1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15, 1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21,
      1u << 22, 1u << 23, 1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31};
  std::uint32_t bits = 0;
  for (int c = 0; c < kComparedColumns; ++c) bits |= columns[c] == label ? kBits[c] : 0;
  return bits;
}

// How much each column pulls each row, [column][row], by the softmax of the cosines, which `pulls` has so far: the
// row's own label less than 0, the others more, those that are labels of the row too not at all.
inline void make_pulls(const ComparedRows& compared, float* pulls) {
  static_assert(kComparedRows == 8, "rows side by side are eight lanes");
  typedef std::uint32_t Bits __attribute__((vector_size(kComparedRows * sizeof(std::uint32_t))));
  const std::uint32_t without_label = columns_of(compared.columns, -1);
  Bits left_out;
  Eight weight;
  for (int r = 0; r < kComparedRows; ++r) {
    left_out[r] = without_label;
    for (std::int64_t t = 0; t < compared.n_labels[r]; ++t) {
      left_out[r] |= columns_of(compared.columns, compared.labels[r][t]);
    }
    weight[r] = compared.weight[r];
  }
  const Eight none = {};
  Eight own = none;
  for (int c = 0; c < kComparedColumns; ++c) {
    const Eight cosine = lanes_at(pulls + c * kComparedRows), below = compared.scale * (cosine - 1.0f);
    const Eight power = exp_lanes(below < 0.0f ? below : below - below);
    if (c < kComparedRows) own[c] = power[c];
    lanes_at(pulls + c * kComparedRows) = power;
  }
  own = weight > 0.0f ? own : none;
  Eight sum = own;
  for (int c = 0; c < kComparedColumns; ++c) {
    const Eight power = lanes_at(pulls + c * kComparedRows), kept = ((left_out >> c) & 1) != 0 ? none : power;
    lanes_at(pulls + c * kComparedRows) = kept;
    sum += kept;
  }
  const Eight factor = weight > 0.0f ? weight / sum : none, to_own = (own - sum) * factor;
  for (int c = 0; c < kComparedColumns; ++c) {
    const Eight power = lanes_at(pulls + c * kComparedRows);
    lanes_at(pulls + c * kComparedRows) = power * factor;
  }
  for (int r = 0; r < kComparedRows; ++r) pulls[r * kComparedRows + r] = to_own[r];
}

// sums[r] = sum over the columns of pulls[c][r] * labels[c], some numbers of all rows at a time.
inline void add_pulls(const float* pulls, const float* labels, float* sums) {
  using Vector = typename Lanes<kWidest>::type;
  constexpr int kParts = kWidest == 16 ? 2 : 1;
  for (int j = 0; j < kSpaceWidth; j += kParts * kWidest) {
    Vector totals[kComparedRows][kParts] = {};
    for (int c = 0; c < kComparedColumns; ++c) {
      Vector label[kParts];
      for (int p = 0; p < kParts; ++p) {
        label[p] = *reinterpret_cast<const Vector*>(labels + c * kSpaceWidth + j + p * kWidest);
      }
      for (int r = 0; r < kComparedRows; ++r) {
        for (int p = 0; p < kParts; ++p) totals[r][p] += pulls[c * kComparedRows + r] * label[p];
      }
    }
    for (int r = 0; r < kComparedRows; ++r) {
      for (int p = 0; p < kParts; ++p) {
        *reinterpret_cast<Vector*>(sums + r * kSpaceWidth + j + p * kWidest) = totals[r][p];
      }
    }
  }
}

void pull_rows(const ComparedRows& compared, const float* rows, const float* labels, float* gradient) {
  float across[kSpaceWidth * kComparedRows];  // rows side by side
  for (int r = 0; r < kComparedRows; ++r) {
    for (int j = 0; j < kSpaceWidth; ++j) across[j * kComparedRows + r] = rows[r * kSpaceWidth + j];
  }
  float pulls[kComparedColumns * kComparedRows], sums[kComparedRows * kSpaceWidth];
  static_assert(kComparedColumns % kDenseRows == 0);
  for (int c = 0; c < kComparedColumns; c += kDenseRows) {
    gather_dense_rows<kDenseRows>(labels + c * kSpaceWidth, kSpaceWidth, across, pulls + c * kComparedRows);
  }
  make_pulls(compared, pulls);
  add_pulls(pulls, labels, sums);
  // From the gradient by the unit vector to that by the vector itself.
  for (int r = 0; r < compared.count; ++r) {
    const float *const unit = rows + r * kSpaceWidth, *const sum = sums + r * kSpaceWidth;
    const float along = inner_product(sum, unit), scale = compared.norm[r] > 0 ? 1 / compared.norm[r] : 0;
    for (int j = 0; j < kSpaceWidth; ++j) gradient[r * kSpaceWidth + j] = (sum[j] - along * unit[j]) * scale;
  }
}

void round_vectors(const float* vectors, std::int64_t count, SpaceVector* steps, float* scale) {
  // What is added and taken away again leaves no bits for what is less than 1; halves go to even numbers.
  constexpr float kRounding = 3 << 22;
  constexpr float kTiny = 1e-30f, kHuge = 1e30f;  // of what is smaller, or larger, or no number, nothing is left
  for (std::int64_t i = 0; i < count; ++i) {
    const float* const vector = vectors + i * kSpaceWidth;
    Eight size = {};
    for (int j = 0; j < kSpaceWidth; j += 8) {
      const Eight lanes = lanes_at(vector + j), positive = lanes < 0.0f ? -lanes : lanes;
      size = positive > size ? positive : size;
    }
    float largest = 0;
    for (int j = 0; j < 8; ++j) largest = size[j] > largest ? size[j] : largest;
    const bool is_some = largest > kTiny && largest < kHuge;
    scale[i] = is_some ? largest / kVectorSteps : 0.0f;
    const float per_step = is_some ? kVectorSteps / largest : 0.0f;
    for (int j = 0; j < kSpaceWidth; ++j) {
      const float rounded = (per_step * vector[j] + kRounding) - kRounding;
      steps[i].steps[j] = static_cast<std::int8_t>(rounded == rounded ? rounded : 0.0f);
    }
  }
}
