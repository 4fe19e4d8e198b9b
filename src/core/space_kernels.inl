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

// Cosines with sixteen vectors, from their inner products in steps.
inline void write_cosines(const std::int32_t* products, const std::int32_t* sums, const float* scale, float row_scale,
                          float above, float* cosines) {
  for (int i = 0; i < kTileVectors; i += 8) {
    Whole product, sum;
    __builtin_memcpy(&product, products + i, sizeof product);
    __builtin_memcpy(&sum, sums + i, sizeof sum);
    const Eight of_step = lanes_at(scale + i), none = {};
    const Eight cosine = __builtin_convertvector(product - (kTileRowSteps + 1) * sum, Eight) * (of_step * row_scale);
    lanes_at(cosines + i) = of_step > none ? cosine + above : none;
  }
}

// Steps of the row become 1 to 127, for products of bytes are of one that has a sign and one that has none; what that
// adds is the sum of a vector's steps, many times. Whole numbers: no rounding, in whatever order they are added up.
void tile_cosines(const SpaceTile* tiles, const std::int32_t* sums, const float* scale, std::int64_t n_tiles,
                  const std::int8_t* row, float row_scale, float above, float* cosines) {
  constexpr int kFours = kSpaceWidth / 4;
  alignas(64) std::uint8_t raised[kSpaceWidth];
  for (int j = 0; j < kSpaceWidth; ++j) raised[j] = static_cast<std::uint8_t>(row[j] + kTileRowSteps + 1);
  alignas(64) std::int32_t products[kTileVectors];
#if defined(__AVX2__)
  std::int32_t fours[kFours];
  __builtin_memcpy(fours, raised, sizeof fours);
#endif
  for (std::int64_t t = 0; t < n_tiles; ++t) {
#if defined(__AVX512BW__)
    const __m512i ones = _mm512_set1_epi16(1);
    __m512i even = _mm512_setzero_si512(), odd = even;
    for (int q = 0; q < kFours; q += 2) {
      const __m512i first = _mm512_loadu_si512(tiles[t].steps[q]), second = _mm512_loadu_si512(tiles[t].steps[q + 1]);
      even = _mm512_add_epi32(even, _mm512_madd_epi16(_mm512_maddubs_epi16(_mm512_set1_epi32(fours[q]), first), ones));
      odd =
          _mm512_add_epi32(odd, _mm512_madd_epi16(_mm512_maddubs_epi16(_mm512_set1_epi32(fours[q + 1]), second), ones));
    }
    _mm512_store_si512(products, _mm512_add_epi32(even, odd));
#elif defined(__AVX2__)
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i low = _mm256_setzero_si256(), high = low;
    for (int q = 0; q < kFours; ++q) {
      const __m256i* const steps = reinterpret_cast<const __m256i*>(tiles[t].steps[q]);
      const __m256i four = _mm256_set1_epi32(fours[q]);
      low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_maddubs_epi16(four, _mm256_loadu_si256(steps)), ones));
      high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_maddubs_epi16(four, _mm256_loadu_si256(steps + 1)), ones));
    }
    _mm256_store_si256(reinterpret_cast<__m256i*>(products), low);
    _mm256_store_si256(reinterpret_cast<__m256i*>(products + 8), high);
#else
    for (int i = 0; i < kTileVectors; ++i) products[i] = 0;
    for (int q = 0; q < kFours; ++q) {
      for (int i = 0; i < kTileVectors; ++i) {
        for (int k = 0; k < 4; ++k) products[i] += raised[4 * q + k] * tiles[t].steps[q][i][k];
      }
    }
#endif
    write_cosines(products, sums + t * kTileVectors, scale + t * kTileVectors, row_scale, above,
                  cosines + t * kTileVectors);
  }
}
