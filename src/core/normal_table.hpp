// Phi, the distribution function of the standard normal distribution, from a table: growth asks for it once for every
// example and level, and std::erfc takes as long as the margin it is asked for.
#pragma once

#include <array>
#include <cmath>

namespace labelprism {

class NormalTable {
 public:
  static constexpr int kRange = 6, kSteps = 128;

  NormalTable() {
    for (int i = 0; i < kEntries; ++i) {
      const double z = static_cast<double>(i) / kSteps - kRange;
      values_[static_cast<std::size_t>(i)] = static_cast<float>(0.5 * std::erfc(-z / std::sqrt(2.0)));
    }
  }

  // Phi(z), to 2e-6; 0 and 1 beyond -6 and 6, and for NaN 0.
  float operator()(float z) const {
    if (!(z > -kRange)) return 0;
    if (z >= kRange) return 1;
    const float place = (z + kRange) * kSteps;
    const int i = static_cast<int>(place);
    const float from = values_[static_cast<std::size_t>(i)], to = values_[static_cast<std::size_t>(i) + 1];
    return from + (place - static_cast<float>(i)) * (to - from);
  }

  // Phi(i / kSteps - kRange), for kernels that look up several at once.
  const float* values() const { return values_.data(); }

 private:
  static constexpr int kEntries = 2 * kRange * kSteps + 2;
  std::array<float, kEntries> values_;
};

inline const NormalTable& normal_table() {
  static const NormalTable table;
  return table;
}

// The probability to go right at a router: Phi(distance / noise), or whether distance > 0 where noise is 0.
inline float probability_right(const NormalTable& normal, float distance, float noise) {
  return noise > 0 ? normal(distance / noise) : distance > 0 ? 1.0f : 0.0f;
}

}  // namespace labelprism
