// Rows as a solver reads them again and again, example by example: what it needs of a row lies together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "csr.hpp"
#include "large_vector.hpp"

namespace labelprism {

struct RowEntry {
  std::uint32_t feature;
  float value;
};
constexpr std::uint32_t kEntries = 4;   // are taken together: zeros fill up the last ones of a row
constexpr std::uint32_t kFeatures = 8;  // are, of a row of equal values
constexpr std::size_t kLineBytes = 64;  // of the cache

// Sums lie side by side below: additions wait for each other, loads and multiplications do not.

// start + w.x
inline float row_product(const float* w, const RowEntry* entry, const RowEntry* end, float start) {
  float sums[kEntries] = {start};
  for (; entry < end; entry += kEntries) {
    for (std::uint32_t i = 0; i < kEntries; ++i) sums[i] += w[entry[i].feature] * entry[i].value;
  }
  static_assert(kEntries == 4);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// w += step x
inline void add_row(float* w, const RowEntry* entry, const RowEntry* end, float step) {
  for (; entry < end; entry += kEntries) {
    for (std::uint32_t i = 0; i < kEntries; ++i) w[entry[i].feature] += step * entry[i].value;
  }
}

// w.x of a row of ones
inline float row_sum(const float* w, const std::uint16_t* feature, const std::uint16_t* end) {
  float sums[kFeatures] = {};
  for (; feature < end; feature += kFeatures) {
    for (std::uint32_t i = 0; i < kFeatures; ++i) sums[i] += w[feature[i]];
  }
  static_assert(kFeatures == 8);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// w += step x of a row of ones
inline void add_to_row(float* w, const std::uint16_t* feature, const std::uint16_t* end, float step) {
  for (; feature < end; feature += kFeatures) {
    for (std::uint32_t i = 0; i < kFeatures; ++i) w[feature[i]] += step;
  }
}

// All rows, once for all labels, where they are few enough to stay in the cache.
struct SharedRows {
  LargeVector<RowEntry> entries;
  std::vector<std::uint32_t> begin;  // of each row, and the end

  bool holds_rows() const { return !begin.empty(); }

  void load(const CsrView& X) {
    begin.assign(1, 0);
    for (std::int64_t row = 0; row < X.n_rows; ++row) {
      for (std::int64_t t = X.indptr[row]; t < X.indptr[row + 1]; ++t) {
        entries.push_back({static_cast<std::uint32_t>(X.indices[t]), X.data[t]});
      }
      while (entries.size() % kEntries != 0) entries.push_back({0, 0.0f});
      begin.push_back(static_cast<std::uint32_t>(entries.size()));
    }
  }
};

// Of rows whose values are equal, as those of bags of features are, the features alone: a quarter of the bytes of
// entries, and sums without multiplications. A spare feature, whose number is that of all features, fills up the last
// ones of a row.
struct EqualRows {
  LargeVector<std::uint16_t> features;
  std::vector<std::uint32_t> begin;    // of each row, and the end
  std::vector<std::uint8_t> is_equal;  // or its features are not here

  bool holds_rows() const { return !is_equal.empty(); }
  bool holds_all_rows() const {
    return holds_rows() && std::find(is_equal.begin(), is_equal.end(), 0) == is_equal.end();
  }

  void load(const CsrView& X) {
    is_equal.reserve(static_cast<std::size_t>(X.n_rows));
    begin.assign(1, 0);
    std::uint64_t size = 0;
    for (std::int64_t row = 0; row < X.n_rows; ++row) {
      const float *const first = X.data + X.indptr[row], *const end = X.data + X.indptr[row + 1];
      is_equal.push_back(std::all_of(first, end, [&](float value) { return value == *first; }));
      if (is_equal.back()) size += static_cast<std::uint64_t>((end - first + kFeatures - 1) / kFeatures * kFeatures);
      begin.push_back(static_cast<std::uint32_t>(size));
      if (size > std::numeric_limits<std::uint32_t>::max()) return is_equal.clear();  // far more than would be faster
    }
    features.assign(static_cast<std::size_t>(size), static_cast<std::uint16_t>(X.n_columns));
    for (std::int64_t row = 0; row < X.n_rows; ++row) {
      if (!is_equal[row]) continue;
      std::copy(X.indices + X.indptr[row], X.indices + X.indptr[row + 1], features.data() + begin[row]);
    }
  }
};

}  // namespace labelprism
