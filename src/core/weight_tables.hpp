// The weights of heads while they are trained: a row of weights for every unit, a unit being a label or a candidate of
// a leaf. Units learn by steps of their own: their momentum moves on when they are candidates, and rests otherwise.
//
//   m <- momentum * m + gradient,   w <- w - rate * m
//
// Rows of X that are sparse touch few of a unit's weights, yet momentum would move all of them in every step. The
// tables for sparse rows therefore keep  v = m / momentum^t  and  u = w + c v  with  c = sum over the steps of
// rate * momentum^t: then a step changes only those entries that have a gradient,
//
//   v <- v + gradient / momentum^t,   u <- u + c (before the step) * gradient / momentum^t,
//
// and w = u - c v. As momentum^t falls, v grows; before float32 feels it, a unit is folded: u becomes w, v becomes what
// is left of m in the next step, and t begins anew at 0.
//
// All tables have the same functions, so that one trainer serves them all:
//   dot(unit, shift, row)         w . x, with the weights of x's feature j found at shift + j
//   begin(unit, step)             begins a step of a unit, which add() and end() complete
//   add(unit, shift, row, g)      adds g * x to the gradient
//   end(unit, step)
//   prefetch(unit, shift, row)    asks for the weights of x early: weights of sparse rows lie all over the memory
//   shrink(unit, step, threshold) w <- w * max(0, 1 - threshold / |w|), after end(): the proximal step of a group norm
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "csr.hpp"
#include "large_vector.hpp"

namespace labelprism {

struct DenseRow {
  const float* data;
};

struct Rate {
  float rate;
  float momentum;
};

// u and v of one weight.
struct Pair {
  float u;
  float v;
};

// Where a unit of a table of pairs is in its steps.
struct PairClock {
  float power = 0;  // momentum^t; 0 before the first step since the last fold
  float c = 0;
  float c_before = 0;

  static constexpr float kSmallest = 1e-3f;
  bool must_fold(const Rate& step) const { return power != 0 && power * step.momentum < kSmallest; }
  void tick(const Rate& step) {
    power = power == 0 ? 1 : power * step.momentum;
    c_before = c;
    c += step.rate * power;
  }
  float weight(const Pair& pair) const { return pair.u - c * pair.v; }
  void fold(Pair& pair, const Rate& step) const {
    pair.u = weight(pair);
    if (power != 0) pair.v *= power * step.momentum;
  }
};

// A table with a place for every (unit, feature): [unit][width]. Memory is taken from the system when it is first used.
class DensePairs {
 public:
  using Row = SparseRow;

  DensePairs(std::int64_t n_units, std::int64_t width) : width_(width), clocks_(static_cast<std::size_t>(n_units)) {
    const std::size_t count = static_cast<std::size_t>(n_units) * static_cast<std::size_t>(width);
    pairs_.reset(static_cast<Pair*>(std::calloc(count ? count : 1, sizeof(Pair))));
    if (!pairs_) throw std::bad_alloc();
  }

  std::int64_t n_units() const { return static_cast<std::int64_t>(clocks_.size()); }
  std::int64_t width() const { return width_; }

  float dot(std::int64_t unit, std::int64_t shift, const SparseRow& row) const {
    const Pair* pairs = pairs_.get() + unit * width_ + shift;
    float u = 0, v = 0;
    for (std::int64_t t = 0; t < row.count; ++t) {
      const Pair pair = pairs[row.features[t]];
      u += pair.u * row.values[t];
      v += pair.v * row.values[t];
    }
    return u - clocks_[static_cast<std::size_t>(unit)].c * v;
  }

  void prefetch(std::int64_t unit, std::int64_t shift, const SparseRow& row) const {
    const Pair* pairs = pairs_.get() + unit * width_ + shift;
    for (std::int64_t t = 0; t < row.count; ++t) __builtin_prefetch(pairs + row.features[t], 1);
  }

  void begin(std::int64_t unit, const Rate& step) {
    PairClock& clock = clocks_[static_cast<std::size_t>(unit)];
    if (clock.must_fold(step)) fold(unit, step);
    clock.tick(step);
  }

  void add(std::int64_t unit, std::int64_t shift, const SparseRow& row, float gradient) {
    const PairClock& clock = clocks_[static_cast<std::size_t>(unit)];
    Pair* pairs = pairs_.get() + unit * width_ + shift;
    const float v = gradient / clock.power, u = clock.c_before * v;
    for (std::int64_t t = 0; t < row.count; ++t) {
      Pair& pair = pairs[row.features[t]];
      pair.u += u * row.values[t];
      pair.v += v * row.values[t];
    }
  }

  void end(std::int64_t, const Rate&) {}

  void shrink(std::int64_t unit, const Rate& step, float threshold) {
    fold(unit, step);
    Pair* pairs = pairs_.get() + unit * width_;
    float square = 0;
    for (std::int64_t j = 0; j < width_; ++j) square += pairs[j].u * pairs[j].u;
    const float scale = square > threshold * threshold ? 1 - threshold / std::sqrt(square) : 0;
    for (std::int64_t j = 0; j < width_; ++j) {
      pairs[j].u *= scale;
      if (scale == 0) pairs[j].v = 0;
    }
  }

  // For tiles (visit_tile.hpp), which take a unit's weights with them for several steps.
  Pair* row(std::int64_t unit) { return pairs_.get() + unit * width_; }
  PairClock& clock(std::int64_t unit) { return clocks_[static_cast<std::size_t>(unit)]; }
  void fold_before(std::int64_t unit, const Rate& step, std::int64_t n_steps) {
    const float power = clock(unit).power * std::pow(step.momentum, static_cast<float>(n_steps));
    if (clock(unit).power != 0 && power < PairClock::kSmallest) fold(unit, step);
  }
  static std::int64_t steps_without_fold(const Rate& step) {
    return 1 +
           static_cast<std::int64_t>(step.momentum > 0 ? std::log(PairClock::kSmallest) / std::log(step.momentum) : 0);
  }

  // The weights of a unit; `out` has room for `width` floats.
  void copy(std::int64_t unit, float* out) const {
    const Pair* pairs = pairs_.get() + unit * width_;
    for (std::int64_t j = 0; j < width_; ++j) out[j] = clocks_[static_cast<std::size_t>(unit)].weight(pairs[j]);
  }

  // Lets a unit begin with weights, `width` of them.
  void start(std::int64_t unit, const float* weights) {
    Pair* pairs = pairs_.get() + unit * width_;
    for (std::int64_t j = 0; j < width_; ++j) pairs[j] = {weights[j], 0};
    clocks_[static_cast<std::size_t>(unit)] = PairClock();
  }

  // Gives the weights away as [unit][width] floats, to be freed with std::free; the table is empty then. They are
  // written over the pairs, so that nothing is held twice.
  float* release() {
    char* const bytes = reinterpret_cast<char*>(pairs_.get());
    for (std::int64_t unit = 0; unit < n_units(); ++unit) {
      for (std::int64_t j = 0; j < width_; ++j) {
        const float weight = clocks_[static_cast<std::size_t>(unit)].weight(pairs_[unit * width_ + j]);
        std::memcpy(bytes + static_cast<std::size_t>(unit * width_ + j) * sizeof(float), &weight, sizeof(float));
      }
    }
    const std::size_t size = static_cast<std::size_t>(n_units() * width_) * sizeof(float);
    void* const memory = std::realloc(pairs_.release(), size ? size : 1);
    clocks_.clear();
    return static_cast<float*>(memory);
  }

 private:
  void fold(std::int64_t unit, const Rate& step) {
    PairClock& clock = clocks_[static_cast<std::size_t>(unit)];
    Pair* pairs = pairs_.get() + unit * width_;
    for (std::int64_t j = 0; j < width_; ++j) clock.fold(pairs[j], step);
    clock = PairClock();
  }

  struct Free {
    void operator()(Pair* memory) const { std::free(memory); }
  };
  std::int64_t width_;
  std::unique_ptr<Pair[], Free> pairs_;
  std::vector<PairClock> clocks_;
};

// Memory for many small tables that grow, in large pages: tables of their own, all over the memory, miss the table of
// page addresses at nearly every access. Sizes are powers of two; what is given back is used again for the same size.
template <class T>
class Pool {
 public:
  T* allocate(int log_size) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<T*>& free = free_[log_size];
    if (!free.empty()) {
      T* const memory = free.back();
      free.pop_back();
      return memory;
    }
    const std::size_t size = std::size_t{1} << log_size;
    if (slabs_.empty() || slabs_.back().size() - used_ < size) {
      slabs_.emplace_back();
      slabs_.back().resize(std::max(size, kSlab));
      used_ = 0;
    }
    used_ += size;
    return slabs_.back().data() + (used_ - size);
  }
  void release(T* memory, int log_size) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_[log_size].push_back(memory);
  }

 private:
  static constexpr std::size_t kSlab = std::size_t{1} << 21;
  std::mutex mutex_;
  std::vector<LargeVector<T>> slabs_;
  std::size_t used_ = 0;
  std::array<std::vector<T*>, 40> free_;
};

// A table that has only those weights that training touched: every unit is a small hash table of its own.
class TouchedPairs {
 public:
  using Row = SparseRow;

  struct Entry {
    std::int32_t feature;  // -1: free
    Pair pair;
  };

  TouchedPairs(std::int64_t n_units, std::int64_t width)
      : width_(width), units_(static_cast<std::size_t>(n_units)), pool_(std::make_unique<Pool<Entry>>()) {}

  std::int64_t n_units() const { return static_cast<std::int64_t>(units_.size()); }
  std::int64_t width() const { return width_; }

  float dot(std::int64_t unit, std::int64_t shift, const SparseRow& row) const {
    const Unit& weights = units_[static_cast<std::size_t>(unit)];
    if (weights.count == 0) return 0;
    float u = 0, v = 0;
    for (std::int64_t t = 0; t < row.count; ++t) {
      const Entry* entry = weights.find(static_cast<std::int32_t>(shift + row.features[t]));
      if (entry->feature < 0) continue;
      u += entry->pair.u * row.values[t];
      v += entry->pair.v * row.values[t];
    }
    return u - weights.clock.c * v;
  }

  void prefetch(std::int64_t unit, std::int64_t shift, const SparseRow& row) const {
    const Unit& weights = units_[static_cast<std::size_t>(unit)];
    if (weights.count == 0) return;
    for (std::int64_t t = 0; t < row.count; ++t) {
      __builtin_prefetch(weights.entries + weights.home(static_cast<std::int32_t>(shift + row.features[t])), 1);
    }
  }

  void begin(std::int64_t unit, const Rate& step) {
    Unit& weights = units_[static_cast<std::size_t>(unit)];
    if (weights.clock.must_fold(step)) weights.fold(step);
    weights.clock.tick(step);
  }

  void add(std::int64_t unit, std::int64_t shift, const SparseRow& row, float gradient) {
    Unit& weights = units_[static_cast<std::size_t>(unit)];
    reserve(weights, static_cast<std::size_t>(row.count));
    const float v = gradient / weights.clock.power, u = weights.clock.c_before * v;
    for (std::int64_t t = 0; t < row.count; ++t) {
      Entry* entry = weights.find(static_cast<std::int32_t>(shift + row.features[t]));
      if (entry->feature < 0) {
        entry->feature = static_cast<std::int32_t>(shift + row.features[t]);
        ++weights.count;
      }
      entry->pair.u += u * row.values[t];
      entry->pair.v += v * row.values[t];
    }
  }

  void end(std::int64_t, const Rate&) {}

  void shrink(std::int64_t unit, const Rate& step, float threshold) {
    Unit& weights = units_[static_cast<std::size_t>(unit)];
    weights.fold(step);
    float square = 0;
    weights.each([&](Entry& entry) { square += entry.pair.u * entry.pair.u; });
    if (square <= threshold * threshold) {
      clear(unit);  // a group at zero takes no memory
      return;
    }
    const float scale = 1 - threshold / std::sqrt(square);
    weights.each([&](Entry& entry) { entry.pair.u *= scale; });
  }

  // Calls use(feature, weight) for the weights of a unit, in no order of interest.
  template <class Use>
  void each(std::int64_t unit, const Use& use) const {
    const Unit& weights = units_[static_cast<std::size_t>(unit)];
    weights.each([&](const Entry& entry) { use(entry.feature, weights.clock.weight(entry.pair)); });
  }

  // Lets a unit begin with weights.
  void start(std::int64_t unit, const SparseRow& row) {
    clear(unit);
    Unit& weights = units_[static_cast<std::size_t>(unit)];
    reserve(weights, static_cast<std::size_t>(row.count));
    for (std::int64_t t = 0; t < row.count; ++t) {
      Entry* entry = weights.find(row.features[t]);
      if (entry->feature < 0) ++weights.count;
      *entry = {row.features[t], {row.values[t], 0}};
    }
  }

  void clear(std::int64_t unit) {
    Unit& weights = units_[static_cast<std::size_t>(unit)];
    if (weights.entries != nullptr) pool_->release(weights.entries, weights.log_size);
    weights = Unit();
  }

 private:
  struct Unit {
    Entry* entries = nullptr;  // 2^log_size of them, or none
    int log_size = 0;
    std::uint32_t count = 0;
    PairClock clock;

    std::size_t size() const { return entries == nullptr ? 0 : std::size_t{1} << log_size; }

    // Where the search for a feature begins.
    std::size_t home(std::int32_t feature) const {
      return static_cast<std::size_t>(static_cast<std::uint32_t>(feature) * 0x9E3779B1u >> 1 >> (31 - log_size));
    }

    // The place of a feature, or the free one where it would be. There is always a free one.
    Entry* find(std::int32_t feature) const {
      const std::size_t mask = size() - 1;
      std::size_t at = home(feature);
      while (entries[at].feature >= 0 && entries[at].feature != feature) at = (at + 1) & mask;
      return entries + at;
    }

    template <class Use>
    void each(const Use& use) const {
      for (std::size_t i = 0; i < size(); ++i) {
        if (entries[i].feature >= 0) use(entries[i]);
      }
    }

    void fold(const Rate& step) {
      each([&](Entry& entry) { clock.fold(entry.pair, step); });
      clock = PairClock();
    }
  };

  // Makes sure that so many more features find a place in a unit, and that one place stays free.
  void reserve(Unit& weights, std::size_t more) {
    if (weights.entries != nullptr && 4 * (weights.count + more) <= 3 * weights.size()) return;
    Unit grown = weights;
    grown.log_size = std::max(weights.log_size, 4);
    while (4 * (weights.count + more) > (std::size_t{3} << grown.log_size)) ++grown.log_size;
    grown.entries = pool_->allocate(grown.log_size);
    std::fill_n(grown.entries, grown.size(), Entry{-1, {0, 0}});
    weights.each([&](const Entry& entry) { *grown.find(entry.feature) = entry; });
    if (weights.entries != nullptr) pool_->release(weights.entries, weights.log_size);
    weights = grown;
  }

  std::int64_t width_;
  std::vector<Unit> units_;
  std::unique_ptr<Pool<Entry>> pool_;
};

// A table for dense rows, which touch every weight: w and m as they are. Rows and units are padded to `width`, a
// multiple of 8, with zeros.
class DenseWeights {
 public:
  using Row = DenseRow;

  // A unit may hold several vectors of `row_width` weights one after the other, which shifts tell apart.
  DenseWeights(std::int64_t n_units, std::int64_t width, std::int64_t row_width)
      : n_units_(n_units),
        width_(width),
        row_width_(row_width),
        weights_(static_cast<std::size_t>(n_units * width), 0.0f),
        momenta_(static_cast<std::size_t>(n_units * width), 0.0f) {}

  std::int64_t n_units() const { return n_units_; }
  std::int64_t width() const { return width_; }

  float dot(std::int64_t unit, std::int64_t shift, const DenseRow& row) const {
    const float* w = weights_.data() + unit * width_ + shift;
    Eight sums = {};
    for (std::int64_t j = 0; j < row_width_; j += 8) sums += lanes(w + j) * lanes(row.data + j);
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
  }

  void begin(std::int64_t unit, const Rate& step) {
    float* m = momenta_.data() + unit * width_;
    for (std::int64_t j = 0; j < width_; ++j) m[j] *= step.momentum;
  }

  void add(std::int64_t unit, std::int64_t shift, const DenseRow& row, float gradient) {
    float* m = momenta_.data() + unit * width_ + shift;
    for (std::int64_t j = 0; j < row_width_; j += 8) lanes(m + j) += gradient * lanes(row.data + j);
  }

  void prefetch(std::int64_t, std::int64_t, const DenseRow&) const {}

  void end(std::int64_t unit, const Rate& step) {
    float* w = weights_.data() + unit * width_;
    const float* m = momenta_.data() + unit * width_;
    for (std::int64_t j = 0; j < width_; ++j) w[j] -= step.rate * m[j];
  }

  void shrink(std::int64_t unit, const Rate&, float threshold) {
    float* w = weights_.data() + unit * width_;
    float square = 0;
    for (std::int64_t j = 0; j < width_; ++j) square += w[j] * w[j];
    const float scale = square > threshold * threshold ? 1 - threshold / std::sqrt(square) : 0;
    for (std::int64_t j = 0; j < width_; ++j) w[j] *= scale;
    if (scale == 0) std::fill_n(momenta_.data() + unit * width_, width_, 0.0f);
  }

  // out += g * w: the gradient of a row.
  void pull(std::int64_t unit, std::int64_t shift, float gradient, float* out) const {
    const float* w = weights_.data() + unit * width_ + shift;
    for (std::int64_t j = 0; j < row_width_; j += 8) lanes(out + j) += gradient * lanes(w + j);
  }

  // Lets a unit begin with weights, `width` of them.
  void start(std::int64_t unit, const float* weights) {
    std::memcpy(weights_.data() + unit * width_, weights, static_cast<std::size_t>(width_) * sizeof(float));
    std::fill_n(momenta_.data() + unit * width_, width_, 0.0f);
  }

  void copy(std::int64_t unit, float* out) const {
    std::memcpy(out, weights_.data() + unit * width_, static_cast<std::size_t>(width_) * sizeof(float));
  }

 private:
  typedef float Eight __attribute__((vector_size(32), aligned(4), may_alias));
  static Eight& lanes(float* at) { return *reinterpret_cast<Eight*>(at); }
  static const Eight& lanes(const float* at) { return *reinterpret_cast<const Eight*>(at); }

  std::int64_t n_units_;
  std::int64_t width_;
  std::int64_t row_width_;
  LargeVector<float> weights_;
  LargeVector<float> momenta_;
};

}  // namespace labelprism
