#include "near_examples.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "node_rows.hpp"
#include "strong_features.hpp"
#include "thread_pool.hpp"

namespace labelprism {
namespace {

// So many examples vote, the nearest, each by the fourth power of its cosine: its share of that of the nearest one.
constexpr std::int64_t kVoters = 100;
constexpr float kUnvoted = 0.01f;  // no label is out of the race by these votes alone
// Cosines are of so many features of a row, its strongest. All of them find examples that are hardly better, and the
// lists of the others, which are of frequent words mostly, take half of the time.
constexpr std::int64_t kStrongFeatures = 6;
constexpr std::int64_t kFeatureRanges = 8, kRowsPerTask = 64;

struct Listed {
  float value;
  std::int32_t example;
};

// Whether a is to stay rather than b. The top of a heap by this order is the next to go.
bool is_stronger(const Listed& a, const Listed& b) {
  const float of_a = std::fabs(a.value), of_b = std::fabs(b.value);
  return of_a != of_b ? of_a > of_b : a.example < b.example;
}

// The strongest examples of some features, in room for all of them that was counted before.
class ListsOfRange {
 public:
  ListsOfRange(std::int32_t first, std::int32_t end, const std::int64_t* counts, std::int64_t longest)
      : first_(first), longest_(longest), begin_(static_cast<std::size_t>(end - first) + 1, 0) {
    for (std::size_t i = 0; i + 1 < begin_.size(); ++i) {
      begin_[i + 1] = begin_[i] + std::min(counts[first + static_cast<std::int32_t>(i)], longest);
    }
    size_.assign(begin_.size() - 1, 0);
    listed_.resize(static_cast<std::size_t>(begin_.back()));
  }

  void add(std::int32_t feature, const Listed& entry) {
    const auto i = static_cast<std::size_t>(feature - first_);
    Listed* const list = listed_.data() + begin_[i];
    std::int64_t& size = size_[i];
    if (size < longest_) {
      list[size++] = entry;
      if (size == longest_) std::make_heap(list, list + size, is_stronger);
      return;
    }
    if (!is_stronger(entry, list[0])) return;
    std::pop_heap(list, list + size, is_stronger);
    list[size - 1] = entry;
    std::push_heap(list, list + size, is_stronger);
  }

  void write(GrowingCsr& lists) {
    for (std::size_t i = 0; i < size_.size(); ++i) {
      Listed* const list = listed_.data() + begin_[i];
      // Lists that were never full are in the order of the rows already.
      if (size_[i] == longest_) {
        std::sort(list, list + size_[i], [](const Listed& a, const Listed& b) { return a.example < b.example; });
      }
      for (std::int64_t t = 0; t < size_[i]; ++t) lists.push(list[t].example, list[t].value);
      lists.end_row();
    }
  }

 private:
  std::int32_t first_;
  std::int64_t longest_;
  std::vector<std::int64_t> begin_, size_;
  LargeVector<Listed> listed_;
};

// Ends of ranges of features that have about as many entries each; by the data alone, never by the threads.
std::vector<std::int32_t> range_ends(const std::vector<std::int64_t>& counts, std::int64_t n_entries) {
  std::vector<std::int32_t> ends;
  std::int64_t passed = 0;
  for (std::size_t feature = 0; feature < counts.size(); ++feature) {
    passed += counts[feature];
    const auto n_ends = static_cast<std::int64_t>(ends.size());
    const bool is_full = n_entries > 0 && passed * kFeatureRanges >= n_entries * (n_ends + 1);
    if (is_full || feature + 1 == counts.size()) {
      ends.push_back(static_cast<std::int32_t>(feature) + 1);
    }
  }
  return ends;
}

bool is_ascending(const Stored<std::int64_t>& begin, std::size_t size) {
  if (begin.size() == 0 || begin[0] != 0 || begin[begin.size() - 1] != static_cast<std::int64_t>(size)) return false;
  for (std::size_t i = 0; i + 1 < begin.size(); ++i) {
    if (begin[i] > begin[i + 1]) return false;
  }
  return true;
}

}  // namespace

void check_tables(const ExampleTables& tables) {
  const bool good = is_ascending(tables.begin, tables.example.size()) && tables.value.size() == tables.example.size() &&
                    is_ascending(tables.label_begin, tables.label.size()) &&
                    tables.n_examples() <= std::numeric_limits<std::int32_t>::max() &&
                    (tables.weight.size() == 0 || tables.weight.size() + 1 == tables.label_begin.size());
  if (!good) throw std::invalid_argument("the lists of examples do not fit together");
}

void strongest_examples(const CsrView& X, std::int64_t longest, int n_threads, GrowingCsr& lists) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(X.n_columns), 0);
  const std::int64_t n_entries = X.indptr[X.n_rows];
  for (std::int64_t t = 0; t < n_entries; ++t) ++counts[static_cast<std::size_t>(X.indices[t])];
  const std::vector<std::int32_t> ends = range_ends(counts, n_entries);
  std::vector<GrowingCsr> pieces(ends.size());
  // Each task reads all rows, for its own features: reading is the least of it.
  parallel_for(static_cast<std::int64_t>(ends.size()), n_threads, [&](std::int64_t task) {
    const auto at = static_cast<std::size_t>(task);
    const std::int32_t first = task == 0 ? 0 : ends[at - 1], end = ends[at];
    ListsOfRange range(first, end, counts.data(), longest);
    for (std::int64_t row = 0; row < X.n_rows; ++row) {
      const std::int32_t* const last = X.indices + X.indptr[row + 1];
      const std::int32_t* feature = std::lower_bound(X.indices + X.indptr[row], last, first);
      for (; feature != last && *feature < end; ++feature) {
        range.add(*feature, {X.data[feature - X.indices], static_cast<std::int32_t>(row)});
      }
    }
    range.write(pieces[at]);
  });
  lists.join(pieces, n_threads);
}

// Fills room.found and room.cosine with the examples in the lists of the row's strongest features that are near at all.
void NearExamples::add_up(const SparseRow& row, ExampleRoom& room) const {
  const float least = least_strong_value(*kernels_, row, kStrongFeatures, room.sizes);
  const auto n_examples = static_cast<std::uint32_t>(tables_.n_examples());
  if (room.sum.empty()) room.sum.assign(n_examples + std::size_t{1}, 0.0f);
  room.lists.clear();
  std::size_t most = 0;
  for (std::int64_t t = 0; t < row.count; ++t) {
    if (std::fabs(row.values[t]) < least) continue;
    const auto feature = static_cast<std::size_t>(row.features[t]);
    const auto first = static_cast<std::size_t>(tables_.begin[feature]);
    const std::size_t count = static_cast<std::size_t>(tables_.begin[feature + 1]) - first;
    kernels_->add_halves(tables_.example.data() + first, tables_.value.data() + first, static_cast<std::int64_t>(count),
                         row.values[t], n_examples, room.sum.data());
    room.lists.emplace_back(first, count);
    most += count;
  }
  if (room.found.size() < most) room.found.resize(most);
  room.cosine.resize(padded_to_eight(most));
  // Lists are read once more: what lies in them anyway need not be noted while sums wait for memory.
  std::size_t n_found = 0;
  for (const auto& [first, count] : room.lists) {
    for (std::size_t s = first; s < first + count; ++s) {
      const std::uint32_t example = std::min(static_cast<std::uint32_t>(tables_.example[s]), n_examples);
      float& sum = room.sum[example];
      room.found[n_found] = static_cast<std::int32_t>(example);  // in any case, and kept if it is near: without a jump
      room.cosine[n_found] = sum;
      n_found += sum > 0 && example < n_examples ? 1 : 0;  // the last one stands for all that a damaged model makes up
      sum = 0;
    }
  }
  room.cosine.resize(n_found);
  room.cosine.resize(padded_to_eight(n_found), 0.0f);
}

void NearExamples::vote(const SparseRow& row, const std::uint16_t* slot, std::int64_t n_labels, std::size_t n_places,
                        ExampleRoom& room, float* votes) const {
  add_up(row, room);
  room.nearest.find(*kernels_, room.cosine.data(), room.cosine.size(), kVoters);
  float largest = std::numeric_limits<float>::min();
  for (const std::int32_t place : room.nearest) {
    largest = std::max(largest, room.cosine[static_cast<std::size_t>(place)]);
  }
  std::fill(votes, votes + n_places, 0.0f);
  float total = std::numeric_limits<float>::min();
  // Thousands may be equally near, to a row of one feature for instance: then the first ones speak for all.
  const auto n_voters = std::min(room.nearest.size(), static_cast<std::size_t>(2 * kVoters));
  const auto place_of = [&](std::size_t i) { return static_cast<std::size_t>(room.nearest.begin()[i]); };
  const auto example_of = [&](std::size_t i) { return static_cast<std::size_t>(room.found[place_of(i)]); };
  // Voters lie anywhere among the examples, and so do their labels: all are asked for before the first one is read.
  for (std::size_t i = 0; i < n_voters; ++i) __builtin_prefetch(&tables_.label_begin[example_of(i)]);
  for (std::size_t i = 0; i < n_voters; ++i) {
    __builtin_prefetch(tables_.label.data() + tables_.label_begin[example_of(i)]);
  }
  for (std::size_t i = 0; i < n_voters; ++i) {
    const std::size_t place = place_of(i), example = example_of(i);
    const float share = room.cosine[place] / largest, square = share * share;
    const float vote = square * square * (tables_.weight.size() ? tables_.weight[example] : 1.0f);
    total += vote;
    const auto end = static_cast<std::size_t>(tables_.label_begin[example + 1]);
    for (auto s = static_cast<std::size_t>(tables_.label_begin[example]); s < end; ++s) {
      const std::int64_t label = tables_.label[s];
      if (label < 0 || label >= n_labels) continue;  // of a damaged model
      if (slot[label]) votes[slot[label] - 1] += vote;
    }
  }
  for (std::size_t i = 0; i < n_places; ++i) votes[i] = std::log(kUnvoted + votes[i] / total);
}

void near_example_votes(const NearExamples& examples, const CsrView& X, const CsrView& candidates, int n_threads,
                        float* votes) {
  struct Room {
    ExampleRoom examples;
    std::vector<std::uint16_t> slot;
  };
  constexpr std::int64_t most = std::numeric_limits<std::uint16_t>::max();
  Lender<Room> rooms;
  parallel_ranges(X.n_rows, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    rooms.lend([&](Room& room) {
      room.slot.resize(static_cast<std::size_t>(candidates.n_columns), 0);
      for (std::int64_t r = begin; r < end; ++r) {
        const SparseRow row{X.indices + X.indptr[r], X.data + X.indptr[r], X.indptr[r + 1] - X.indptr[r]};
        for (std::int64_t t = candidates.indptr[r]; t < candidates.indptr[r + 1]; t += most) {
          const std::int64_t count = std::min(candidates.indptr[r + 1] - t, most);
          for (std::int64_t i = 0; i < count; ++i) {
            room.slot[static_cast<std::size_t>(candidates.indices[t + i])] = static_cast<std::uint16_t>(i + 1);
          }
          examples.vote(row, room.slot.data(), candidates.n_columns, static_cast<std::size_t>(count), room.examples,
                        votes + t);
          for (std::int64_t i = 0; i < count; ++i) room.slot[static_cast<std::size_t>(candidates.indices[t + i])] = 0;
        }
      }
    });
  });
}

}  // namespace labelprism
