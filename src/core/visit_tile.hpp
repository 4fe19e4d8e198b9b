// The weights of eight units for the features of one visit, side by side: [feature][8].
//
// A visit's rows touch the same features of every candidate. Fetched once, eight candidates at a time, their weights
// stay in the cache for all rows, and eight scores are summed up in one register. The sums are those of DensePairs, in
// the same order.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "exp_lanes.hpp"
#include "weight_tables.hpp"

namespace labelprism {

constexpr int kTileUnits = 8;
using TileLanes = EightFloats;
static_assert(sizeof(TileLanes) == kTileUnits * sizeof(float));

// The features of a visit, numbered anew in ascending order.
class VisitFeatures {
 public:
  // The rows of the batches of a visit follow each other.
  template <class Rooms>
  void number(const Rooms& rooms, std::size_t n_batches, std::int64_t width) {
    if (static_cast<std::int64_t>(place_.size()) < width) place_.resize(static_cast<std::size_t>(width), -1);
    features_.clear();
    local_.clear();
    for (std::size_t b = 0; b < n_batches; ++b) {
      for (const SparseRow& row : rooms[b].rows) note(row);
    }
    std::sort(features_.begin(), features_.end());
    for (std::size_t i = 0; i < features_.size(); ++i) place_[features_[i]] = static_cast<std::int32_t>(i);
    for (std::size_t b = 0; b < n_batches; ++b) {
      for (const SparseRow& row : rooms[b].rows) {
        for (std::int64_t t = 0; t < row.count; ++t) local_.push_back(place_[row.features[t]]);
      }
    }
    for (const std::int32_t feature : features_) place_[feature] = -1;
  }

  const std::vector<std::int32_t>& features() const { return features_; }
  const std::int32_t* local() const { return local_.data(); }  // of all entries of all rows, in their order

 private:
  void note(const SparseRow& row) {
    for (std::int64_t t = 0; t < row.count; ++t) {
      if (place_[row.features[t]] >= 0) continue;
      place_[row.features[t]] = 0;
      features_.push_back(row.features[t]);
    }
  }

  std::vector<std::int32_t> place_;  // -1 for all features between two uses
  std::vector<std::int32_t> features_;
  std::vector<std::int32_t> local_;
};

class Tile {
 public:
  // Units are at most kTileUnits; the other lanes are zero. `n_steps` are to come, and must not need a fold meanwhile.
  void load(DensePairs& table, const std::vector<std::int32_t>& features, const std::int64_t* units, int n_units,
            const Rate& step, std::int64_t n_steps) {
    u_.resize(features.size() * kTileUnits);
    v_.resize(features.size() * kTileUnits);
    clocks_.fill(PairClock());
    n_units_ = n_units;
    for (int lane = 0; lane < n_units; ++lane) {
      table.fold_before(units[lane], step, n_steps);
      clocks_[lane] = table.clock(units[lane]);
      rows_[lane] = table.row(units[lane]);
    }
    for (std::size_t i = 0; i < features.size(); ++i) {
      TileLanes u = {}, v = {};
      for (int lane = 0; lane < n_units; ++lane) {
        const Pair pair = rows_[lane][features[i]];
        u[lane] = pair.u;
        v[lane] = pair.v;
      }
      at(u_, static_cast<std::int32_t>(i)) = u;
      at(v_, static_cast<std::int32_t>(i)) = v;
    }
  }

  // Brings the weights back to where load() took them from.
  void store(DensePairs& table, const std::vector<std::int32_t>& features, const std::int64_t* units) const {
    for (int lane = 0; lane < n_units_; ++lane) table.clock(units[lane]) = clocks_[lane];
    for (std::size_t i = 0; i < features.size(); ++i) {
      const TileLanes u = at(u_, static_cast<std::int32_t>(i)), v = at(v_, static_cast<std::int32_t>(i));
      for (int lane = 0; lane < n_units_; ++lane) rows_[lane][features[i]] = {u[lane], v[lane]};
    }
  }

  // w . x for every unit.
  TileLanes dot(const SparseRow& row, const std::int32_t* local) const {
    TileLanes u = {}, v = {}, c;
    for (std::int64_t t = 0; t < row.count; ++t) {
      u += at(u_, local[t]) * row.values[t];
      v += at(v_, local[t]) * row.values[t];
    }
    for (int lane = 0; lane < kTileUnits; ++lane) c[lane] = clocks_[lane].c;
    return u - c * v;
  }

  void begin(const Rate& step) {
    for (int lane = 0; lane < kTileUnits; ++lane) {
      clocks_[lane].tick(step);
      power_[lane] = clocks_[lane].power;
      c_before_[lane] = clocks_[lane].c_before;
    }
  }

  void add(const SparseRow& row, const std::int32_t* local, const TileLanes& gradient) {
    const TileLanes v = gradient / power_, u = c_before_ * v;
    for (std::int64_t t = 0; t < row.count; ++t) {
      at(u_, local[t]) += u * row.values[t];
      at(v_, local[t]) += v * row.values[t];
    }
  }

 private:
  static const TileLanes& at(const LargeVector<float>& values, std::int32_t i) {
    return *reinterpret_cast<const TileLanes*>(values.data() + std::int64_t{i} * kTileUnits);
  }
  static TileLanes& at(LargeVector<float>& values, std::int32_t i) {
    return *reinterpret_cast<TileLanes*>(values.data() + std::int64_t{i} * kTileUnits);
  }

  LargeVector<float> u_, v_;
  std::array<PairClock, kTileUnits> clocks_;
  std::array<Pair*, kTileUnits> rows_;
  int n_units_ = 0;
  TileLanes power_ = {}, c_before_ = {};
};

}  // namespace labelprism
