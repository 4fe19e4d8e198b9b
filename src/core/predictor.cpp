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
constexpr std::int64_t kShortDenseList = 16, kLabelsPerDenseEntry = 8;
// As the instruction, which not every processor has, and without the call that stands in for it.
inline std::int64_t count_bits(std::uint64_t bits) {
  bits -= (bits >> 1) & 0x5555555555555555u;
  bits = (bits & 0x3333333333333333u) + ((bits >> 2) & 0x3333333333333333u);
  bits = (bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
  return static_cast<std::int64_t>((bits * 0x0101010101010101u) >> 56);
}

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

struct ByColumn {
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

}  // namespace

PredictorRoom::PredictorRoom(std::int64_t n_labels)
    : forest_(n_labels), sum_(static_cast<std::size_t>(n_labels), 0.0f), slot_(static_cast<std::size_t>(n_labels), 0) {}

Predictor::Predictor(const ForestScorer& forest, const CsrView& centroids, const CsrView& head, const float* bias,
                     const float* prior, const BlendWeights& blend, const PredictorSettings& settings)
    : forest_(forest), blend_(blend), settings_(settings), prior_(prior, prior + forest.n_labels()) {
  bias_.assign(static_cast<std::size_t>(forest.n_labels()), 0.0f);
  if (bias) bias_.assign(bias, bias + forest.n_labels());
  join_weights(centroids, head);
  index_long_lists();
  index_centroids(centroids);
}

void Predictor::join_weights(const CsrView& centroids, const CsrView& head) {
  const ByColumn by_centroid(centroids), by_head(head);
  begin_.push_back(0);
  list_labels_.reserve(by_head.label.size() + by_centroid.label.size() / 2);
  list_weights_.reserve(list_labels_.capacity());
  for (std::size_t feature = 0; feature + 1 < by_head.begin.size(); ++feature) {
    auto s = static_cast<std::size_t>(by_head.begin[feature]), t = static_cast<std::size_t>(by_centroid.begin[feature]);
    const auto s_end = static_cast<std::size_t>(by_head.begin[feature + 1]);
    const auto t_end = static_cast<std::size_t>(by_centroid.begin[feature + 1]);
    while (s < s_end || t < t_end) {
      std::int32_t label = std::numeric_limits<std::int32_t>::max();
      Weights weights{0, 0};
      if (s < s_end) label = by_head.label[s];
      if (t < t_end) label = std::min(label, by_centroid.label[t]);
      while (s < s_end && by_head.label[s] == label) weights.head += by_head.value[s++];
      while (t < t_end && by_centroid.label[t] == label) weights.cosine += by_centroid.value[t++];
      list_labels_.push_back(label);
      list_weights_.push_back(weights);
    }
    begin_.push_back(static_cast<std::int64_t>(list_labels_.size()));
  }
}

void Predictor::index_long_lists() {
  const std::int64_t n_words = (n_labels() + 63) / 64;
  first_word_.assign(begin_.size() - 1, -1);
  first_dense_.assign(begin_.size() - 1, -1);
  for (std::size_t feature = 0; feature + 1 < begin_.size(); ++feature) {
    const std::int64_t first = begin_[feature], length = begin_[feature + 1] - first;
    if (length > kShortDenseList && length * kLabelsPerDenseEntry >= n_labels()) {
      first_dense_[feature] = static_cast<std::int64_t>(dense_.size());
      dense_.resize(dense_.size() + static_cast<std::size_t>(n_labels()), Weights{0, 0});
      for (std::int64_t t = first; t < first + length; ++t) {
        const auto at = static_cast<std::size_t>(t);
        dense_[static_cast<std::size_t>(first_dense_[feature] + list_labels_[at])] = list_weights_[at];
      }
      continue;
    }
    if (length <= kShortList || length * kLabelsPerEntry < n_labels()) continue;
    first_word_[feature] = static_cast<std::int64_t>(words_.size());
    words_.resize(words_.size() + static_cast<std::size_t>(n_words), Word{0, 0});
    Word* words = words_.data() + first_word_[feature];
    for (std::int64_t t = first; t < first + length; ++t) {
      const std::int32_t label = list_labels_[static_cast<std::size_t>(t)];
      words[label / 64].bits |= std::uint64_t{1} << (label % 64);
    }
    std::int64_t before = 0;
    for (std::int64_t i = 0; i < n_words; ++i) {
      words[i].before = before;
      before += count_bits(words[i].bits);
    }
  }
}

void Predictor::index_centroids(const CsrView& centroids) {
  const ByColumn lists(centroids);
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
  room.touched_.clear();
  for (std::int64_t t = 0; t < row.count; ++t) {
    const auto feature = static_cast<std::size_t>(row.features[t]);
    for (std::int64_t s = near_begin_[feature]; s < near_begin_[feature + 1]; ++s) {
      const Near& near = near_[static_cast<std::size_t>(s)];
      float& sum = room.sum_[static_cast<std::size_t>(near.label)];
      if (sum == 0) room.touched_.push_back(near.label);
      sum += row.values[t] * near.cosine;
    }
  }
  for (const std::int32_t label : room.touched_) {
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
  const std::size_t count = found.labels.size();
  found.margin.resize(count);
  found.cosine.assign(count, 0.0f);
  for (std::size_t i = 0; i < count; ++i) {
    found.margin[i] = bias_[static_cast<std::size_t>(found.labels[i])];
    room.slot_[static_cast<std::size_t>(found.labels[i])] = static_cast<std::uint16_t>(i + 1);
  }
  const std::int64_t long_list = kSearchRatio * static_cast<std::int64_t>(count);
  for (std::int64_t t = 0; t < row.count; ++t) {
    const auto feature = static_cast<std::size_t>(row.features[t]);
    const float value = row.values[t];
    const std::int32_t* first = list_labels_.data() + begin_[feature];
    const std::int32_t* end = list_labels_.data() + begin_[feature + 1];
    const Weights* weights = list_weights_.data() + begin_[feature];
    const auto add = [&](std::size_t i, std::ptrdiff_t at) {
      found.margin[i] += value * weights[at].head;
      found.cosine[i] += value * weights[at].cosine;
    };
    if (first_dense_[feature] >= 0) {
      const Weights* dense = dense_.data() + first_dense_[feature];
      for (std::size_t i = 0; i < count; ++i) {
        const Weights& weights_of_label = dense[found.labels[i]];
        found.margin[i] += value * weights_of_label.head;
        found.cosine[i] += value * weights_of_label.cosine;
      }
    } else if (first_word_[feature] >= 0) {
      const Word* words = words_.data() + first_word_[feature];
      for (std::size_t i = 0; i < count; ++i) {
        const Word& word = words[found.labels[i] / 64];
        const std::uint64_t bit = std::uint64_t{1} << (found.labels[i] % 64);
        if (word.bits & bit) add(i, word.before + count_bits(word.bits & (bit - 1)));
      }
    } else if (end - first <= long_list) {
      for (const std::int32_t* at = first; at != end; ++at) {
        const std::uint16_t slot = room.slot_[static_cast<std::size_t>(*at)];
        if (slot) add(slot - 1u, at - first);
      }
    } else {
      const std::int32_t* at = first;
      for (std::size_t i = 0; i < count; ++i) {
        at = std::lower_bound(at, end, found.labels[i]);
        if (at == end) break;
        if (*at == found.labels[i]) add(i, at - first);
      }
    }
  }
  for (const std::int32_t label : found.labels) room.slot_[static_cast<std::size_t>(label)] = 0;
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

void Predictor::find(const SparseRow& given, std::int64_t wanted, const Routing& routing, PredictorRoom& room) const {
  const SparseRow row = prepared(given, room);
  forest_.score(row, std::max(settings_.forest_candidates, wanted), routing, room.forest_);
  nearest(row, room);
  unite(room);
  score(row, room);
}

void Predictor::predict(const SparseRow& row, std::int64_t k, const Routing& routing, PredictorRoom& room,
                        std::int32_t* labels, float* scores) const {
  find(row, k, routing, room);
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

void find_candidates(const Predictor& predictor, const CsrView& X, const Routing& routing, int n_threads,
                     GrowingCsr& candidates, Buffer<float>& cosine, Buffer<float>& margin) {
  const auto n_tasks = static_cast<std::size_t>((X.n_rows + kRowsPerTask - 1) / kRowsPerTask);
  std::vector<GrowingCsr> pieces(n_tasks);
  std::vector<std::vector<float>> cosines(n_tasks), margins(n_tasks);
  parallel_ranges(X.n_rows, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    predictor.with_room([&](PredictorRoom& room) {
      const auto task = static_cast<std::size_t>(begin / kRowsPerTask);
      const RowCandidates& found = room.found;
      for (std::int64_t row = begin; row < end; ++row) {
        predictor.find(row_of(X, row), 1, routing, room);
        pieces[task].indices.append(found.labels.data(), found.labels.size());
        pieces[task].data.append(found.forest.data(), found.forest.size());
        pieces[task].end_row();
        cosines[task].insert(cosines[task].end(), found.cosine.begin(), found.cosine.end());
        margins[task].insert(margins[task].end(), found.margin.begin(), found.margin.end());
      }
    });
  });
  candidates.join(pieces);
  for (const auto& piece : cosines) cosine.append(piece.data(), piece.size());
  for (const auto& piece : margins) margin.append(piece.data(), piece.size());
}

}  // namespace labelprism
