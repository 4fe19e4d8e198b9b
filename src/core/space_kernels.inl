// Sums and inner products of vectors in bytes (space_vectors.hpp). Part of block_kernels.inl.

void add_vectors(const SpaceVector* table, const float* scale, const SparseRow& row, float* sums) {
  constexpr int kGroups = kSpaceWidth / 8;
  Eight total[kGroups] = {};
  for (std::int64_t t = 0; t < row.count; ++t) {
    if (t + kAhead < row.count) __builtin_prefetch(table + row.features[t + kAhead]);
    const std::int8_t* const steps = table[row.features[t]].steps;
    const float value = row.values[t] * scale[row.features[t]];
    for (int g = 0; g < kGroups; ++g) total[g] += value * steps_as_floats(steps + 8 * g);
  }
  for (int g = 0; g < kGroups; ++g) lanes_at(sums + 8 * g) = total[g];
}

void copy_vectors(const SpaceVector* table, const float* scale, const std::int32_t* at, std::int64_t count,
                  float* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    float* const copy = out + i * kSpaceWidth;
    const float step = at[i] < 0 ? 0.0f : scale[at[i]];
    const std::int8_t* const steps = table[at[i] < 0 ? 0 : at[i]].steps;
    for (int j = 0; j < kSpaceWidth; j += 8) lanes_at(copy + j) = step * steps_as_floats(steps + j);
  }
}

void dot_vectors(const SpaceVector* table, const std::int32_t* at, std::int64_t count, const float* vector,
                 float* products) {
  constexpr int kGroups = kSpaceWidth / 8;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int8_t* const steps = table[at[i]].steps;
    Eight even = {}, odd = {};
    for (int g = 0; g < kGroups; g += 2) {
      even += lanes_at(vector + 8 * g) * steps_as_floats(steps + 8 * g);
      odd += lanes_at(vector + 8 * g + 8) * steps_as_floats(steps + 8 * g + 8);
    }
    const Eight sum = even + odd;
    products[i] = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
  }
}

// Inner products of whole numbers: no rounding, so lanes may be summed in any order.
void dot_steps(const SpaceVector* table, std::int64_t count, const std::int16_t* vector, std::int32_t* products) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int8_t* const steps = table[i].steps;
    std::int32_t sum = 0;
    for (int j = 0; j < kSpaceWidth; ++j) sum += static_cast<std::int16_t>(steps[j]) * vector[j];
    products[i] = sum;
  }
}
