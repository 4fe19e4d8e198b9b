#include "top_k.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "thread_pool.hpp"

namespace labelprism {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr std::int64_t kRowsPerTask = 64;

struct Entry {
  float score;
  std::int32_t column;
};

inline bool better(const Entry& a, const Entry& b) {
  return a.score != b.score ? a.score > b.score : a.column < b.column;
}

// The k best entries seen so far, as a heap with the worst of them in front.
class Best {
 public:
  explicit Best(std::int64_t k) : k_(static_cast<std::size_t>(k)) {}

  // What a score must reach to be of interest. Comparisons with it are false for NaN.
  float threshold() const { return entries_.size() < k_ ? kNever : entries_.front().score; }

  void offer(Entry entry) {
    if (!(entry.score > kNever)) return;
    if (entries_.size() < k_) {
      entries_.push_back(entry);
      std::push_heap(entries_.begin(), entries_.end(), better);
    } else if (better(entry, entries_.front())) {
      std::pop_heap(entries_.begin(), entries_.end(), better);
      entries_.back() = entry;
      std::push_heap(entries_.begin(), entries_.end(), better);
    }
  }

  void write_and_clear(std::int32_t* columns, float* scores) {
    std::sort_heap(entries_.begin(), entries_.end(), better);
    for (std::size_t i = 0; i < k_; ++i) {
      columns[i] = i < entries_.size() ? entries_[i].column : -1;
      scores[i] = i < entries_.size() ? entries_[i].score : kNever;
    }
    entries_.clear();
  }

 private:
  std::size_t k_;
  std::vector<Entry> entries_;
};

// Most pieces of 16 columns hold nothing of interest; their maximum, which the compiler vectorises, says so.
void offer_dense_row(const float* scores, std::int64_t n_columns, Best& best) {
  constexpr std::int64_t kPiece = 16;
  for (std::int64_t begin = 0; begin < n_columns; begin += kPiece) {
    const std::int64_t end = std::min(begin + kPiece, n_columns);
    float highest = kNever;
    for (std::int64_t j = begin; j < end; ++j) highest = scores[j] > highest ? scores[j] : highest;
    if (highest < best.threshold()) continue;
    for (std::int64_t j = begin; j < end; ++j) best.offer({scores[j], static_cast<std::int32_t>(j)});
  }
}

}  // namespace

void top_k_dense(const float* scores, std::int64_t n_rows, std::int64_t n_columns, std::int64_t k, int n_threads,
                 std::int32_t* best_columns, float* best_scores) {
  parallel_ranges(n_rows, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    Best best(k);
    for (std::int64_t row = begin; row < end; ++row) {
      offer_dense_row(scores + row * n_columns, n_columns, best);
      best.write_and_clear(best_columns + row * k, best_scores + row * k);
    }
  });
}

void top_k_csr(const CsrView& scores, std::int64_t k, int n_threads, std::int32_t* best_columns, float* best_scores) {
  parallel_ranges(scores.n_rows, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    Best best(k);
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t t = scores.indptr[row]; t < scores.indptr[row + 1]; ++t) {
        best.offer({scores.data[t], scores.indices[t]});
      }
      best.write_and_clear(best_columns + row * k, best_scores + row * k);
    }
  });
}

}  // namespace labelprism
