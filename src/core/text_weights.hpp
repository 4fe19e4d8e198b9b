// Texts to rows of tf-idf in one go, for callers that bring a few texts at a time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "growing_csr.hpp"
#include "text_hash.hpp"

namespace labelprism {

class TextWeigher {
 public:
  // `of_count` has the weight of every count from 0 on that texts may have; `idf` one of every feature, and is kept by
  // reference.
  TextWeigher(const HashOptions& options, std::vector<float>&& of_count, const float* idf)
      : options_(options), of_count_(std::move(of_count)), idf_(idf) {}

  // Unit rows of weight times idf, rounded where scikit-learn rounds. False, and nothing of use in `rows`, if a text
  // holds a character that cannot be folded by itself (unless all were folded before), or a count without a weight.
  bool rows(const Texts& texts, bool are_folded, int n_threads, GrowingCsr& rows) const;

  std::int64_t n_features() const { return std::int64_t{1} << options_.bits; }

 private:
  bool weigh(GrowingCsr& rows) const;

  HashOptions options_;
  std::vector<float> of_count_;
  const float* idf_;
};

}  // namespace labelprism
