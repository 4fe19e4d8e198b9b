#include "text_weights.hpp"

#include <cmath>

namespace labelprism {

bool TextWeigher::rows(const Texts& texts, bool are_folded, int n_threads, GrowingCsr& rows) const {
  if (!are_folded && !texts_to_fold(texts).empty()) return false;
  hash_texts(texts, options_, n_threads, rows);
  return weigh(rows);
}

bool TextWeigher::weigh(GrowingCsr& rows) const {
  float* const data = rows.data.data();
  const auto n_rows = rows.indptr.size() - 1;
  for (std::size_t row = 0; row < n_rows; ++row) {
    const auto begin = static_cast<std::size_t>(rows.indptr[row]), end = static_cast<std::size_t>(rows.indptr[row + 1]);
    double sum = 0;
    for (std::size_t t = begin; t < end; ++t) {
      if (data[t] >= static_cast<float>(of_count_.size())) return false;
      data[t] = of_count_[static_cast<std::size_t>(data[t])] * idf_[rows.indices[t]];
      sum += static_cast<double>(data[t] * data[t]);  // the square is rounded to float first
    }
    if (sum == 0) continue;
    const double norm = std::sqrt(sum);
    for (std::size_t t = begin; t < end; ++t) data[t] = static_cast<float>(data[t] / norm);
  }
  return true;
}

}  // namespace labelprism
