// Words and characters of texts, and their n-grams hashed to 2^bits features.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "growing_csr.hpp"

namespace labelprism {

enum class Analyzer { kWord, kChar, kCharInWord };

struct HashOptions {
  Analyzer analyzer;
  int shortest;  // n-grams of `shortest` to `longest` words or characters
  int longest;
  int bits;             // features are numbered below 2^bits
  int n_hashes;         // 1 or 2 features for each n-gram
  bool is_signed;       // whether a further bit of the hash decides the sign
  bool fold;            // simple characters (see CharFolds); callers fold the texts that hold others
  int min_word_length;  // in characters; ideographs are words whatever it says
};

// Texts as one run of UTF-8; text i is [offsets[i], offsets[i + 1]).
struct Texts {
  const char* bytes;
  const std::int64_t* offsets;
  std::int64_t count;

  std::string_view operator[](std::int64_t i) const {
    return {bytes + offsets[i], static_cast<std::size_t>(offsets[i + 1] - offsets[i])};
  }
};

// The texts that hold a character which is not simple (see CharFolds), and so must be folded as a whole beforehand.
std::vector<std::int64_t> texts_to_fold(const Texts& texts);

// Counts of the n-grams of every text by feature, rows sorted, features whose signed counts cancel left out.
void hash_texts(const Texts& texts, const HashOptions& options, int n_threads, GrowingCsr& rows);

// Counts n-grams by their spelling, to name the features.
class TokenTable {
 public:
  void add(const Texts& texts, const HashOptions& options);

  // For every feature that occurred the most frequent n-gram (of equals the first in byte order), by feature.
  std::vector<std::pair<std::int32_t, std::string>> names(const HashOptions& options) const;

 private:
  struct Entry {
    std::string spelling;
    std::int64_t count = 0;
  };
  std::unordered_map<std::uint64_t, Entry> entries_;
};

}  // namespace labelprism
