// What finding the largest of many sums needs: adding them up, and the line between those that are kept and the rest.
// Part of block_kernels.inl.

// Eight at a time become numbers; they are added one by one, for their places lie anywhere.
void add_halves(const std::int32_t* labels, const std::uint16_t* halves, std::int64_t count, float value,
                std::uint32_t n_labels, float* sums) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    Words at;
    __builtin_memcpy(&at, labels + i, sizeof at);
    at = at < n_labels ? at : n_labels - Words{};
    const Eight added = value * halves_as_floats(eight_halves(halves + i));
    for (int k = 0; k < 8; ++k) sums[at[k]] += added[k];
  }
  for (; i < count; ++i) {
    const auto label = static_cast<std::uint32_t>(labels[i]);
    sums[label < n_labels ? label : n_labels] += value * from_half(halves[i]);
  }
}

inline Whole whole_at(const float* at) {
  Whole bits;
  __builtin_memcpy(&bits, at, sizeof bits);
  return bits;
}

inline std::int64_t count_from(const float* values, std::int64_t count, std::int32_t least) {
#if defined(__AVX512F__)
  const __m512i bound = _mm512_set1_epi32(least);
  std::int64_t total = 0, i = 0;
  for (; i + 16 <= count; i += 16) {
    total += __builtin_popcount(_mm512_cmpge_epi32_mask(_mm512_loadu_si512(values + i), bound));
  }
  if (i < count) {
    total += __builtin_popcount(_mm512_mask_cmpge_epi32_mask(0xFF, _mm512_maskz_loadu_epi32(0xFF, values + i), bound));
  }
  return total;
#else
  Whole counts = {};
  for (std::int64_t i = 0; i < count; i += 8) counts -= whole_at(values + i) >= least;  // -1 where it is so
  std::int64_t total = 0;
  for (int k = 0; k < 8; ++k) total += counts[k];
  return total;
#endif
}

// Copies the values that are at least `least`, which is above 0, and zeros to a multiple of 8; returns how many all
// are. There is room for 16 more.
inline std::int64_t copy_from(const float* values, std::int64_t count, float least, float* copies) {
  std::int64_t kept = 0;
#if defined(__AVX512F__)
  const __m512 bound = _mm512_set1_ps(least);
  for (std::int64_t i = 0; i < count; i += 16) {
    const __mmask16 here = static_cast<__mmask16>(count - i < 16 ? 0xFF : 0xFFFF);
    const __m512 some = _mm512_maskz_loadu_ps(here, values + i);
    const __mmask16 mask = _mm512_cmp_ps_mask(some, bound, _CMP_GE_OQ);
    _mm512_storeu_ps(copies + kept, _mm512_maskz_compress_ps(mask, some));
    kept += __builtin_popcount(mask);
  }
#else
  for (std::int64_t i = 0; i < count; ++i) {  // noted in any case and kept if it is large: that needs no jump
    copies[kept] = values[i];
    kept += values[i] >= least ? 1 : 0;
  }
#endif
  const std::int64_t padded = (kept + 7) / 8 * 8;
  for (std::int64_t i = kept; i < padded; ++i) copies[i] = 0;
  return padded;
}

constexpr std::int64_t kFewValues = 512;

// The bits of positive floats, taken for whole numbers, are in the order of the floats. The line is looked for by
// halving: from the largest value downwards, for the kept ones are near to it. Once it is known where few values lie,
// these alone are looked at.
float nth_by_halving(const float* values, std::int64_t count, std::int64_t wanted) {
  Whole tops = {};
  for (std::int64_t i = 0; i < count; i += 8) {
    const Whole bits = whole_at(values + i);
    tops = bits > tops ? bits : tops;
  }
  std::int32_t top = 0;
  for (int k = 0; k < 8; ++k) top = tops[k] > top ? tops[k] : top;
  std::int32_t low = top > 1 ? top : 1, high = low;  // fewer values than wanted are at least `high`
  std::int64_t from_low = count_from(values, count, low);
  for (std::int32_t step = 1 << 22; from_low < wanted && low > 1;) {  // half of an octave
    high = low;
    low = low - 1 > step ? low - step : 1;
    step = step < 1 << 28 ? 2 * step : step;
    from_low = count_from(values, count, low);
  }
  float few[kFewValues + 16];
  while (from_low > wanted && high - low > 1) {
    if (values != few && from_low <= kFewValues && from_low < count / 2) {
      float least;
      __builtin_memcpy(&least, &low, sizeof least);
      count = copy_from(values, count, least, few);
      values = few;
    }
    const std::int32_t middle = low + (high - low) / 2;
    const std::int64_t from_middle = count_from(values, count, middle);
    if (from_middle >= wanted) {
      low = middle;
      from_low = from_middle;
    } else {
      high = middle;
    }
  }
  float least;
  __builtin_memcpy(&least, &low, sizeof least);
  return least;
}

constexpr int kGroups = 64;

// Of many values, and few wanted ones, most can be left out at once: that many of the largest values of 64 groups are
// among the wanted ones or above the line.
float nth_largest(const float* values, std::int64_t count, std::int64_t wanted) {
  if (count < 4 * kGroups || 3 * wanted > kGroups) return nth_by_halving(values, count, wanted);
  Whole tops[kGroups / 8] = {};
  std::int64_t i = 0;
  for (; i + kGroups <= count; i += kGroups) {
    for (int g = 0; g < kGroups / 8; ++g) {
      const Whole bits = whole_at(values + i + 8 * g);
      tops[g] = bits > tops[g] ? bits : tops[g];
    }
  }
  for (int g = 0; i < count; i += 8, ++g) {
    const Whole bits = whole_at(values + i);
    tops[g] = bits > tops[g] ? bits : tops[g];
  }
  float of_groups[kGroups];
  __builtin_memcpy(of_groups, tops, sizeof of_groups);
  const float line = nth_by_halving(of_groups, kGroups, wanted);
  std::int32_t bits;
  __builtin_memcpy(&bits, &line, sizeof bits);
  const std::int64_t above = count_from(values, count, bits);
  if (above <= wanted || above > kFewValues) return above == wanted ? line : nth_by_halving(values, count, wanted);
  float few[kFewValues + 16];
  return nth_by_halving(few, copy_from(values, count, line, few), wanted);
}

std::int64_t places_from(const float* values, std::int64_t count, float least, std::int32_t* places) {
  std::int64_t kept = 0;
#if defined(__AVX512F__)
  const __m512 bound = _mm512_set1_ps(least);
  __m512i numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (std::int64_t i = 0; i < count; i += 16) {
    const __mmask16 here = static_cast<__mmask16>(count - i < 16 ? 0xFF : 0xFFFF);
    const __mmask16 mask = _mm512_mask_cmp_ps_mask(here, _mm512_maskz_loadu_ps(here, values + i), bound, _CMP_GE_OQ);
    _mm512_storeu_si512(places + kept, _mm512_maskz_compress_epi32(mask, numbers));
    kept += __builtin_popcount(mask);
    numbers = _mm512_add_epi32(numbers, _mm512_set1_epi32(16));
  }
#else
  for (std::int64_t i = 0; i < count; ++i) {  // noted in any case and kept if it is large: that needs no jump
    places[kept] = static_cast<std::int32_t>(i);
    kept += values[i] >= least ? 1 : 0;
  }
#endif
  return kept;
}
