#include "predictor.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <utility>

#include "strong_features.hpp"
#include "thread_pool.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kRowsPerTask = 64;

}  // namespace

PredictorRoom::PredictorRoom(std::int64_t n_labels, std::int64_t n_clusters)
    : forest_(n_labels),
      sum_(padded_to_eight(static_cast<std::size_t>(n_labels) + 1), 0.0f),
      slot_(static_cast<std::size_t>(n_labels + n_clusters), 0) {}

Predictor::Predictor(const ForestScorer& forest, LabelTables&& tables, const ClusterView& clusters,
                     const NearExamples* examples, const LabelSpace* space, const float* bias, const float* prior,
                     const BlendWeights& blend, const PredictorSettings& settings)
    : forest_(forest),
      tables_(std::move(tables)),
      clusters_(clusters),
      examples_(examples),
      space_(space),
      blend_(blend),
      settings_(settings),
      bias_(bias, bias + forest.n_labels() + clusters.n_clusters),
      prior_(prior, prior + forest.n_labels()),
      kernels_(&block_kernels()) {}

// Fills room.retrieved_ with the nearest centroids, the labels of most votes and those near in the space, ascending.
void Predictor::retrieve(const SparseRow& row, const AllowList& allowed, PredictorRoom& room) const {
  auto& found = room.retrieved_;
  found.clear();
  if (space_ && space_->has_lists() && settings_.space_candidates > 0) {
    space_->find_lists(kMostLists, &room.space_, 1);
    space_->find_nearest(settings_.space_candidates, allowed.flags, room.space_, found);
  }
  if (settings_.centroid_candidates > 0 || settings_.vote_candidates > 0) add_by_features(row, allowed, room);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
}

// Adds the nearest centroids and the labels of most votes to room.retrieved_.
void Predictor::add_by_features(const SparseRow& row, const AllowList& allowed, PredictorRoom& room) const {
  const float least = least_strong_value(*kernels_, row, settings_.strong_features, room.sizes_);
  room.strong_features_.clear();
  room.strong_values_.clear();
  for (std::int64_t t = 0; t < row.count; ++t) {
    if (std::fabs(row.values[t]) < least) continue;
    room.strong_features_.push_back(row.features[t]);
    room.strong_values_.push_back(row.values[t]);
  }
  add_strongest(tables_.near, settings_.centroid_candidates, allowed, room);
  add_strongest(tables_.votes, settings_.vote_candidates, allowed, room);
}

// Adds the labels of the largest sums of weights, over the strong features, to room.retrieved_.
void Predictor::add_strongest(const StrongestLabels& lists, std::int64_t n_wanted, const AllowList& allowed,
                              PredictorRoom& room) const {
  if (n_wanted == 0) return;
  const std::size_t n = room.strong_features_.size();
  const auto first_of = [&](std::size_t i) {
    return static_cast<std::size_t>(lists.begin[static_cast<std::size_t>(room.strong_features_[i])]);
  };
  const auto end_of = [&](std::size_t i) {
    return static_cast<std::size_t>(lists.begin[static_cast<std::size_t>(room.strong_features_[i]) + 1]);
  };
  std::size_t n_entries = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t first = first_of(i), count = end_of(i) - first;
    kernels_->add_halves(lists.label.data() + first, lists.weight.data() + first, static_cast<std::int64_t>(count),
                         room.strong_values_[i], static_cast<std::uint32_t>(n_labels()), room.sum_.data());
    n_entries += count;
  }
  const auto wanted = static_cast<std::size_t>(n_wanted);
  Largest& strongest = room.strongest_;
  float* sums = room.sum_.data();
  sums[n_labels()] = 0;
  // Where there are few labels, it is faster to look at all sums, eight at a time, than at the lists again.
  if (n_labels() <= 2 * static_cast<std::int64_t>(n_entries)) {
    if (allowed.flags) {
      for (std::int64_t label = 0; label < n_labels(); ++label) sums[label] = allowed.flags[label] ? sums[label] : 0;
    }
    strongest.find(*kernels_, sums, room.sum_.size(), n_wanted);
    if (strongest.size() > wanted) strongest.drop_last(sums, strongest.size() - wanted);
    room.retrieved_.insert(room.retrieved_.end(), strongest.begin(), strongest.end());
    std::fill(room.sum_.begin(), room.sum_.end(), 0.0f);
    return;
  }
  if (room.summed_.size() < n_entries) room.summed_.resize(n_entries);
  if (room.sums_of_.size() < padded_to_eight(n_entries)) room.sums_of_.resize(padded_to_eight(n_entries));
  std::size_t n_summed = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t s = first_of(i), end = end_of(i); s < end; ++s) {
      const std::int32_t label = lists.label[s];
      if (label < 0 || label >= n_labels()) continue;  // of a damaged model
      const float sum = sums[label];
      sums[label] = 0;                 // should the label come again, there is nothing left of it
      room.summed_[n_summed] = label;  // noted in any case and kept if it has a sum: that needs no jump
      room.sums_of_[n_summed] = sum;
      n_summed += sum > 0 && (!allowed.flags || allowed.flags[label]) ? 1 : 0;
    }
  }
  std::fill(room.sums_of_.begin() + static_cast<std::ptrdiff_t>(n_summed),
            room.sums_of_.begin() + static_cast<std::ptrdiff_t>(padded_to_eight(n_summed)), 0.0f);
  strongest.find(*kernels_, room.sums_of_.data(), padded_to_eight(n_summed), n_wanted);
  if (strongest.size() > wanted) {  // of equals the smaller labels are kept, and these are in no order
    std::vector<std::pair<float, std::int32_t>> ordered;
    for (const std::int32_t i : strongest) {
      ordered.emplace_back(-room.sums_of_[static_cast<std::size_t>(i)], room.summed_[static_cast<std::size_t>(i)]);
    }
    std::sort(ordered.begin(), ordered.end());
    for (std::size_t i = 0; i < wanted; ++i) room.retrieved_.push_back(ordered[i].second);
  } else {
    for (const std::int32_t i : strongest) room.retrieved_.push_back(room.summed_[static_cast<std::size_t>(i)]);
  }
}

// The smallest probability of the forest's candidates, and how many have it: the first ones, as in the forest. What it
// reached beyond them fills up.
std::pair<float, std::int64_t> Predictor::least_candidate(PredictorRoom& room) const {
  const auto wanted = static_cast<std::size_t>(settings_.forest_candidates);
  const auto& probabilities = room.forest_.probabilities;
  if (probabilities.size() <= wanted) return {-1.0f, 0};
  auto& sorted = room.sizes_;
  sorted.assign(probabilities.begin(), probabilities.end());
  const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(wanted) - 1;
  std::nth_element(sorted.begin(), last, sorted.end(), std::greater<>());
  return {*last, 1 + std::count(sorted.begin(), last, *last)};
}

void Predictor::unite(PredictorRoom& room) const {
  RowCandidates& found = room.found;
  found.labels.clear();
  found.forest.clear();
  found.further.clear();
  std::size_t s = 0, t = 0;
  const auto& reached = room.forest_.labels;
  const auto& retrieved = room.retrieved_;
  auto [least, equals] = least_candidate(room);
  const auto add = [&](std::int32_t label, float log_forest, float further) {
    found.labels.push_back(label);
    found.forest.push_back(log_forest);
    found.further.push_back(further);
  };
  while (s < reached.size() || t < retrieved.size()) {
    if (t == retrieved.size() || (s < reached.size() && reached[s] <= retrieved[t])) {
      const bool is_retrieved = t < retrieved.size() && reached[s] == retrieved[t];
      const float probability = room.forest_.probabilities[s];
      const bool is_candidate = probability > least || (probability == least && equals-- > 0);
      add(reached[s], is_candidate ? std::log(probability + 1e-4f) : kNotReached,
          is_candidate || is_retrieved ? kCandidate : probability);
      ++s;
      t += is_retrieved ? 1 : 0;
    } else {
      add(retrieved[t++], kNotReached, kCandidate);
    }
  }
}

// Adds all labels that are allowed, behind those that were found.
void Predictor::add_allowed(const AllowList& allowed, PredictorRoom& room) const {
  RowCandidates& found = room.found;
  const RowCandidates before = found;
  found.labels.clear();
  for (std::int64_t label = 0; label < n_labels(); ++label) {
    if (allowed.flags[label]) found.labels.push_back(static_cast<std::int32_t>(label));
  }
  found.forest.assign(found.labels.size(), kNotReached);
  found.further.assign(found.labels.size(), 0.0f);
  for (std::size_t i = 0, s = 0; i < found.labels.size() && s < before.labels.size(); ++i) {
    if (found.labels[i] != before.labels[s]) continue;
    found.forest[i] = before.forest[s];
    found.further[i] = before.further[s++];
  }
}

void Predictor::measure_in_space(PredictorRoom& room) const {
  RowCandidates& found = room.found;
  found.space.resize(space_ ? found.labels.size() : 0);
  if (!space_) return;
  space_->cosines(room.space_, found.labels.data(), static_cast<std::int64_t>(found.labels.size()), found.space.data());
}

// Keeps the candidates that are nearest in the space. The others fill up where more labels are wanted than are kept.
void Predictor::sieve(std::int64_t wanted, PredictorRoom& room) const {
  RowCandidates& found = room.found;
  auto& cosines = room.sizes_;
  cosines.clear();
  for (std::size_t i = 0; i < found.labels.size(); ++i) {
    if (found.further[i] == kCandidate) cosines.push_back(found.space[i]);
  }
  const std::int64_t n_kept = settings_.kept_candidates;
  if (!room.space_.is_placed || static_cast<std::int64_t>(cosines.size()) <= n_kept) return;
  auto threshold = room.largest_.threshold(cosines.data(), cosines.size(), n_kept);
  const auto& reached = room.forest_.labels;
  std::size_t count = 0, s = 0;
  for (std::size_t i = 0; i < found.labels.size(); ++i) {
    float further = found.further[i];
    if (further == kCandidate && !threshold.admits(found.space[i])) {
      if (wanted <= n_kept) continue;
      while (s < reached.size() && reached[s] < found.labels[i]) ++s;
      const bool is_reached = s < reached.size() && reached[s] == found.labels[i];
      further = is_reached ? room.forest_.probabilities[s] : 0.0f;
    }
    found.labels[count] = found.labels[i];
    found.forest[count] = found.forest[i];
    found.further[count] = further;
    found.space[count++] = found.space[i];
  }
  found.labels.resize(count);
  found.forest.resize(count);
  found.further.resize(count);
  found.space.resize(count);
}

// Takes given labels as the candidates, with what the forest, which has been asked, says of them.
void Predictor::look_up(const std::int32_t* labels, std::int64_t count, PredictorRoom& room) const {
  RowCandidates& found = room.found;
  found.labels.assign(labels, labels + count);
  found.forest.assign(static_cast<std::size_t>(count), kNotReached);
  found.further.assign(static_cast<std::size_t>(count), kCandidate);
  const auto& reached = room.forest_.labels;
  for (std::size_t i = 0, s = 0; i < found.labels.size(); ++i) {
    while (s < reached.size() && reached[s] < found.labels[i]) ++s;
    if (s == reached.size()) break;
    if (reached[s] == found.labels[i]) found.forest[i] = std::log(room.forest_.probabilities[s] + 1e-4f);
  }
}

SparseRow Predictor::prepared(const SparseRow& row, PredictorRoom& room) const {
  double square = 0;
  for (std::int64_t t = 0; t < row.count; ++t) square += static_cast<double>(row.values[t]) * row.values[t];
  if (!std::isfinite(square)) throw std::invalid_argument("X holds NaN, infinity or values that are too large");
  if (!settings_.unit_rows || square == 0) return row;
  const auto scale = static_cast<float>(1 / std::sqrt(square));
  room.values_.resize(static_cast<std::size_t>(row.count));
  for (std::int64_t t = 0; t < row.count; ++t) room.values_[static_cast<std::size_t>(t)] = row.values[t] * scale;
  return {row.features, room.values_.data(), row.count};
}

void Predictor::find(const SparseRow& given, std::int64_t wanted, const Routing& routing, const AllowList& allowed,
                     bool scored, PredictorRoom& room) const {
  const SparseRow row = prepared(given, room);
  const std::int64_t k = std::max(settings_.forest_candidates, wanted);
  forest_.score(row, k, routing, allowed.flags, room.forest_);
  if (space_) space_->place(row, room.space_);
  if (allowed.flags && allowed.count <= settings_.forest_candidates) {
    room.scored_.clear();
    for (std::int64_t label = 0; label < n_labels(); ++label) {
      if (allowed.flags[label]) room.scored_.push_back(static_cast<std::int32_t>(label));
    }
    look_up(room.scored_.data(), static_cast<std::int64_t>(room.scored_.size()), room);
    measure_in_space(room);
  } else {
    retrieve(row, allowed, room);
    unite(room);
    if (allowed.flags && allowed.count <= wanted) add_allowed(allowed, room);
    if (scored || sieves()) measure_in_space(room);
    if (sieves()) sieve(wanted, room);
  }
  if (scored) score(row, room);
}

void Predictor::score_given(const SparseRow& given, const std::int32_t* labels, std::int64_t count,
                            const Routing& routing, PredictorRoom& room) const {
  const SparseRow row = prepared(given, room);
  forest_.score(row, settings_.forest_candidates, routing, nullptr, room.forest_);
  look_up(labels, count, room);
  if (space_) space_->place(row, room.space_);
  measure_in_space(room);
  score(row, room);
}

void Predictor::predict(const SparseRow& row, std::int64_t k, const Routing& routing, const AllowList& allowed,
                        PredictorRoom& room, std::int32_t* labels, float* scores) const {
  find(row, k, routing, allowed, true, room);
  blend(room.found);
  const RowCandidates& found = room.found;
  const auto wanted = static_cast<std::size_t>(k);
  rank(wanted, room);
  auto& ranking = room.ranking_;
  if (ranking.size() < wanted && ranking.size() < found.labels.size()) {
    auto& further = room.further_;
    further.clear();
    for (std::size_t i = 0; i < found.labels.size(); ++i) {
      if (found.further[i] != kCandidate) further.emplace_back(-found.further[i], i);
    }
    std::sort(further.begin(), further.end());
    float last = ranking.empty() ? -std::numeric_limits<float>::infinity() : ranking.back().first;
    for (const auto& [probability, i] : further) {
      last = std::max(last, -found.score[i]);
      ranking.emplace_back(last, found.labels[i]);
    }
  }
  for (std::size_t i = 0; i < wanted; ++i) {
    labels[i] = i < ranking.size() ? ranking[i].second : -1;
    scores[i] = i < ranking.size() ? -ranking[i].first : -std::numeric_limits<float>::infinity();
  }
}

void predict_rows(const Predictor& predictor, const CsrView& X, std::int64_t k, const Routing& routing,
                  const AllowList& allowed, int n_threads, std::int32_t* labels, float* scores) {
  parallel_ranges(X.n_rows, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    predictor.with_room([&](PredictorRoom& room) {
      for (std::int64_t row = begin; row < end; ++row) {
        predictor.predict(sparse_row(X, row), k, routing, allowed, room, labels + row * k, scores + row * k);
      }
    });
  });
}

void find_candidates(const Predictor& predictor, const CsrView& X, const Routing& routing, bool scored, int n_threads,
                     GrowingCsr& candidates, Buffer<float>& cosine, Buffer<float>& margin) {
  const auto n_tasks = static_cast<std::size_t>((X.n_rows + kRowsPerTask - 1) / kRowsPerTask);
  std::vector<GrowingCsr> pieces(n_tasks);
  std::vector<std::vector<float>> cosines(n_tasks), margins(n_tasks);
  parallel_ranges(X.n_rows, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    predictor.with_room([&](PredictorRoom& room) {
      const auto task = static_cast<std::size_t>(begin / kRowsPerTask);
      const RowCandidates& found = room.found;
      for (std::int64_t row = begin; row < end; ++row) {
        predictor.find(sparse_row(X, row), 1, routing, AllowList(), scored, room);
        pieces[task].indices.append(found.labels.data(), found.labels.size());
        pieces[task].data.append(found.forest.data(), found.forest.size());
        pieces[task].end_row();
        if (!scored) continue;
        const auto count = static_cast<std::ptrdiff_t>(found.labels.size());
        cosines[task].insert(cosines[task].end(), found.cosine.begin(), found.cosine.begin() + count);
        margins[task].insert(margins[task].end(), found.margin.begin(), found.margin.begin() + count);
      }
    });
  });
  candidates.join(pieces);
  for (const auto& piece : cosines) cosine.append(piece.data(), piece.size());
  for (const auto& piece : margins) margin.append(piece.data(), piece.size());
}

void score_candidates(const Predictor& predictor, const CsrView& X, const CsrView& candidates, const Routing& routing,
                      int n_threads, const GivenScores& out) {
  parallel_ranges(X.n_rows, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    predictor.with_room([&](PredictorRoom& room) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t last = candidates.indptr[row + 1];
        for (std::int64_t t = candidates.indptr[row]; t < last; t += kMostCandidates) {
          const std::int64_t count = std::min(last - t, kMostCandidates);
          predictor.score_given(sparse_row(X, row), candidates.indices + t, count, routing, room);
          predictor.blend(room.found);
          for (std::int64_t i = 0; i < count; ++i) {
            const auto at = static_cast<std::size_t>(i);
            out.score[t + i] = room.found.score[at];
            out.forest[t + i] = room.found.forest[at];
            out.margin[t + i] = room.found.margin[at];
            out.cosine[t + i] = room.found.cosine[at];
            if (out.clusters) out.clusters[t + i] = room.found.clusters[at];
            if (out.examples) out.examples[t + i] = room.found.examples[at];
            if (out.space) out.space[t + i] = room.found.space[at];
          }
        }
      }
    });
  });
}

}  // namespace labelprism
