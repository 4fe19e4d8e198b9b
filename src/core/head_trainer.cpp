#include "head_trainer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "head_losses.hpp"
#include "node_rows.hpp"
#include "thread_pool.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kParts = 16;
constexpr std::size_t kBatchesPerWave = 8;

// Many candidates may pull a row the same way; two layers that learn from each other would run away then.
void limit_norm(float* values, std::int64_t count, float largest) {
  float square = 0;
  for (std::int64_t j = 0; j < count; ++j) square += values[j] * values[j];
  if (square <= largest * largest) return;
  const float scale = largest / std::sqrt(square);
  for (std::int64_t j = 0; j < count; ++j) values[j] *= scale;
}

struct PositiveRange {
  const Positive* first;
  const Positive* last;
  const Positive* begin() const { return first; }
  const Positive* end() const { return last; }
};

// The positives of a batch that are of one candidate.
template <class Row>
PositiveRange positives_of(const BatchRoom<Row>& room, std::int64_t place) {
  const auto earlier = [](const Positive& positive, std::int64_t at) { return positive.place < at; };
  const auto first = std::lower_bound(room.positives.begin(), room.positives.end(), place, earlier);
  const auto last = std::lower_bound(first, room.positives.end(), place + 1, earlier);
  return {room.positives.data() + (first - room.positives.begin()),
          room.positives.data() + (last - room.positives.begin())};
}

}  // namespace

template <class Table>
HeadTrainer<Table>::HeadTrainer(const CsrView& candidates, Loss loss, const HeadTerms& terms, std::int64_t code_shift,
                                Table labels, Table slots)
    : loss_(loss),
      terms_(terms),
      code_shift_(code_shift),
      indptr_(candidates.indptr, candidates.indptr + candidates.n_rows + 1),
      labels_of_slots_(candidates.indices, candidates.indices + candidates.indptr[candidates.n_rows]),
      labels_(std::move(labels)),
      slots_(std::move(slots)),
      label_bias_(static_cast<std::size_t>(candidates.n_columns)),
      slot_bias_(terms.slot_bias ? labels_of_slots_.size() : 0),
      codes_(static_cast<std::size_t>(candidates.n_rows * terms.n_codes)) {
  places_.reserve(labels_of_slots_.size());
  for (std::int64_t leaf = 0; leaf < candidates.n_rows; ++leaf) {
    for (std::int64_t part = 0; part < kParts; ++part) {
      part_begin_.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(places_.size()) - indptr_[leaf]));
      for (std::int64_t slot = indptr_[leaf]; slot < indptr_[leaf + 1]; ++slot) {
        if (labels_of_slots_[slot] % kParts == part) places_.push_back(static_cast<std::int32_t>(slot - indptr_[leaf]));
      }
    }
    part_begin_.push_back(static_cast<std::int32_t>(indptr_[leaf + 1] - indptr_[leaf]));
  }
}

template <class Table>
CsrView HeadTrainer<Table>::candidates() const {
  return {static_cast<std::int64_t>(indptr_.size()) - 1, static_cast<std::int64_t>(label_bias_.size()), indptr_.data(),
          labels_of_slots_.data(), nullptr};
}

template <class Table>
double HeadTrainer<Table>::train(RowSource<Row>& source, const CsrView& Y, const Visits& visits, const HeadStep& step,
                                 int n_threads) {
  const bool alone = apart() && !source.wants_gradient();
  return alone ? train_apart(source, Y, visits, step, n_threads) : train_waves(source, Y, visits, step, n_threads);
}

template <class Table>
std::vector<Batch> HeadTrainer<Table>::batches_of(const Visits& visits, std::int64_t visit,
                                                  std::int64_t batch_size) const {
  std::vector<Batch> batches;
  const std::int64_t leaf = visits.leaves[visit], last = visits.offsets[visit + 1];
  if (indptr_[leaf] == indptr_[leaf + 1]) return batches;  // nothing to score there
  for (std::int64_t begin = visits.offsets[visit]; begin < last; begin += batch_size) {
    batches.push_back({leaf, begin, std::min(begin + batch_size, last)});
  }
  return batches;
}

template <class Table>
void HeadTrainer<Table>::find_positives(const CsrView& Y, const Batch& batch, std::vector<Positive>& positives) const {
  const std::int32_t* first = labels_of_slots_.data() + indptr_[batch.leaf];
  const std::int32_t* last = labels_of_slots_.data() + indptr_[batch.leaf + 1];
  positives.clear();
  for (std::int64_t row = batch.begin; row < batch.end; ++row) {
    for (std::int64_t t = Y.indptr[row]; t < Y.indptr[row + 1]; ++t) {
      const std::int32_t* found = std::lower_bound(first, last, Y.indices[t]);
      if (found != last && *found == Y.indices[t]) positives.push_back({found - first, row - batch.begin});
    }
  }
  std::sort(positives.begin(), positives.end(), [](const Positive& a, const Positive& b) {
    return a.place != b.place ? a.place < b.place : a.row < b.row;
  });
}

template <class Table>
template <class Use>
void HeadTrainer<Table>::each_place(std::int64_t leaf, std::int64_t part, const Use& use) const {
  const std::int32_t* bounds = part_begin_.data() + leaf * (kParts + 1);
  const auto at = [&](std::int64_t i) {
    const std::int64_t place = places_[i], slot = indptr_[leaf] + place;
    return Place{place, slot, labels_of_slots_[slot]};
  };
  const std::int64_t last = indptr_[leaf] + bounds[part + 1];
  for (std::int64_t i = indptr_[leaf] + bounds[part]; i < last; ++i) use(at(i), at(std::min(i + 1, last - 1)));
}

// Asks for the weights of a candidate that comes next.
template <class Table>
void HeadTrainer<Table>::prefetch(const Place& at, const BatchRoom<Row>& room) const {
  for (const Row& row : room.rows) {
    if (terms_.label_weights) labels_.prefetch(at.label, 0, row);
    if (terms_.slot_weights) slots_.prefetch(at.slot, 0, row);
  }
}

template <class Table>
float HeadTrainer<Table>::bias(const Place& at) const {
  return label_bias_[at.label].weight + (terms_.slot_bias ? slot_bias_[at.slot].weight : 0);
}

// The scores of one candidate for the rows of a batch. `terms`, [code][place][row], is filled where there are codes.
template <class Table>
void HeadTrainer<Table>::margins(const Place& at, const BatchRoom<Row>& room, float* scores, float* terms) const {
  const std::int64_t n = room.batch.size();
  std::fill_n(scores, n, bias(at));
  if (terms_.label_weights) {
    for (std::int64_t i = 0; i < n; ++i) scores[i] += labels_.dot(at.label, 0, room.rows[i]);
  }
  if (terms_.slot_weights) {
    for (std::int64_t i = 0; i < n; ++i) scores[i] += slots_.dot(at.slot, 0, room.rows[i]);
  }
  const std::int64_t n_places = indptr_[room.batch.leaf + 1] - indptr_[room.batch.leaf];
  for (std::int64_t q = 0; q < terms_.n_codes; ++q) {
    const float code = codes_[room.batch.leaf * terms_.n_codes + q].weight;
    float* term = terms + (q * n_places + at.place) * n;
    for (std::int64_t i = 0; i < n; ++i) {
      term[i] = labels_.dot(at.label, (q + 1) * code_shift_, room.rows[i]);
      scores[i] += code * term[i];
    }
  }
}

// Steps are made for rows of unit norm; codes make longer ones of them.
template <class Table>
float HeadTrainer<Table>::caution(const BatchRoom<Row>& room) const {
  float square = 1;
  for (std::int64_t q = 0; q < terms_.n_codes; ++q) {
    const float code = codes_[room.batch.leaf * terms_.n_codes + q].weight;
    square += code * code;
  }
  return room.caution / square;
}

// One step of a candidate's parameters along the mean gradient of a batch.
template <class Table>
void HeadTrainer<Table>::step(const Place& at, const BatchRoom<Row>& room, const float* gradient,
                              const HeadStep& step) {
  const std::int64_t n = room.batch.size();
  const Rate rate{step.rate.rate * caution(room), step.rate.momentum};
  float sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += gradient[i];
  label_bias_[at.label].step(step.rate, sum);
  if (terms_.slot_bias) slot_bias_[at.slot].step(step.rate, sum);
  if (terms_.label_weights) {
    labels_.begin(at.label, rate);
    for (std::int64_t i = 0; i < n; ++i) {
      if (gradient[i] != 0) labels_.add(at.label, 0, room.rows[i], gradient[i]);
    }
    for (std::int64_t q = 0; q < terms_.n_codes; ++q) {
      const float code = codes_[room.batch.leaf * terms_.n_codes + q].weight;
      for (std::int64_t i = 0; i < n; ++i) {
        if (gradient[i] != 0) labels_.add(at.label, (q + 1) * code_shift_, room.rows[i], code * gradient[i]);
      }
    }
    labels_.end(at.label, rate);
  }
  if (terms_.slot_weights) {
    slots_.begin(at.slot, rate);
    for (std::int64_t i = 0; i < n; ++i) {
      if (gradient[i] != 0) slots_.add(at.slot, 0, room.rows[i], gradient[i]);
    }
    slots_.end(at.slot, rate);
    if (step.group_penalty > 0) slots_.shrink(at.slot, rate, rate.rate * step.group_penalty);
  }
}

// ------------------------------------------------------------------------------------------------ labels, one apart

template <class Table>
double HeadTrainer<Table>::train_apart(RowSource<Row>& source, const CsrView& Y, const Visits& visits,
                                       const HeadStep& step, int n_threads) {
  std::vector<double> loss(kParts, 0);
  parallel_for(kParts, n_threads, [&](std::int64_t part) {
    std::vector<BatchRoom<Row>> rooms;
    VisitFeatures features;
    Tile tile;
    for (std::int64_t visit = 0; visit < visits.count; ++visit) {
      const std::vector<Batch> batches = batches_of(visits, visit, step.batch_size);
      if (rooms.size() < batches.size()) rooms.resize(batches.size());
      for (std::size_t b = 0; b < batches.size(); ++b) {
        rooms[b].batch = batches[b];
        source.fetch(rooms[b]);
        find_positives(Y, batches[b], rooms[b].positives);
      }
      loss[part] += std::is_same_v<Table, DensePairs> && !terms_.slot_weights
                        ? train_tiles(part, rooms, batches.size(), step, features, tile)
                        : train_visit(part, rooms, batches.size(), step);
    }
  });
  double sum = 0;
  for (const double part : loss) sum += part;
  return sum;
}

// The weights of a label stay in the cache for all batches of a visit.
template <class Table>
double HeadTrainer<Table>::train_visit(std::int64_t part, std::vector<BatchRoom<Row>>& rooms, std::size_t n_batches,
                                       const HeadStep& step) {
  if (n_batches == 0) return 0;
  double loss = 0;
  std::vector<float> gradient(static_cast<std::size_t>(rooms[0].batch.size()));
  std::vector<std::size_t> next(n_batches, 0);  // the first positive of each batch that may be of interest
  each_place(rooms[0].batch.leaf, part, [&](const Place& at, const Place& next_place) {
    prefetch(next_place, rooms[0]);
    for (std::size_t b = 0; b < n_batches; ++b) {
      const BatchRoom<Row>& room = rooms[b];
      margins(at, room, gradient.data(), nullptr);
      while (next[b] < room.positives.size() && room.positives[next[b]].place < at.place) ++next[b];
      const float share = 1 / static_cast<float>(room.batch.size());
      std::size_t positive = next[b];
      for (std::int64_t i = 0; i < room.batch.size(); ++i) {
        const bool is_positive = positive < room.positives.size() && room.positives[positive].place == at.place &&
                                 room.positives[positive].row == i;
        if (is_positive) ++positive;
        loss += logistic_gradient(gradient[i], is_positive);
        gradient[i] *= share;
      }
      this->step(at, room, gradient.data(), step);
    }
  });
  return loss;
}

// The same for tables with a place for every feature, eight candidates at a time.
template <class Table>
double HeadTrainer<Table>::train_tiles(std::int64_t part, std::vector<BatchRoom<Row>>& rooms, std::size_t n_batches,
                                       const HeadStep& step, VisitFeatures& features, Tile& tile) {
  double loss = 0;
  if constexpr (std::is_same_v<Table, DensePairs>) {
    if (n_batches == 0) return 0;
    features.number(rooms, n_batches, labels_.width());
    std::vector<Place> places;
    each_place(rooms[0].batch.leaf, part, [&](const Place& at, const Place&) { places.push_back(at); });
    const std::size_t longest = static_cast<std::size_t>(DensePairs::steps_without_fold(step.rate));
    for (std::size_t first = 0; first < places.size(); first += kTileUnits) {
      const int n_places = static_cast<int>(std::min<std::size_t>(kTileUnits, places.size() - first));
      std::int64_t units[kTileUnits];
      for (int lane = 0; lane < n_places; ++lane) units[lane] = places[first + lane].label;
      const std::int32_t* local = features.local();
      for (std::size_t begin = 0; begin < n_batches; begin += longest) {
        const std::size_t end = std::min(begin + longest, n_batches);
        tile.load(labels_, features.features(), units, n_places, step.rate, static_cast<std::int64_t>(end - begin));
        for (std::size_t b = begin; b < end; ++b) {
          loss += tile_step(places.data() + first, n_places, rooms[b], local, step, tile);
          for (const Row& row : rooms[b].rows) local += row.count;
        }
        tile.store(labels_, features.features(), units);
      }
    }
  }
  return loss;
}

// One step of up to eight candidates on a batch; returns the sum of the losses.
template <class Table>
double HeadTrainer<Table>::tile_step(const Place* places, int n_places, const BatchRoom<Row>& room,
                                     const std::int32_t* local, const HeadStep& step, Tile& tile) {
  double loss = 0;
  if constexpr (std::is_same_v<Table, DensePairs>) {
    const std::int64_t n = room.batch.size();
    TileLanes constant = {}, used = {}, sum = {}, heights = {}, factors = sum + 1.0f;
    for (int lane = 0; lane < n_places; ++lane) {
      constant[lane] = bias(places[lane]);
      used[lane] = 1 / static_cast<float>(n);  // the share of a row in the mean; unused lanes have no gradient
    }
    std::vector<TileLanes> gradient(static_cast<std::size_t>(n));
    const std::int32_t* of_row = local;
    for (std::int64_t i = 0; i < n; ++i) {
      gradient[i] = constant + tile.dot(room.rows[i], of_row);
      of_row += room.rows[i].count;
    }
    for (int lane = 0; lane < n_places; ++lane) {  // the score of a positive is part of its loss
      for (const Positive& positive : positives_of(room, places[lane].place)) loss -= gradient[positive.row][lane];
    }
    for (std::int64_t i = 0; i < n; ++i) {
      const TileLanes score = gradient[i], small = exp_lanes(score < 0.0f ? score : -score);
      const TileLanes probability = (score < 0.0f ? small : small - small + 1.0f) / (1.0f + small);
      heights += score < 0.0f ? score - score : score;
      factors *= 1.0f + small;
      gradient[i] = probability * used;
      if (i % 64 == 63 || i == n - 1) {  // each factor is at most 2: their product fits, and saves 63 logarithms
        for (int lane = 0; lane < n_places; ++lane) loss += heights[lane] + std::log(factors[lane]);
        heights = heights - heights;
        factors = heights + 1.0f;
      }
    }
    for (int lane = 0; lane < n_places; ++lane) {
      for (const Positive& positive : positives_of(room, places[lane].place))
        gradient[positive.row][lane] -= used[lane];
    }
    tile.begin(step.rate);
    for (std::int64_t i = 0; i < n; ++i) {
      tile.add(room.rows[i], local, gradient[i]);
      local += room.rows[i].count;
      sum += gradient[i];
    }
    for (int lane = 0; lane < n_places; ++lane) {
      label_bias_[places[lane].label].step(step.rate, sum[lane]);
      if (terms_.slot_bias) slot_bias_[places[lane].slot].step(step.rate, sum[lane]);
    }
  }
  return loss;
}

// ------------------------------------------------------------------------------------------------ waves

template <class Table>
double HeadTrainer<Table>::train_waves(RowSource<Row>& source, const CsrView& Y, const Visits& visits,
                                       const HeadStep& step, int n_threads) {
  double loss = 0;
  std::vector<BatchRoom<Row>> rooms(kBatchesPerWave);
  for (std::int64_t first = 0; first < visits.count; first += kBatchesPerWave) {
    std::vector<std::vector<Batch>> batches;
    std::size_t longest = 0;
    for (std::int64_t v = first; v < std::min<std::int64_t>(first + kBatchesPerWave, visits.count); ++v) {
      batches.push_back(batches_of(visits, v, step.batch_size));
      longest = std::max(longest, batches.back().size());
    }
    for (std::size_t turn = 0; turn < longest; ++turn) {
      std::size_t n_rooms = 0;
      for (const std::vector<Batch>& of_visit : batches) {
        if (turn < of_visit.size()) rooms[n_rooms++].batch = of_visit[turn];
      }
      parallel_for(static_cast<std::int64_t>(n_rooms), n_threads, [&](std::int64_t i) {
        source.fetch(rooms[i]);
        find_gradient(Y, rooms[i], source.wants_gradient());
      });
      parallel_for(kParts, n_threads, [&](std::int64_t part) {
        for (std::size_t r = 0; r < n_rooms; ++r) {
          each_place(rooms[r].batch.leaf, part, [&](const Place& at, const Place& next_place) {
            prefetch(next_place, rooms[r]);
            this->step(at, rooms[r], rooms[r].gradient.data() + at.place * rooms[r].batch.size(), step);
          });
        }
      });
      for (std::size_t r = 0; r < n_rooms; ++r) {
        loss += rooms[r].loss;
        for (std::int64_t q = 0; q < terms_.n_codes; ++q) {
          codes_[rooms[r].batch.leaf * terms_.n_codes + q].step(step.rate, rooms[r].code_gradient[q]);
        }
      }
      source.learn(rooms, n_rooms, step, n_threads);
    }
  }
  return loss;
}

template <class Table>
void HeadTrainer<Table>::find_gradient(const CsrView& Y, BatchRoom<Row>& room, bool of_rows) const {
  const std::int64_t leaf = room.batch.leaf, n = room.batch.size(), n_places = indptr_[leaf + 1] - indptr_[leaf];
  room.gradient.resize(static_cast<std::size_t>(n_places * n));
  room.terms.resize(static_cast<std::size_t>(terms_.n_codes * n_places * n));
  const auto at = [&](std::int64_t place) {
    const std::int64_t slot = indptr_[leaf] + place;
    return Place{place, slot, labels_of_slots_[slot]};
  };
  for (std::int64_t place = 0; place < n_places; ++place) {
    prefetch(at(std::min(place + 1, n_places - 1)), room);
    margins(at(place), room, room.gradient.data() + place * n, room.terms.data());
  }
  find_positives(Y, room.batch, room.positives);
  room.loss = loss_gradient(loss_, n_places, n, room.positives, room.gradient.data());
  room.code_gradient.assign(static_cast<std::size_t>(terms_.n_codes), 0);
  for (std::int64_t q = 0; q < terms_.n_codes; ++q) {
    const float* term = room.terms.data() + q * n_places * n;
    for (std::int64_t at = 0; at < n_places * n; ++at) room.code_gradient[q] += room.gradient[at] * term[at];
  }
  limit_norm(room.code_gradient.data(), terms_.n_codes, 1);
  if (of_rows) pull_rows(room);
}

// The gradient of the loss by the rows, for the embedding that made them.
template <class Table>
void HeadTrainer<Table>::pull_rows(BatchRoom<Row>& room) const {
  const std::int64_t leaf = room.batch.leaf, n = room.batch.size();
  const std::int64_t width = static_cast<std::int64_t>(room.embedded.size()) / n;
  room.row_gradient.assign(room.embedded.size(), 0);
  for (std::int64_t slot = indptr_[leaf]; slot < indptr_[leaf + 1]; ++slot) {
    const float* gradient = room.gradient.data() + (slot - indptr_[leaf]) * n;
    for (std::int64_t i = 0; i < n; ++i) {
      if (gradient[i] != 0) pull_slot(leaf, slot, gradient[i], room.row_gradient.data() + i * width);
    }
  }
  for (std::int64_t i = 0; i < n; ++i)
    limit_norm(room.row_gradient.data() + i * width, width, 1 / static_cast<float>(n));
}

// out += g * (the weights by which a slot scores a row). Only dense rows come out of an embedding.
template <class Table>
void HeadTrainer<Table>::pull_slot(std::int64_t leaf, std::int64_t slot, float gradient, float* out) const {
  if constexpr (std::is_same_v<Table, DenseWeights>) {
    if (terms_.slot_weights) slots_.pull(slot, 0, gradient, out);
    if (!terms_.label_weights) return;
    const std::int32_t label = labels_of_slots_[slot];
    labels_.pull(label, 0, gradient, out);
    for (std::int64_t q = 0; q < terms_.n_codes; ++q) {
      const float code = codes_[leaf * terms_.n_codes + q].weight;
      labels_.pull(label, (q + 1) * code_shift_, code * gradient, out);
    }
  }
}

template class HeadTrainer<DensePairs>;
template class HeadTrainer<TouchedPairs>;
template class HeadTrainer<DenseWeights>;

}  // namespace labelprism
