// What prediction does for one row: the margins of eight routers (router_tables.hpp), and the weights of candidates
// (weight_pairs.hpp). Part of block_kernels.inl.

// The bytes of eight routers as numbers.
inline Eight steps_as_floats(const void* steps) {
#if defined(__AVX2__)
  const __m128i bytes = _mm_loadl_epi64(static_cast<const __m128i*>(steps));
  return (Eight)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
#else
  typedef std::int8_t Bytes __attribute__((vector_size(8)));
  Bytes bytes;
  __builtin_memcpy(&bytes, steps, sizeof bytes);
  return __builtin_convertvector(bytes, Eight);
#endif
}

// Two sums, of the entries in even and in odd places: an addition need not wait for the one before.
void route_dense(const std::int8_t* table, const SparseRow& row, float* sums) {
  Eight even = {}, odd = {};
  std::int64_t t = 0;
  for (; t + 1 < row.count; t += 2) {
    even += row.values[t] * steps_as_floats(table + std::int64_t{kRouterLanes} * row.features[t]);
    odd += row.values[t + 1] * steps_as_floats(table + std::int64_t{kRouterLanes} * row.features[t + 1]);
  }
  if (t < row.count) even += row.values[t] * steps_as_floats(table + std::int64_t{kRouterLanes} * row.features[t]);
  *reinterpret_cast<Eight*>(sums) = even + odd;
}

// The steps of a feature in a bucket, 0 where it is not. All ways are compared and none is jumped to: whether a feature
// is there cannot be foretold.
inline std::uint64_t steps_in(const RouterBucket& bucket, std::int32_t feature) {
#if defined(__AVX2__)
  const __m256i features = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(&bucket));  // and what follows them
  const __m256i is_equal = _mm256_cmpeq_epi32(features, _mm256_set1_epi32(feature));
  const int ways = _mm256_movemask_ps(_mm256_castsi256_ps(is_equal)) & ((1 << RouterBucket::kWays) - 1);
  std::uint64_t steps;
  __builtin_memcpy(&steps, bucket.steps[__builtin_ctz(ways | 1 << (RouterBucket::kWays - 1))], sizeof steps);
  return ways ? steps : 0;
#else
  std::uint64_t found = 0;
  for (int way = 0; way < RouterBucket::kWays; ++way) {
    std::uint64_t steps;
    __builtin_memcpy(&steps, bucket.steps[way], sizeof steps);
    found |= bucket.features[way] == feature ? steps : 0;
  }
  return found;
#endif
}

void route_hashed(const RouterBucket* buckets, std::uint32_t n_buckets, const SparseRow& row, float* sums) {
  Eight total = {};
  for (std::int64_t t = 0; t < row.count; ++t) {
    std::uint32_t i = first_bucket(row.features[t], n_buckets);
    std::uint64_t found = steps_in(buckets[i], row.features[t]);
    // A feature that is nowhere is looked for in no more buckets than there are, also where all say they are overfull.
    for (std::uint32_t left = n_buckets; buckets[i].is_overfull && found == 0 && --left > 0;) {
      i = i + 1 < n_buckets ? i + 1 : 0;
      found = steps_in(buckets[i], row.features[t]);
    }
    total += row.values[t] * steps_as_floats(&found);
  }
  *reinterpret_cast<Eight*>(sums) = total;
}

typedef std::uint32_t Words __attribute__((vector_size(32)));

// The float16 numbers in the lower halves of words: with the bits in their places only the exponent is off, by 112.
inline Eight halves_as_floats(Words halves) {
  const Words magnitude = (halves & 0x7FFFu) << 13;
  const Words sign = (halves & 0x8000u) << 16;
  return (Eight)((Words)((Eight)magnitude * 0x1p112f) | sign);
}

void add_weights(const std::uint32_t* pairs, const std::int32_t* at, std::int64_t count, float value, float* margins,
                 float* cosines) {
  for (std::int64_t i = 0; i < count; i += 8, at += 8) {
    const Words words = {pairs[at[0]], pairs[at[1]], pairs[at[2]], pairs[at[3]],
                         pairs[at[4]], pairs[at[5]], pairs[at[6]], pairs[at[7]]};
    lanes_at(margins + i) += value * halves_as_floats(words);
    lanes_at(cosines + i) += value * halves_as_floats(words >> 16);
  }
}

inline std::uint32_t count_bits(std::uint32_t bits) {
#if defined(__POPCNT__)
  return static_cast<std::uint32_t>(__builtin_popcount(bits));
#else  // without the call that stands in for the instruction
  bits -= (bits >> 1) & 0x55555555u;
  bits = (bits & 0x33333333u) + ((bits >> 2) & 0x33333333u);
  return (((bits + (bits >> 4)) & 0x0F0F0F0Fu) * 0x01010101u) >> 24;
#endif
}

void find_places(const LabelWord* words, std::uint32_t length, const std::int32_t* labels, std::int64_t count,
                 std::int32_t* at) {
  for (std::int64_t i = 0; i < count; ++i) {
    const LabelWord word = words[labels[i] >> 5];
    const std::uint32_t below = word.bits << (31 - (labels[i] & 31));  // up to the label's own bit, which is the last
    const std::uint32_t place = word.before + count_bits(below);
    at[i] = static_cast<std::int32_t>(place <= length ? place & -(below >> 31) : 0);
  }
}
