#include "predictor.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "thread_pool.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kRowsPerTask = 64;
// Lists get a bitmap when they are longer than this and have at least one label in `kLabelsPerEntry`.
constexpr std::int64_t kShortList = 128, kLabelsPerEntry = 64;
// Lists become arrays by label when they are longer than this and have at least one label in `kLabelsPerDenseEntry`.
constexpr std::int64_t kShortDenseList = 16, kLabelsPerDenseEntry = 3;
// A list without a bitmap is searched for each candidate when it is so many times longer than there are candidates.
constexpr std::int64_t kSearchRatio = 16;

// Calls visit(column, row, value) for all entries, rows ascending within each column, and returns where columns begin.
template <class Visit>
std::vector<std::int64_t> by_column(const CsrView& matrix, const Visit& visit) {
  std::vector<std::int64_t> begin(static_cast<std::size_t>(matrix.n_columns) + 1, 0);
  const std::int64_t n_entries = matrix.indptr[matrix.n_rows];
  for (std::int64_t t = 0; t < n_entries; ++t) ++begin[static_cast<std::size_t>(matrix.indices[t]) + 1];
  for (std::size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
  std::vector<std::int64_t> next(begin.begin(), begin.end() - 1);
  for (std::int64_t row = 0; row < matrix.n_rows; ++row) {
    for (std::int64_t t = matrix.indptr[row]; t < matrix.indptr[row + 1]; ++t) {
      visit(next[static_cast<std::size_t>(matrix.indices[t])]++, static_cast<std::int32_t>(row), matrix.data[t]);
    }
  }
  return begin;
}

}  // namespace

// A matrix column by column, rows ascending.
struct Predictor::ByColumn {
  std::vector<std::int64_t> begin;
  std::vector<std::int32_t> label;
  std::vector<float> value;

  explicit ByColumn(const CsrView& matrix) {
    label.resize(static_cast<std::size_t>(matrix.indptr[matrix.n_rows]));
    value.resize(label.size());
    begin = by_column(matrix, [&](std::int64_t at, std::int32_t row, float entry) {
      label[static_cast<std::size_t>(at)] = row;
      value[static_cast<std::size_t>(at)] = entry;
    });
  }
};

PredictorRoom::PredictorRoom(std::int64_t n_labels)
    : forest_(n_labels), sum_(static_cast<std::size_t>(n_labels), 0.0f), slot_(static_cast<std::size_t>(n_labels), 0) {}

Predictor::Predictor(const ForestScorer& forest, const CsrView& centroids, const CsrView& head, const float* bias,
                     const float* prior, const BlendWeights& blend, const PredictorSettings& settings)
    : forest_(forest),
      blend_(blend),
      settings_(settings),
      prior_(prior, prior + forest.n_labels()),
      kernels_(&block_kernels()) {
  bias_.assign(static_cast<std::size_t>(forest.n_labels()), 0.0f);
  if (bias) bias_.assign(bias, bias + forest.n_labels());
  const ByColumn by_centroid(centroids);
  join_weights(by_centroid, ByColumn(head));
  index_centroids(by_centroid);
  pairs_.shrink_to_fit();
  list_labels_.shrink_to_fit();
  near_.shrink_to_fit();
}

void Predictor::join_weights(const ByColumn& by_centroid, const ByColumn& by_head) {
  lists_.reserve(by_head.begin.size() - 1);
  std::vector<std::int32_t> labels;
  std::vector<std::uint32_t> pairs;
  for (std::size_t feature = 0; feature + 1 < by_head.begin.size(); ++feature) {
    auto s = static_cast<std::size_t>(by_head.begin[feature]), t = static_cast<std::size_t>(by_centroid.begin[feature]);
    const auto s_end = static_cast<std::size_t>(by_head.begin[feature + 1]);
    const auto t_end = static_cast<std::size_t>(by_centroid.begin[feature + 1]);
    labels.clear();
    pairs.clear();
    while (s < s_end || t < t_end) {
      std::int32_t label = std::numeric_limits<std::int32_t>::max();
      float weight = 0, cosine = 0;
      if (s < s_end) label = by_head.label[s];
      if (t < t_end) label = std::min(label, by_centroid.label[t]);
      while (s < s_end && by_head.label[s] == label) weight += by_head.value[s++];
      while (t < t_end && by_centroid.label[t] == label) cosine += by_centroid.value[t++];
      labels.push_back(label);
      pairs.push_back(weight_pair(weight, cosine));
    }
    add_list(labels, pairs);
  }
}

void Predictor::add_list(const std::vector<std::int32_t>& labels, const std::vector<std::uint32_t>& pairs) {
  const auto length = static_cast<std::int64_t>(labels.size());
  List list{static_cast<std::int64_t>(pairs_.size()), static_cast<std::int64_t>(list_labels_.size()),
            static_cast<std::int32_t>(length), Layout::kShort};
  if (length > kShortDenseList && length * kLabelsPerDenseEntry >= n_labels()) {
    list.layout = Layout::kArray;
    pairs_.resize(pairs_.size() + static_cast<std::size_t>(n_labels()), 0);
    std::uint32_t* by_label = pairs_.data() + list.first_pair;
    for (std::size_t i = 0; i < labels.size(); ++i) by_label[labels[i]] = pairs[i];
  } else if (length > kShortList && length * kLabelsPerEntry >= n_labels()) {
    list.layout = Layout::kBitmap;
    list.first_label = static_cast<std::int64_t>(words_.size());
    words_.resize(words_.size() + static_cast<std::size_t>((n_labels() + 31) / 32), LabelWord{0, 0});
    LabelWord* words = words_.data() + list.first_label;
    for (const std::int32_t label : labels) words[label / 32].bits |= std::uint32_t{1} << (label % 32);
    for (std::size_t i = labels.size(); i-- > 0;) words[labels[i] / 32].before = static_cast<std::uint32_t>(i);
    pairs_.push_back(0);
    pairs_.insert(pairs_.end(), pairs.begin(), pairs.end());
  } else {
    list_labels_.insert(list_labels_.end(), labels.begin(), labels.end());
    pairs_.insert(pairs_.end(), pairs.begin(), pairs.end());
  }
  lists_.push_back(list);
}

void Predictor::index_centroids(const ByColumn& lists) {
  const auto longest = static_cast<std::size_t>(settings_.longest_list);
  near_begin_.push_back(0);
  std::vector<Near> list;
  for (std::size_t feature = 0; feature + 1 < lists.begin.size(); ++feature) {
    list.clear();
    for (auto t = static_cast<std::size_t>(lists.begin[feature]);
         t < static_cast<std::size_t>(lists.begin[feature + 1]); ++t) {
      list.push_back({lists.label[t], lists.value[t]});
    }
    if (list.size() > longest) {
      const auto stronger = [](const Near& a, const Near& b) {
        return a.cosine != b.cosine ? a.cosine > b.cosine : a.label < b.label;
      };
      std::nth_element(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(longest), list.end(), stronger);
      list.resize(longest);
      std::sort(list.begin(), list.end(), [](const Near& a, const Near& b) { return a.label < b.label; });
    }
    near_.insert(near_.end(), list.begin(), list.end());
    near_begin_.push_back(static_cast<std::int64_t>(near_.size()));
  }
}

void Predictor::nearest(const SparseRow& row, PredictorRoom& room) const {
  room.near_.clear();
  const auto wanted = static_cast<std::size_t>(settings_.centroid_candidates);
  if (wanted == 0) return;
  std::size_t most = 0, n_touched = 0;
  for (std::int64_t t = 0; t < row.count; ++t) {
    const auto feature = static_cast<std::size_t>(row.features[t]);
    most += static_cast<std::size_t>(near_begin_[feature + 1] - near_begin_[feature]);
  }
  if (room.touched_.size() < most) room.touched_.resize(most);
  for (std::int64_t t = 0; t < row.count; ++t) {
    const auto feature = static_cast<std::size_t>(row.features[t]);
    for (std::int64_t s = near_begin_[feature]; s < near_begin_[feature + 1]; ++s) {
      const Near& near = near_[static_cast<std::size_t>(s)];
      float& sum = room.sum_[static_cast<std::size_t>(near.label)];
      room.touched_[n_touched] = near.label;  // noted in any case and kept the first time: that needs no jump
      n_touched += sum == 0 ? 1 : 0;
      sum += row.values[t] * near.cosine;
    }
  }
  for (std::size_t i = 0; i < n_touched; ++i) {
    const std::int32_t label = room.touched_[i];
    float& sum = room.sum_[static_cast<std::size_t>(label)];
    // A sum may pass through 0 and a label be noted twice; the second time there is nothing left of it.
    const std::pair<float, std::int32_t> near{-sum, label};
    sum = 0;
    if (near.first >= 0 || (room.near_.size() == wanted && !(near < room.near_.front()))) continue;
    if (room.near_.size() == wanted) {
      std::pop_heap(room.near_.begin(), room.near_.end());
      room.near_.pop_back();
    }
    room.near_.push_back(near);
    std::push_heap(room.near_.begin(), room.near_.end());
  }
}

void Predictor::unite(PredictorRoom& room) const {
  RowCandidates& found = room.found;
  found.labels.clear();
  found.forest.clear();
  std::sort(room.near_.begin(), room.near_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::size_t s = 0, t = 0;
  const auto& reached = room.forest_.labels;
  while (s < reached.size() || t < room.near_.size()) {
    if (t == room.near_.size() || (s < reached.size() && reached[s] <= room.near_[t].second)) {
      if (t < room.near_.size() && reached[s] == room.near_[t].second) ++t;
      found.labels.push_back(reached[s]);
      found.forest.push_back(std::log(room.forest_.probabilities[s++] + 1e-4f));
    } else {
      found.labels.push_back(room.near_[t++].second);
      found.forest.push_back(kNotReached);
    }
  }
}

void Predictor::score(const SparseRow& row, PredictorRoom& room) const {
  RowCandidates& found = room.found;
  const std::size_t count = found.labels.size(), padded = (count + 7) / 8 * 8;
  found.margin.assign(padded, 0.0f);
  found.cosine.assign(padded, 0.0f);
  room.places_.assign(padded, 0);
  room.padded_.assign(padded, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t label = found.labels[i];
    found.margin[i] = bias_[static_cast<std::size_t>(label)];
    room.slot_[static_cast<std::size_t>(label)] = static_cast<std::uint16_t>(i + 1);
    room.padded_[i] = label;
  }
  for (std::int64_t t = 0; t < row.count; ++t) {
    const List& list = lists_[static_cast<std::size_t>(row.features[t])];
    if (list.layout == Layout::kShort) {
      score_short(list, row.values[t], room);
      continue;
    }
    const std::int32_t* at = room.padded_.data();
    if (list.layout == Layout::kBitmap) {
      kernels_->find_places(words_.data() + list.first_label, found.labels.data(), static_cast<std::int64_t>(count),
                            room.places_.data());
      at = room.places_.data();
    }
    kernels_->add_weights(pairs_.data() + list.first_pair, at, static_cast<std::int64_t>(padded), row.values[t],
                          found.margin.data(), found.cosine.data());
  }
  for (const std::int32_t label : found.labels) room.slot_[static_cast<std::size_t>(label)] = 0;
}

// A list without array or bitmap is read to its end, or searched for every candidate.
void Predictor::score_short(const List& list, float value, PredictorRoom& room) const {
  RowCandidates& found = room.found;
  const std::int32_t* first = list_labels_.data() + list.first_label;
  const std::int32_t* end = first + list.length;
  const std::uint32_t* pairs = pairs_.data() + list.first_pair;
  const auto add = [&](std::size_t i, std::ptrdiff_t at) {
    found.margin[i] += value * from_half(pairs[at]);
    found.cosine[i] += value * from_half(pairs[at] >> 16);
  };
  if (list.length <= kSearchRatio * static_cast<std::int64_t>(found.labels.size())) {
    for (const std::int32_t* at = first; at != end; ++at) {
      const std::uint16_t slot = room.slot_[static_cast<std::size_t>(*at)];
      if (slot) add(slot - 1u, at - first);
    }
    return;
  }
  const std::int32_t* at = first;
  for (std::size_t i = 0; i < found.labels.size(); ++i) {
    at = std::lower_bound(at, end, found.labels[i]);
    if (at == end) break;
    if (*at == found.labels[i]) add(i, at - first);
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

void Predictor::find(const SparseRow& given, std::int64_t wanted, const Routing& routing, bool scored,
                     PredictorRoom& room) const {
  const SparseRow row = prepared(given, room);
  forest_.score(row, std::max(settings_.forest_candidates, wanted), routing, room.forest_);
  nearest(row, room);
  unite(room);
  if (scored) score(row, room);
}

void Predictor::predict(const SparseRow& row, std::int64_t k, const Routing& routing, PredictorRoom& room,
                        std::int32_t* labels, float* scores) const {
  find(row, k, routing, true, room);
  const RowCandidates& found = room.found;
  auto& ranking = room.ranking_;
  ranking.clear();
  for (std::size_t i = 0; i < found.labels.size(); ++i) {
    const float score = blend_.head * log_head(found.margin[i]) + blend_.forest * found.forest[i] +
                        blend_.centroid * found.cosine[i] + prior_[static_cast<std::size_t>(found.labels[i])];
    ranking.emplace_back(-score, found.labels[i]);
  }
  const std::size_t best = std::min(static_cast<std::size_t>(k), ranking.size());
  std::partial_sort(ranking.begin(), ranking.begin() + static_cast<std::ptrdiff_t>(best), ranking.end());
  for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
    labels[i] = i < best ? ranking[i].second : -1;
    scores[i] = i < best ? -ranking[i].first : -std::numeric_limits<float>::infinity();
  }
}

namespace {

SparseRow row_of(const CsrView& X, std::int64_t row) {
  const std::int64_t first = X.indptr[row];
  return {X.indices + first, X.data + first, X.indptr[row + 1] - first};
}

}  // namespace

void predict_rows(const Predictor& predictor, const CsrView& X, std::int64_t k, const Routing& routing, int n_threads,
                  std::int32_t* labels, float* scores) {
  parallel_ranges(X.n_rows, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    predictor.with_room([&](PredictorRoom& room) {
      for (std::int64_t row = begin; row < end; ++row) {
        predictor.predict(row_of(X, row), k, routing, room, labels + row * k, scores + row * k);
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
        predictor.find(row_of(X, row), 1, routing, scored, room);
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

}  // namespace labelprism
