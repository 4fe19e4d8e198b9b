// What the experts say of a row's candidates, the blend of it, and the best of them.
#include <algorithm>
#include <utility>

#include "predictor.hpp"

namespace labelprism {
namespace {

// A list without a bitmap is searched for each candidate when it is so many times longer than there are candidates.
constexpr std::int64_t kSearchRatio = 16;
// All labels are scored where there are no more than so many for each candidate.
constexpr std::size_t kFewLabelsPerCandidate = 4;
// So many best labels are kept in order while scores are looked at; more are sorted in the end.
constexpr std::size_t kFewRanks = 16;
// The list of the label so many places ahead is asked for early.
constexpr std::size_t kListsAhead = 4;

}  // namespace

// Notes the candidates and their clusters, ascending, in scored_ and slot_, and returns how many there are.
std::size_t Predictor::place_scored(PredictorRoom& room) const {
  auto& scored = room.scored_;
  scored.assign(room.found.labels.begin(), room.found.labels.end());
  const auto first_cluster = static_cast<std::ptrdiff_t>(scored.size());
  for (std::int64_t k = 0; k < clusters_.n_clusterings; ++k) {
    for (const std::int32_t label : room.found.labels) {
      const std::int32_t cluster = cluster_of(k, label);
      std::uint16_t& slot = room.slot_[static_cast<std::size_t>(cluster)];
      if (!slot) scored.push_back(cluster);
      slot = 1;
    }
  }
  std::sort(scored.begin() + first_cluster, scored.end());
  const std::size_t count = scored.size();
  for (std::size_t i = 0; i < count; ++i) {
    room.slot_[static_cast<std::size_t>(scored[i])] = static_cast<std::uint16_t>(i + 1);
  }
  return count;
}

// Fills found.clusters from the margins of the clusters, which have their places in slot_.
void Predictor::add_up_clusters(PredictorRoom& room) const {
  RowCandidates& found = room.found;
  found.clusters.clear();
  if (clusters_.n_clusterings == 0) return;
  found.clusters.assign(found.labels.size(), 0.0f);
  const float share = 1.0f / static_cast<float>(clusters_.n_clusterings);
  for (std::int64_t k = 0; k < clusters_.n_clusterings; ++k) {
    for (std::size_t i = 0; i < found.labels.size(); ++i) {
      const std::uint16_t slot = room.slot_[static_cast<std::size_t>(cluster_of(k, found.labels[i]))];
      found.clusters[i] += share * log_head(found.margin[slot - 1u]);
    }
  }
}

void Predictor::score(const SparseRow& row, PredictorRoom& room) const {
  RowCandidates& found = room.found;
  const std::size_t count = place_scored(room), padded = padded_to_eight(count);
  room.scored_.resize(padded, 0);
  found.margin.assign(padded, 0.0f);
  found.cosine.assign(padded, 0.0f);
  if (tables_.is_by_label()) {
    score_own(row, count, room);
  } else if (!score_all(row, count, room)) {
    score_some(row, count, room);
  }
  add_up_clusters(room);
  found.examples.resize(examples_ ? found.labels.size() : 0);
  if (examples_) {
    examples_->vote(row, room.slot_.data(), n_labels(), found.labels.size(), room.examples_, found.examples.data());
  }
  for (std::size_t i = 0; i < count; ++i) room.slot_[static_cast<std::size_t>(room.scored_[i])] = 0;
}

// Where weights lie label by label.
void Predictor::score_own(const SparseRow& row, std::size_t count, PredictorRoom& room) const {
  auto& values = room.by_feature_;
  if (values.empty()) values.assign(static_cast<std::size_t>(n_features()), 0.0f);
  for (std::int64_t t = 0; t < row.count; ++t) {
    values[static_cast<std::size_t>(row.features[t])] += row.values[t];
    room.filter_.add(row.features[t]);
  }
  const auto list_of = [&](std::size_t i) -> const WeightList& {
    return tables_.lists[static_cast<std::size_t>(room.scored_[i])];
  };
  for (std::size_t i = 0; i < count; ++i) __builtin_prefetch(&list_of(i));
  for (std::size_t i = 0; i < count; ++i) {
    if (i + kListsAhead < count) {  // what follows, the processor asks for by itself
      __builtin_prefetch(tables_.list_labels.data() + list_of(i + kListsAhead).first_label);
      __builtin_prefetch(tables_.list_labels.data() + list_of(i + kListsAhead).first_label + 16);
    }
    const WeightList& list = list_of(i);
    const std::int32_t* features = tables_.list_labels.data() + list.first_label;
    const std::uint32_t* pairs = tables_.pairs.data() + list.first_pair;
    float margin = bias_[static_cast<std::size_t>(room.scored_[i])], cosine = 0;
    for (std::int32_t s = 0; s < list.length; ++s) {
      if (!room.filter_.may_have(features[s])) continue;
      if (features[s] < 0 || features[s] >= n_features()) continue;  // of a damaged model
      const float value = values[static_cast<std::size_t>(features[s])];
      margin += value * from_half(pairs[s]);
      cosine += value * from_half(pairs[s] >> 16);
    }
    room.found.margin[i] = margin;
    room.found.cosine[i] = cosine;
  }
  for (std::int64_t t = 0; t < row.count; ++t) {
    values[static_cast<std::size_t>(row.features[t])] = 0;
    room.filter_.word(row.features[t]) = 0;
  }
}

// Calls use(list, value) for the features of a row whose lists are arrays or have a bitmap, and leaves the others in
// room.short_lists_: weights are added up in this order, whoever does it.
template <class Use>
void Predictor::for_lists(const SparseRow& row, PredictorRoom& room, const Use& use) const {
  room.short_lists_.clear();
  for (std::int64_t t = 0; t < row.count; ++t) {
    const WeightList& list = tables_.lists[static_cast<std::size_t>(row.features[t])];
    if (list.layout == WeightList::kShort) {
      room.short_lists_.emplace_back(&list, row.values[t]);
    } else {
      use(list, row.values[t]);
    }
  }
}

// Where most labels are candidates it is faster to add up the weights of all of them, as they lie, than to pick some.
// Returns whether that was done: sums that are no numbers are left to others, which know what to make of them.
bool Predictor::score_all(const SparseRow& row, std::size_t count, PredictorRoom& room) const {
  const std::size_t n_scored = room.slot_.size();
  if (kFewLabelsPerCandidate * count < n_scored || tables_.words.size() > 0) return false;
  auto& sums = room.all_sums_;
  room.lists_.clear();
  room.list_values_.clear();
  sums.assign(2 * n_scored, 0.0f);
  for (std::size_t label = 0; label < n_scored; ++label) sums[2 * label] = bias_[label];
  for_lists(row, room, [&](const WeightList& list, float value) {
    room.lists_.push_back(tables_.pairs.data() + list.first_pair);
    room.list_values_.push_back(value);
  });
  kernels_->add_all_weights(room.lists_.data(), room.list_values_.data(), static_cast<std::int64_t>(room.lists_.size()),
                            static_cast<std::int64_t>(n_scored), sums.data());
  for (const auto& [list, value] : room.short_lists_) {
    const std::int32_t* labels = tables_.list_labels.data() + list->first_label;
    const std::uint32_t* pairs = tables_.pairs.data() + list->first_pair;
    for (std::int64_t s = 0; s < list->length; ++s) {
      const auto label = static_cast<std::size_t>(labels[s]);
      if (label >= n_scored) continue;  // of a damaged model
      sums[2 * label] += value * from_half(pairs[s]);
      sums[2 * label + 1] += value * from_half(pairs[s] >> 16);
    }
  }
  float all = 0;  // stays 0 unless a sum is NaN or infinite
  for (std::size_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::size_t>(room.scored_[i]);
    room.found.margin[i] = sums[2 * label];
    room.found.cosine[i] = sums[2 * label + 1];
    all += 0 * (room.found.margin[i] + room.found.cosine[i]);
  }
  if (all == 0) return true;
  std::fill(room.found.cosine.begin(), room.found.cosine.end(), 0.0f);
  return false;
}

void Predictor::score_some(const SparseRow& row, std::size_t count, PredictorRoom& room) const {
  RowCandidates& found = room.found;
  const std::size_t padded = padded_to_eight(count);
  room.places_.assign(padded, 0);
  for (std::size_t i = 0; i < count; ++i) found.margin[i] = bias_[static_cast<std::size_t>(room.scored_[i])];
  for_lists(row, room, [&](const WeightList& list, float value) {
    const std::int32_t* at = room.scored_.data();
    if (list.layout == WeightList::kBitmap) {
      kernels_->find_places(tables_.words.data() + list.first_label, static_cast<std::uint32_t>(list.length),
                            room.scored_.data(), static_cast<std::int64_t>(count), room.places_.data());
      at = room.places_.data();
    }
    kernels_->add_weights(tables_.pairs.data() + list.first_pair, at, static_cast<std::int64_t>(padded), value,
                          found.margin.data(), found.cosine.data());
  });
  for (const auto& [list, value] : room.short_lists_) score_short(*list, value, count, room);
}

// A list without array or bitmap is read to its end, or searched for every candidate.
void Predictor::score_short(const WeightList& list, float value, std::size_t count, PredictorRoom& room) const {
  RowCandidates& found = room.found;
  const std::int32_t* first = tables_.list_labels.data() + list.first_label;
  const std::int32_t* end = first + list.length;
  const std::uint32_t* pairs = tables_.pairs.data() + list.first_pair;
  const auto add = [&](std::size_t i, std::ptrdiff_t at) {
    found.margin[i] += value * from_half(pairs[at]);
    found.cosine[i] += value * from_half(pairs[at] >> 16);
  };
  if (list.length <= kSearchRatio * static_cast<std::int64_t>(count)) {
    for (const std::int32_t* at = first; at != end; ++at) {
      if (static_cast<std::size_t>(*at) >= room.slot_.size()) continue;  // of a damaged model
      const std::uint16_t slot = room.slot_[static_cast<std::size_t>(*at)];
      if (slot) add(slot - 1u, at - first);
    }
    return;
  }
  const std::int32_t* at = first;
  for (std::size_t i = 0; i < count; ++i) {
    at = std::lower_bound(at, end, room.scored_[i]);
    if (at == end) break;
    if (*at == room.scored_[i]) add(i, at - first);
  }
}

void Predictor::blend(RowCandidates& found) const {
  const std::size_t n = found.labels.size();
  found.score.resize(n);
  float* const score = found.score.data();
  for (std::size_t i = 0; i < n; ++i) {
    score[i] = blend_.head * log_head(found.margin[i]) + blend_.forest * found.forest[i] +
               blend_.centroid * found.cosine[i] + (found.forest[i] <= kNotReached ? blend_.unreached : 0.0f);
  }
  for (std::size_t i = 0; i < n; ++i) score[i] += prior_[static_cast<std::size_t>(found.labels[i])];
  const auto add = [&](float weight, const std::vector<float>& said) {
    for (std::size_t i = 0; i < said.size(); ++i) score[i] += weight * said[i];
  };
  add(blend_.clusters, found.clusters);
  add(blend_.examples, found.examples);
  add(blend_.space, found.space);
}

// Puts the candidates of the largest scores into room.ranking_, at most k of them; of equals the smaller labels first.
void Predictor::rank(std::size_t k, PredictorRoom& room) const {
  const RowCandidates& found = room.found;
  auto& ranking = room.ranking_;
  ranking.clear();
  for (std::size_t i = 0; i < found.labels.size(); ++i) {
    if (found.further[i] != kCandidate) continue;
    if (k > kFewRanks || ranking.size() < k) {
      ranking.emplace_back(-found.score[i], found.labels[i]);
    } else if (-found.score[i] < ranking.back().first) {
      ranking.back() = {-found.score[i], found.labels[i]};
    } else {
      continue;
    }
    // Labels ascend, so that one goes before all of lower scores and after all of equal ones.
    for (std::size_t at = ranking.size() - 1; k <= kFewRanks && at > 0; --at) {
      if (ranking[at - 1].first <= ranking[at].first) break;
      std::swap(ranking[at - 1], ranking[at]);
    }
  }
  if (k <= kFewRanks) return;
  const auto last = ranking.begin() + static_cast<std::ptrdiff_t>(std::min(k, ranking.size()));
  std::partial_sort(ranking.begin(), last, ranking.end());
  ranking.erase(last, ranking.end());
}

}  // namespace labelprism
