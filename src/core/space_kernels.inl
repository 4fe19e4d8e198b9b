// Sums and inner products of vectors in bytes (space_vectors.hpp). Part of block_kernels.inl.

#if defined(__AVX512F__)
constexpr int kStepsAtOnce = 16;
inline __m512 some_steps(const std::int8_t* steps) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(steps))));
}
#else
constexpr int kStepsAtOnce = 8;
inline Eight some_steps(const std::int8_t* steps) { return steps_as_floats(steps); }
#endif

void add_vectors(const SpaceVector* table, const float* scale, const SparseRow& row, float* sums) {
  using Steps = typename Lanes<kStepsAtOnce>::type;
  constexpr int kParts = kSpaceWidth / kStepsAtOnce;
  Steps total[kParts] = {};
  for (std::int64_t t = 0; t < row.count; ++t) {
    if (t + kAhead < row.count) __builtin_prefetch(table + row.features[t + kAhead]);
    const std::int8_t* const steps = table[row.features[t]].steps;
    const float value = row.values[t] * scale[row.features[t]];
    for (int g = 0; g < kParts; ++g) total[g] += value * some_steps(steps + kStepsAtOnce * g);
  }
  for (int g = 0; g < kParts; ++g) *reinterpret_cast<Steps*>(sums + kStepsAtOnce * g) = total[g];
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

constexpr int kLogOfRaise = 6;
static_assert(1 << kLogOfRaise == kTileRowSteps + 1);

// The inner products of steps of a row, raised by kTileRowSteps + 1, with the sixteen vectors of a tile, and the
// cosines that come of them. Whole numbers: no rounding, in whatever order they are added up.
#if defined(__AVX512BW__)
inline __m512i tile_products(const SpaceTile& tile, const std::int32_t* fours) {
  __m512i total[4] = {};  // four chains, or each addition would wait for the one before it
  for (int q = 0; q < kSpaceWidth / 4; ++q) {
    const __m512i four = _mm512_set1_epi32(fours[q]), steps = _mm512_loadu_si512(tile.steps[q]);
#if defined(__AVX512VNNI__)
    total[q % 4] = _mm512_dpbusd_epi32(total[q % 4], four, steps);
#else
    const __m512i pairs = _mm512_maddubs_epi16(four, steps);
    total[q % 4] = _mm512_add_epi32(total[q % 4], _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
#endif
  }
  return _mm512_add_epi32(_mm512_add_epi32(total[0], total[1]), _mm512_add_epi32(total[2], total[3]));
}

inline void write_cosines(__m512i products, const SpaceTile& tile, float row_scale, float above, float* cosines) {
  const __m512i raised = _mm512_slli_epi32(_mm512_loadu_si512(tile.sum), kLogOfRaise);
  const __m512 scale = _mm512_loadu_ps(tile.scale);
  const __mmask16 is_some = _mm512_cmp_ps_mask(scale, _mm512_setzero_ps(), _CMP_GT_OQ);
  const __m512 per_step = _mm512_mul_ps(scale, _mm512_set1_ps(row_scale));
  const __m512 cosine = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(products, raised)), per_step);
  _mm512_storeu_ps(cosines, _mm512_maskz_add_ps(is_some, cosine, _mm512_set1_ps(above)));
}
#else
struct TileProducts {
  alignas(32) std::int32_t of[kTileVectors];
};

inline TileProducts tile_products(const SpaceTile& tile, const std::int32_t* fours) {
  TileProducts products = {};
#if defined(__AVX2__)
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i low = _mm256_setzero_si256(), high = low;
  for (int q = 0; q < kSpaceWidth / 4; ++q) {
    const __m256i* const steps = reinterpret_cast<const __m256i*>(tile.steps[q]);
    const __m256i four = _mm256_set1_epi32(fours[q]);
    low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_maddubs_epi16(four, _mm256_loadu_si256(steps)), ones));
    high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_maddubs_epi16(four, _mm256_loadu_si256(steps + 1)), ones));
  }
  _mm256_store_si256(reinterpret_cast<__m256i*>(products.of), low);
  _mm256_store_si256(reinterpret_cast<__m256i*>(products.of + 8), high);
#else
  std::uint8_t raised[kSpaceWidth];
  __builtin_memcpy(raised, fours, sizeof raised);
  for (int q = 0; q < kSpaceWidth / 4; ++q) {
    for (int i = 0; i < kTileVectors; ++i) {
      for (int k = 0; k < 4; ++k) products.of[i] += raised[4 * q + k] * tile.steps[q][i][k];
    }
  }
#endif
  return products;
}

inline void write_cosines(const TileProducts& products, const SpaceTile& tile, float row_scale, float above,
                          float* cosines) {
  for (int i = 0; i < kTileVectors; i += 8) {
    Whole product, sum;
    __builtin_memcpy(&product, products.of + i, sizeof product);
    __builtin_memcpy(&sum, tile.sum + i, sizeof sum);
    const Eight of_step = lanes_at(tile.scale + i), none = {};
    const Eight cosine = __builtin_convertvector(product - (sum << kLogOfRaise), Eight) * (of_step * row_scale);
    lanes_at(cosines + i) = of_step > none ? cosine + above : none;
  }
}
#endif

// Steps of the row become 1 to 127, for products of bytes are of one that has a sign and one that has none; what that
// adds is the sum of a vector's steps, many times.
void tile_cosines(const SpaceTile* tiles, std::int64_t n_tiles, const std::int8_t* row, float row_scale, float above,
                  float* cosines) {
  std::uint8_t raised[kSpaceWidth];
  for (int j = 0; j < kSpaceWidth; ++j) raised[j] = static_cast<std::uint8_t>(row[j] + kTileRowSteps + 1);
  std::int32_t fours[kSpaceWidth / 4];
  __builtin_memcpy(fours, raised, sizeof fours);
  for (std::int64_t t = 0; t < n_tiles; ++t) {
    write_cosines(tile_products(tiles[t], fours), tiles[t], row_scale, above, cosines + t * kTileVectors);
  }
}
