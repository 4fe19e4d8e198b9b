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
typedef std::int32_t Whole __attribute__((vector_size(32)));

// NormalTable for eight numbers, in the same steps.
inline Eight normal_of(const float* table, Eight z) {
  constexpr float kRange = NormalTable::kRange, kSteps = NormalTable::kSteps;
  const Eight zero = {}, one = zero + 1.0f;
  const Eight inside = z > -kRange ? (z < kRange ? z : zero) : zero;
  const Eight place = (inside + kRange) * kSteps;
  const Whole i = __builtin_convertvector(place, Whole);
  Eight from, to;
  for (int k = 0; k < kRouterLanes; ++k) {
    from[k] = table[i[k]];
    to[k] = table[i[k] + 1];
  }
  const Eight value = from + (place - __builtin_convertvector(i, Eight)) * (to - from);
  return z > -kRange ? (z < kRange ? value : one) : zero;
}

// All seven nodes are asked, whether the row comes to them or not: where it goes cannot be foretold, and a jump that
// was foretold wrongly takes longer.
std::uint32_t leave_block(const RouterBlock& block, const float* sums, const float* normal, float noise_scale,
                          float smallest, bool is_main, float* probability, int* likeliest) {
  const Eight zero = {}, distance = lanes_at(sums) * lanes_at(block.scale) - lanes_at(block.bias);
  const Eight noise = noise_scale * lanes_at(block.noise);  // the last lanes are of what follows, and are not used
  const Eight right = noise > 0.0f ? normal_of(normal, distance / noise) : (distance > 0.0f ? zero + 1.0f : zero);
  for (int i = 0; i < kBlockNodes; ++i) {
    probability[2 * i + 1] = probability[i] * (1 - right[i]);
    probability[2 * i + 2] = probability[i] * right[i];
  }
  std::uint32_t places = 0;
  for (int i = 0; i < 2 * kBlockNodes + 1; ++i) {
    const bool is_left = block.next[i] != RouterBlock::kInside && probability[i] > smallest;
    places |= static_cast<std::uint32_t>(is_left) << i;
  }
  *likeliest = -1;
  if (!is_main) return places;
  int way = 0;
  while (way < kBlockNodes && block.next[way] == RouterBlock::kInside) way = 2 * way + 1 + (right[way] >= 0.5f);
  *likeliest = way;
  return places | std::uint32_t{1} << way;
}

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

// The float16 numbers of pairs, one after the other.
inline const std::uint16_t* halves_of(const std::uint32_t* pairs) {
  return reinterpret_cast<const std::uint16_t*>(pairs);
}

inline Words eight_halves(const std::uint16_t* from) {
#if defined(__AVX2__)
  return (Words)_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
  typedef std::uint16_t Halves __attribute__((vector_size(16)));
  Halves halves;
  __builtin_memcpy(&halves, from, sizeof halves);
  return __builtin_convertvector(halves, Words);
#endif
}

// N lists at a time, so that sums are fetched once for all of them.
template <int N>
inline void add_lists(const std::uint32_t* const* lists, const float* values, std::int64_t count, float* sums) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 8 <= count; i += 8) {
    __m512 sum = _mm512_loadu_ps(sums + 2 * i);
    for (int t = 0; t < N; ++t) {
      const __m512 weights = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(lists[t] + i)));
      sum = _mm512_add_ps(sum, _mm512_mul_ps(_mm512_set1_ps(values[t]), weights));
    }
    _mm512_storeu_ps(sums + 2 * i, sum);
  }
#endif
  for (; i + 4 <= count; i += 4) {
    Eight sum = lanes_at(sums + 2 * i);
    for (int t = 0; t < N; ++t) sum += values[t] * halves_as_floats(eight_halves(halves_of(lists[t] + i)));
    lanes_at(sums + 2 * i) = sum;
  }
  for (; i < count; ++i) {
    for (int t = 0; t < N; ++t) {
      sums[2 * i] += values[t] * from_half(lists[t][i]);
      sums[2 * i + 1] += values[t] * from_half(lists[t][i] >> 16);
    }
  }
}

void add_all_weights(const std::uint32_t* const* lists, const float* values, std::int64_t n_lists, std::int64_t count,
                     float* sums) {
  std::int64_t t = 0;
  for (; t + 4 <= n_lists; t += 4) add_lists<4>(lists + t, values + t, count, sums);
  for (; t < n_lists; ++t) add_lists<1>(lists + t, values + t, count, sums);
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
