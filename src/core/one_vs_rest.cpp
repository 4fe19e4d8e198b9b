#include "one_vs_rest.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "example_rows.hpp"
#include "large_vector.hpp"
#include "node_rows.hpp"
#include "ordered_set.hpp"
#include "thread_pool.hpp"

namespace labelprism {
namespace {

// Where the bias starts, and what it is drawn to: nearly all labels are wrong for an example. So negatives that share
// nothing with the positives are right from the start and never moved, which halves the time.
constexpr float kPriorBias = -1;
// The bias is the weight of a feature that all examples have, whose value is the root of this. It ties every example to
// every other: the larger, the more passes are needed; the smaller, the more other weights have to do what it is for.
constexpr float kBiasSquare = 0.3f;
constexpr float kShrinkGradient = 0.2f;
constexpr float kInactive = std::numeric_limits<float>::max();
constexpr std::int64_t kRowsPerTask = 256;
constexpr std::int64_t kAhead = 8;
constexpr std::size_t kExampleAhead = 4, kEntriesAhead = 2;  // in the order of a pass
constexpr float kMostPasses = 1e9f;                          // an int holds it
constexpr int kClusterPasses = 3;
constexpr std::int64_t kExamplesPerTask = 1 << 12;
constexpr std::int64_t kMostSharedEntries = 1 << 20;  // 8 MB
constexpr std::int64_t kFewFeatures = 4096;           // their weights lie in the nearest cache

// A small generator (splitmix64): the order of the examples needs to be irregular, not unpredictable.
struct Random {
  std::uint64_t state;
  std::uint32_t next() {
    std::uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 32);
  }
  std::uint32_t below(std::uint32_t n) {
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(next()) * n) >> 32);
  }
};

struct Example {
  std::uint32_t begin, end;  // its entries, or features
  float value;               // of all of these
  float target;              // +1 or -1
  float diagonal;            // 1 / (2 C_i), which the squared hinge adds to the diagonal of the dual
  float curvature;           // |x|^2 + kBiasSquare + diagonal
  float alpha;
};

// The rows that all labels learn from.
struct TrainingRows {
  const CsrView& X;
  const std::vector<float> squares;  // |x|^2
  SharedRows shared;
  EqualRows equal;
};

// The problem of one label. Its features are numbered anew, and its entries copied, so that all of it lies close
// together, unless rows are shared, or values of each of its rows equal.
struct LabelProblem {
  std::vector<std::int32_t> place;     // the local number of a feature, or -1
  LargeVector<std::int32_t> features;  // `n_features` of them, and room for all and one more
  std::int32_t n_features = 0;
  bool has_all_features = false;  // each by its own number
  LargeVector<RowEntry> own_entries;
  std::uint32_t n_entries = 0;
  const RowEntry* entries = nullptr;              // its own, or those of all rows,
  const std::uint16_t* equal_features = nullptr;  // or features of rows of equal values
  LargeVector<Example> examples;                  // held-out ones last
  LargeVector<std::int32_t> rows;
  LargeVector<std::uint32_t> order;
  OrderedSet kept;  // features of weights
  std::vector<float> weights;
  float bias = 0;
  float cost_of_positive = 1, cost_of_negative = 1;
  int max_passes = 0;
  std::size_t n_seen = 0;  // examples that are not held out

  void load(const TrainingRows& training, const LabelExamples& all, std::int64_t label, const std::uint8_t* held_out,
            const float* row_weight, const OneVsRestStart* start, const OneVsRestSettings& settings) {
    const CsrView& X = training.X;
    const std::vector<float>& squares = training.squares;
    const SharedRows& shared = training.shared;
    const EqualRows& equal = training.equal;
    const std::int64_t place_of_label = label - all.first_label;
    const std::int64_t begin = all.indptr[place_of_label], end = all.indptr[place_of_label + 1];
    // By the rows of the label alone: it must get the same bits in every shard, whose rows may be some of all.
    const bool is_equal = equal.holds_rows() && std::all_of(all.rows.begin() + begin, all.rows.begin() + end,
                                                            [&](std::int32_t row) { return equal.is_equal[row] != 0; });
    const bool is_copied = !is_equal && !shared.holds_rows();
    number_features(X.n_columns, is_copied);
    examples.clear();
    rows.clear();
    set_costs(std::count(all.positive.begin() + begin, all.positive.begin() + end, 1), label, settings);
    if (is_copied) make_room(X, all, begin, end);
    const auto& all_begin = is_equal ? equal.begin : shared.begin;
    const auto take = [&](std::int64_t t) {
      const std::int32_t row = all.rows[t];
      Example example{};
      example.target = all.positive[t] ? 1.0f : -1.0f;
      const float cost = all.positive[t] ? cost_of_positive : cost_of_negative;
      example.diagonal = 0.5f / (cost * (row_weight ? row_weight[row] : 1));
      example.curvature = squares[row] + kBiasSquare + example.diagonal;
      example.value = is_equal && X.indptr[row] < X.indptr[row + 1] ? X.data[X.indptr[row]] : 0.0f;
      example.begin = is_copied ? n_entries : all_begin[row];
      example.end = is_copied ? append(X, row) : all_begin[row + 1];
      examples.push_back(example);
      rows.push_back(row);
    };
    for (std::int64_t t = begin; t < end; ++t) {
      // Rows lie anywhere in the matrix: those that come soon are asked for early.
      if (t + kAhead < end) {
        __builtin_prefetch(X.indices + X.indptr[all.rows[t + kAhead]]);
        __builtin_prefetch(X.data + X.indptr[all.rows[t + kAhead]]);
        __builtin_prefetch(squares.data() + all.rows[t + kAhead]);
      }
      if (!held_out || !held_out[all.rows[t]]) take(t);
    }
    n_seen = examples.size();
    for (std::int64_t t = begin; held_out && t < end; ++t) {
      if (held_out[all.rows[t]]) take(t);
    }
    entries = is_copied ? own_entries.data() : shared.entries.data();
    equal_features = is_equal ? equal.features.data() : nullptr;
    weights.assign(static_cast<std::size_t>(n_features) + 1, 0.0f);  // with that of a spare feature
    bias = kPriorBias;
    if (start) begin_at(*start, label);
  }

  void set_costs(std::ptrdiff_t n_positives, std::int64_t label, const OneVsRestSettings& settings) {
    const float rarity = settings.rare_examples / static_cast<float>(std::max<std::ptrdiff_t>(n_positives, 1));
    cost_of_negative = settings.cost * (1 + rarity);
    cost_of_positive = cost_of_negative * (1 + settings.positive_weight * rarity);
    const int passes = label < settings.first_cluster ? settings.passes : std::min(settings.passes, kClusterPasses);
    max_passes = static_cast<int>(std::min(static_cast<float>(passes) * (1 + rarity), kMostPasses));
  }

  void number_features(std::int64_t n_columns, bool anew) {
    if (features.empty()) {
      place.assign(static_cast<std::size_t>(n_columns), -1);
      features.resize(place.size() + 1);
      kept.make_room(n_columns);
    }
    if (!anew && has_all_features) return;
    for (std::int32_t j = 0; j < n_features; ++j) place[features[j]] = -1;
    n_features = anew ? 0 : static_cast<std::int32_t>(n_columns);
    for (std::int32_t j = 0; j < n_features; ++j) place[j] = features[j] = j;
    has_all_features = !anew;
  }

  void begin_at(const OneVsRestStart& start, std::int64_t label) {
    for (std::int64_t t = start.weights.indptr[label]; t < start.weights.indptr[label + 1]; ++t) {
      const std::int32_t feature = start.weights.indices[t];
      if (place[feature] < 0) {
        place[feature] = n_features;
        features[n_features++] = feature;
        weights.push_back(0.0f);
      }
      weights[static_cast<std::size_t>(place[feature])] += start.weights.data[t];
    }
    bias = start.bias[label];
  }

  void make_room(const CsrView& X, const LabelExamples& all, std::int64_t begin, std::int64_t end) {
    std::int64_t size = 0;
    for (std::int64_t t = begin; t < end; ++t) {
      size += (X.indptr[all.rows[t] + 1] - X.indptr[all.rows[t]] + kEntries - 1) / kEntries * kEntries;
    }
    if (size > std::numeric_limits<std::uint32_t>::max()) {
      throw std::length_error(
          "the examples of a label have over 4,294,967,295 stored values; ask for fewer candidates");
    }
    own_entries.resize(static_cast<std::size_t>(size));
    n_entries = 0;
  }

  // Copies the entries of a row, and returns where they end. Not inlined: in the midst of all else the compiler would
  // keep what its loop needs in memory.
  [[gnu::noinline]] std::uint32_t append(const CsrView& X, std::int32_t row) {
    RowEntry* entry = own_entries.data() + n_entries;
    std::int32_t *const places = place.data(), *const noted = features.data(), count = n_features;
    const std::int32_t* const indices = X.indices;
    const float* const values = X.data;
    for (std::int64_t t = X.indptr[row], last = X.indptr[row + 1]; t < last; ++t) {
      // Noted in any case, and kept if it is new, which cannot be foretold: that needs no jump.
      const std::int32_t feature = indices[t], known = places[feature], local = known < 0 ? count : known;
      noted[count] = feature;
      places[feature] = local;
      count += known < 0;
      *entry++ = {static_cast<std::uint32_t>(local), values[t]};
    }
    n_features = count;
    while ((entry - own_entries.data()) % kEntries != 0) *entry++ = {0, 0.0f};
    return n_entries = static_cast<std::uint32_t>(entry - own_entries.data());
  }

  float margin(const Example& example) const {
    const float* w = weights.data();
    if (!equal_features) return row_product(w, entries + example.begin, entries + example.end, bias);
    return bias + example.value * row_sum(w, equal_features + example.begin, equal_features + example.end);
  }

  void move(Example& example, float alpha) {
    const float step = (alpha - example.alpha) * example.target;
    example.alpha = alpha;
    float* w = weights.data();
    if (equal_features) {
      add_to_row(w, equal_features + example.begin, equal_features + example.end, step * example.value);
      w[n_features] = 0;  // the spare feature's
    } else {
      add_row(w, entries + example.begin, entries + example.end, step);
    }
    bias += kBiasSquare * step;
  }

  // One step for an example; returns its projected gradient, or `kInactive` if it rests at 0, far from mattering.
  float improve(Example& example) {
    const float gradient = example.target * margin(example) - 1 + example.alpha * example.diagonal;
    if (example.alpha == 0 && gradient >= 0) return gradient > kShrinkGradient ? kInactive : 0.0f;
    move(example, std::max(example.alpha - gradient / example.curvature, 0.0f));
    return gradient;
  }

  // Examples and their entries lie anywhere in the cache: those that come soon are asked for early.
  void ask_for(std::size_t s) const {
    if (s + kExampleAhead < order.size()) __builtin_prefetch(&examples[order[s + kExampleAhead]]);
    if (s + kEntriesAhead >= order.size()) return;
    const Example& next = examples[order[s + kEntriesAhead]];
    const std::size_t size = equal_features ? sizeof(std::uint16_t) : sizeof(RowEntry);
    const char* const rows_begin =
        equal_features ? reinterpret_cast<const char*>(equal_features) : reinterpret_cast<const char*>(entries);
    for (const char* at = rows_begin + next.begin * size; at < rows_begin + next.end * size; at += kLineBytes) {
      __builtin_prefetch(at);
    }
  }

  void shuffle(std::size_t first, Random& random) {
    for (std::size_t s = first; s + 1 < order.size(); ++s) {
      std::swap(order[s], order[s + random.below(static_cast<std::uint32_t>(order.size() - s))]);
    }
  }

  // Dual coordinate descent over the examples in `order`, from the present solution, for at most `passes` passes, whose
  // number is returned. Examples that rest at 0 leave the order; the caller may look at them again.
  int descend(float tolerance, int passes, Random& random) {
    for (int pass = 0; pass < passes; ++pass) {
      // A new order for every pass: in the same one again, those that come last would have the last word each time.
      if (pass > 0) shuffle(0, random);
      float highest = 0, lowest = 0;
      std::size_t kept = 0;
      for (std::size_t s = 0; s < order.size(); ++s) {
        ask_for(s);
        const float projected = improve(examples[order[s]]);
        if (projected == kInactive) continue;
        highest = std::max(highest, projected);
        lowest = std::min(lowest, projected);
        order[kept++] = order[s];
      }
      order.resize(kept);
      if (highest - lowest <= tolerance) return pass + 1;
    }
    return passes;
  }

  // From the start. In the first pass positives come first, so that most negatives are never moved.
  void solve_seen(float tolerance, Random& random) {
    order.clear();
    for (std::uint32_t i = 0; i < n_seen; ++i) {
      if (examples[i].target > 0) order.push_back(i);
    }
    shuffle(0, random);
    const std::size_t n_positives = order.size();
    for (std::uint32_t i = 0; i < n_seen; ++i) {
      if (examples[i].target < 0) order.push_back(i);
    }
    shuffle(n_positives, random);
    int used = descend(tolerance, 1, random);
    // Then all of them again and again, until a pass over all finds nothing to do; those that rest are left out in
    // between. In a drawn order: rows often lie sorted, and from so far the last of many alike would have their way.
    for (int last = 0; used < max_passes && last != 1; used += last) {
      order.resize(n_seen);
      std::iota(order.begin(), order.end(), 0u);
      shuffle(0, random);
      last = descend(tolerance, max_passes - used, random);
    }
  }

  // Goes on with the held-out examples and those that matter already: no first pass is needed from so near.
  void solve_all(float tolerance, Random& random) {
    order.clear();
    for (std::uint32_t i = 0; i < examples.size(); ++i) {
      if (i >= n_seen || examples[i].alpha > 0) order.push_back(i);
    }
    shuffle(0, random);  // or held-out examples would have the last word
    descend(tolerance, std::max(max_passes - 1, 1), random);
  }
};

void write_weights(LabelProblem& problem, float drop, GrowingCsr& weights) {
  const float* const values = problem.weights.data();
  const std::int32_t *const features = problem.features.data(), *const places = problem.place.data();
  for (std::int32_t j = 0, count = problem.n_features; j < count; ++j) {
    if (std::fabs(values[j]) > drop) problem.kept.insert(features[j]);
  }
  problem.kept.empty(
      [&](std::int64_t feature) { weights.push(static_cast<std::int32_t>(feature), values[places[feature]]); });
  weights.end_row();
}

void fit_label(std::int64_t label, bool has_start, const OneVsRestSettings& settings, LabelProblem& problem,
               GrowingCsr& noted) {
  const auto is_positive = [](const Example& example) { return example.target > 0; };
  const auto first = problem.examples.begin(), seen_end = first + static_cast<std::ptrdiff_t>(problem.n_seen);
  const bool starts = has_start || std::any_of(first, seen_end, is_positive);
  // A few held-out negatives more would change next to nothing; going on for them took a fifth of all time. A label
  // that only held-out examples have is, in the recipe, a candidate of none that were seen: without negatives its
  // classifier would say yes to all that is a little like them, and push better labels aside.
  const bool goes_on = starts && std::any_of(seen_end, problem.examples.end(), is_positive);
  Random random{settings.seed ^ (static_cast<std::uint64_t>(label) * 0xD1342543DE82EF95u)};
  if (starts) problem.solve_seen(settings.tolerance, random);
  for (std::size_t i = problem.n_seen; i < problem.examples.size(); ++i) {
    noted.push(problem.rows[i], problem.margin(problem.examples[i]));
  }
  noted.end_row();
  if (goes_on) problem.solve_all(settings.tolerance, random);
}

// |x|^2 of every row: a row is an example of many labels.
std::vector<float> squares_of(const CsrView& X, int n_threads) {
  std::vector<float> squares(static_cast<std::size_t>(X.n_rows), 0.0f);
  parallel_ranges(X.n_rows, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float& square = squares[static_cast<std::size_t>(row)];
      for (std::int64_t t = X.indptr[row]; t < X.indptr[row + 1]; ++t) square += X.data[t] * X.data[t];
    }
  });
  return squares;
}

// Shares rows among all labels, if that is worth it. Copies lie closer together, and have no features but a label's
// own, all of whose weights are set to 0 and looked through in the end: these must be few.
void share_rows(const LabelExamples& examples, TrainingRows& training) {
  const CsrView& X = training.X;
  if (X.n_columns <= kFewFeatures) training.equal.load(X);
  if (training.equal.holds_all_rows()) return;
  const std::int64_t n_entries = X.indptr[X.n_rows];
  const double per_row = static_cast<double>(n_entries) / std::max(static_cast<double>(X.n_rows), 1.0);
  const double copied = per_row * static_cast<double>(examples.rows.size());
  const double looked_through = static_cast<double>(examples.n_labels) * static_cast<double>(X.n_columns);
  if (n_entries <= kMostSharedEntries && copied > 4 * looked_through) training.shared.load(X);
}

// Ends of tasks of about equal work; by the problem alone, so that results do not depend on the number of threads.
std::vector<std::int64_t> task_ends(const LabelExamples& examples) {
  std::vector<std::int64_t> ends;
  std::int64_t begin = 0;
  for (std::int64_t place = 0; place < examples.n_labels; ++place) {
    if (place + 1 == examples.n_labels || examples.indptr[place + 1] - begin >= kExamplesPerTask) {
      ends.push_back(place + 1);
      begin = examples.indptr[place + 1];
    }
  }
  return ends;
}

}  // namespace

LabelExamples examples_by_label(const CsrView& candidates, const CsrView& Y, LabelRange range, int n_threads) {
  LabelExamples examples;
  examples.first_label = range.first;
  examples.n_labels = range.end - range.first;
  const auto within = [&](const CsrView& matrix, std::int64_t row) {
    const std::int32_t* begin = matrix.indices + matrix.indptr[row];
    const std::int32_t* end = matrix.indices + matrix.indptr[row + 1];
    begin = std::lower_bound(begin, end, range.first);
    return std::pair(begin, std::lower_bound(begin, end, range.end));
  };
  // Blocks of rows have a count of each label, which must not take more memory than a byte of each entry does.
  const std::int64_t n_rows = Y.n_rows, n_entries = Y.indptr[n_rows] + candidates.indptr[n_rows];
  const std::int64_t n_blocks =
      std::clamp<std::int64_t>(n_entries / (8 * examples.n_labels + 1), 1, std::max(n_threads, 1));
  std::vector<std::vector<std::int64_t>> place_of(static_cast<std::size_t>(n_blocks));  // of a block's next example
  // Two merges of the sorted rows: the first counts, the second fills.
  const auto merge = [&](const auto& visit) {
    parallel_for(n_blocks, n_threads, [&](std::int64_t block) {
      std::vector<std::int64_t>& places = place_of[static_cast<std::size_t>(block)];
      places.resize(static_cast<std::size_t>(examples.n_labels), 0);
      for (std::int64_t row = n_rows * block / n_blocks; row < n_rows * (block + 1) / n_blocks; ++row) {
        auto [s, s_end] = within(candidates, row);
        auto [t, t_end] = within(Y, row);
        while (s < s_end || t < t_end) {
          const bool own = t < t_end && (s == s_end || *t <= *s);
          const std::int32_t label = own ? *t : *s;
          visit(row, places[static_cast<std::size_t>(label - range.first)]++, own);
          while (s < s_end && *s == label) ++s;
          while (t < t_end && *t == label) ++t;
        }
      }
    });
  };
  merge([](std::int64_t, std::int64_t, bool) {});
  examples.indptr.assign(1, 0);
  std::int64_t next = 0;
  for (std::size_t label = 0; label < static_cast<std::size_t>(examples.n_labels); ++label) {
    for (std::vector<std::int64_t>& places : place_of) next += std::exchange(places[label], next);
    examples.indptr.push_back(next);
  }
  examples.rows.resize(static_cast<std::size_t>(next));
  examples.positive.resize(examples.rows.size());
  merge([&](std::int64_t row, std::int64_t at, bool own) {
    examples.rows[at] = static_cast<std::int32_t>(row);
    examples.positive[at] = own;
  });
  return examples;
}

void fit_one_vs_rest(const CsrView& X, const LabelExamples& examples, const std::uint8_t* held_out,
                     const float* row_weight, const OneVsRestStart* start, const OneVsRestSettings& settings,
                     int n_threads, Counter* counter, OneVsRestModel& model) {
  const std::vector<std::int64_t> ends = task_ends(examples);
  TrainingRows training{X, squares_of(X, n_threads), {}, {}};
  share_rows(examples, training);
  std::vector<GrowingCsr> weights(ends.size()), noted(ends.size());
  model.bias.assign(static_cast<std::size_t>(examples.n_labels), 0.0f);
  Lender<LabelProblem> problems;
  parallel_for(static_cast<std::int64_t>(ends.size()), n_threads, [&](std::int64_t task) {
    problems.lend([&](LabelProblem& problem) {
      for (std::int64_t place = task == 0 ? 0 : ends[task - 1]; place < ends[task]; ++place) {
        const std::int64_t label = examples.first_label + place;
        problem.load(training, examples, label, held_out, row_weight, start, settings);
        fit_label(label, start != nullptr, settings, problem, noted[task]);
        write_weights(problem, settings.drop, weights[task]);
        model.bias[place] = problem.bias;
        advance(counter, 1);
      }
    });
  });
  model.weights.join(weights, n_threads);
  model.held_out.join(noted);
}

void candidate_scores(const CsrView& X, const CsrView& weights, const float* bias, const CsrView& candidates,
                      int n_threads, float* scores) {
  parallel_ranges(X.n_rows, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> sums(static_cast<std::size_t>(weights.n_columns), 0.0f);
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t t = X.indptr[row]; t < X.indptr[row + 1]; ++t) {
        const std::int32_t feature = X.indices[t];
        for (std::int64_t s = weights.indptr[feature]; s < weights.indptr[feature + 1]; ++s) {
          sums[weights.indices[s]] += X.data[t] * weights.data[s];
        }
      }
      for (std::int64_t t = candidates.indptr[row]; t < candidates.indptr[row + 1]; ++t) {
        scores[t] = sums[candidates.indices[t]] + bias[candidates.indices[t]];
      }
      for (std::int64_t t = X.indptr[row]; t < X.indptr[row + 1]; ++t) {
        const std::int32_t feature = X.indices[t];
        for (std::int64_t s = weights.indptr[feature]; s < weights.indptr[feature + 1]; ++s) {
          sums[weights.indices[s]] = 0;
        }
      }
    }
  });
}

}  // namespace labelprism
