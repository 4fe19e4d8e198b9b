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
inline std::int32_t dot_steps_of(const std::int8_t* steps, const std::int16_t* vector) {
  std::int32_t sum = 0;
  for (int j = 0; j < kSpaceWidth; ++j) sum += static_cast<std::int16_t>(steps[j]) * vector[j];
  return sum;
}

#if defined(__AVX2__)

// Sums of the inner product with one vector, in eight lanes.
inline __m256i dot_lanes(const std::int8_t* steps, const std::int16_t* vector) {
#if defined(__AVX512BW__)
  __m512i sum = _mm512_setzero_si512();
  for (int j = 0; j < kSpaceWidth; j += 32) {
    const __m512i some = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(steps + j)));
    sum = _mm512_add_epi32(sum, _mm512_madd_epi16(some, _mm512_loadu_si512(vector + j)));
  }
  return _mm256_add_epi32(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1));
#else
  __m256i sum = _mm256_setzero_si256();
  for (int j = 0; j < kSpaceWidth; j += 16) {
    const __m256i some = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(steps + j)));
    const __m256i with = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(vector + j));
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(some, with));
  }
  return sum;
#endif
}

// Four vectors at a time: to add up the lanes of one takes as long as all else.
void dot_steps(const SpaceVector* table, std::int64_t count, const std::int16_t* vector, std::int32_t* products) {
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const __m256i first = _mm256_hadd_epi32(dot_lanes(table[i].steps, vector), dot_lanes(table[i + 1].steps, vector));
    const __m256i last =
        _mm256_hadd_epi32(dot_lanes(table[i + 2].steps, vector), dot_lanes(table[i + 3].steps, vector));
    const __m256i halves = _mm256_hadd_epi32(first, last);
    const __m128i sums = _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(products + i), sums);
  }
  for (; i < count; ++i) products[i] = dot_steps_of(table[i].steps, vector);
}

#else

void dot_steps(const SpaceVector* table, std::int64_t count, const std::int16_t* vector, std::int32_t* products) {
  for (std::int64_t i = 0; i < count; ++i) products[i] = dot_steps_of(table[i].steps, vector);
}

#endif
