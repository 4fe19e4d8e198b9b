#include "label_tables.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "node_rows.hpp"
#include "nth_largest.hpp"
#include "thread_pool.hpp"

namespace labelprism {
namespace {

// Lists get a bitmap when they are longer than this and it takes no more room than they do, 8 bytes for 32 labels.
constexpr std::int64_t kShortList = 128, kLabelsPerSmallEntry = 16;
// Those that are long enough to be read faster with one may be a quarter of its size.
constexpr std::int64_t kLongList = 384, kLabelsPerEntry = 64;
// Lists become arrays by label when they are longer than this and have at least one label in `kLabelsPerDenseEntry`.
// Few labels are read eight at a time, so that shorter lists are faster as arrays too.
constexpr std::int64_t kShortDenseList = 16, kLabelsPerDenseEntry = 3;
constexpr std::int64_t kFewLabels = 512, kFewLabelsPerDenseEntry = 8;

constexpr std::int64_t kFeaturesPerTask = 64, kLabelsPerTask = 256;

// What head and centroid of a label have for a feature.
struct JoinedEntry {
  std::uint32_t label;  // with kHasCentroid where the centroid has the feature, be it with a weight of 0
  std::uint32_t pair;
};
constexpr std::uint32_t kHasCentroid = 0x80000000u;

// Head and centroids feature by feature, labels ascending.
//
// Labels are taken in ascending order, so an entry of a label either comes after all that a feature has, or meets the
// entry that its label made just before. Threads take parts of the labels, with places of their own for every feature.
class JoinedWeights {
 public:
  JoinedWeights(const CsrView& centroids, const CsrView& head, int n_threads) {
    const std::int64_t n_entries = centroids.indptr[centroids.n_rows] + head.indptr[head.n_rows];
    // Every part has places for all features, which must not take more memory than the entries do.
    const std::int64_t n_parts =
        std::clamp<std::int64_t>(n_entries / (4 * centroids.n_columns + 1), 1, std::max(n_threads, 1));
    std::vector<std::int64_t> first_label;
    for (std::int64_t part = 0; part <= n_parts; ++part) {
      first_label.push_back(label_of_entry(centroids, head, n_entries / n_parts * part, part == n_parts));
    }
    parts_.resize(static_cast<std::size_t>(n_parts));
    const auto for_parts = [&](const auto& use) {
      parallel_for(n_parts, n_threads, [&](std::int64_t number) {
        const auto part = static_cast<std::size_t>(number);
        use(parts_[part], first_label[part], first_label[part + 1]);
      });
    };
    const auto n_features = static_cast<std::size_t>(centroids.n_columns);
    for_parts([&](Part& part, std::int64_t begin, std::int64_t end) {
      part.places.assign(n_features, Place{0, -1, 0});
      for (const CsrView* matrix : {&centroids, &head}) {
        for (std::int64_t t = matrix->indptr[begin]; t < matrix->indptr[end]; ++t) {
          ++part.places[static_cast<std::size_t>(matrix->indices[t])].end;
        }
      }
      part.first.resize(n_features);
    });
    std::int64_t before = 0;
    for (std::size_t feature = 0; feature < n_features; ++feature) {
      for (Part& part : parts_) {
        part.first[feature] = before;
        before += std::exchange(part.places[feature].end, before);
      }
    }
    entries_.resize(static_cast<std::size_t>(n_entries));
    for_parts([&](Part& part, std::int64_t begin, std::int64_t end) {
      for (std::int64_t label = begin; label < end; ++label) {
        for (std::int64_t t = head.indptr[label]; t < head.indptr[label + 1]; ++t) {
          std::uint32_t& pair = entry_of(label, part.place(head.indices[t])).pair;
          pair = (pair & 0xFFFF0000u) | to_half(from_half(pair) + head.data[t]);
        }
        for (std::int64_t t = centroids.indptr[label]; t < centroids.indptr[label + 1]; ++t) {
          Place& place = part.place(centroids.indices[t]);
          JoinedEntry& found = entry_of(label, place);
          place.n_centroids += (found.label & kHasCentroid) == 0;
          found.label |= kHasCentroid;
          found.pair = (found.pair & 0xFFFFu) | to_half(from_half(found.pair >> 16) + centroids.data[t]) << 16;
        }
      }
    });
  }

  std::int64_t length(std::int64_t feature) const {
    std::int64_t found = 0;
    for (const Part& part : parts_) found += part.end(feature) - part.begin(feature);
    return found;
  }

  std::int64_t n_centroids(std::int64_t feature) const {
    std::int64_t found = 0;
    for (const Part& part : parts_) found += part.places[static_cast<std::size_t>(feature)].n_centroids;
    return found;
  }

  // Calls visit(entry) for the labels of a feature, ascending.
  template <class Visit>
  void visit(std::int64_t feature, const Visit& visit) const {
    for (const Part& part : parts_) {
      for (std::int64_t t = part.begin(feature); t < part.end(feature); ++t) {
        visit(entries_[static_cast<std::size_t>(t)]);
      }
    }
  }

 private:
  struct Place {
    std::int64_t end;  // of the entries of a feature so far
    std::int32_t last_label;
    std::int32_t n_centroids;  // of these
  };
  struct Part {
    LargeVector<std::int64_t> first;
    LargeVector<Place> places;

    Place& place(std::int32_t feature) { return places[static_cast<std::size_t>(feature)]; }
    std::int64_t begin(std::int64_t feature) const { return first[static_cast<std::size_t>(feature)]; }
    std::int64_t end(std::int64_t feature) const { return places[static_cast<std::size_t>(feature)].end; }
  };

  // The first label that has no entry before this one of all.
  static std::int64_t label_of_entry(const CsrView& centroids, const CsrView& head, std::int64_t entry, bool is_end) {
    std::int64_t low = 0, high = centroids.n_rows;
    if (is_end) return high;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (centroids.indptr[middle] + head.indptr[middle] < entry) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  JoinedEntry& entry_of(std::int64_t label, Place& place) {
    if (place.last_label != label) {
      place.last_label = static_cast<std::int32_t>(label);
      entries_[static_cast<std::size_t>(place.end++)] = {static_cast<std::uint32_t>(label), 0};
    }
    return entries_[static_cast<std::size_t>(place.end - 1)];
  }

  std::vector<Part> parts_;
  LargeVector<JoinedEntry> entries_;
};

// The labels whose centroids have the feature at hand: weights, as numbers that can be ranked, and sums of examples.
struct ListRoom {
  std::vector<std::int32_t> labels;
  std::vector<std::uint16_t> ordered;
  std::vector<double> sums;
};

// The lists of StrongestLabels, whose lengths are known beforehand.
class StrongestLists {
 public:
  StrongestLists(const JoinedWeights& joined, std::int64_t n_features, std::int64_t longest)
      : longest_(longest), begin_(static_cast<std::size_t>(n_features) + 1) {
    begin_[0] = 0;
    for (std::size_t i = 0; i + 1 < begin_.size(); ++i) {
      begin_[i + 1] = begin_[i] + std::min(joined.n_centroids(static_cast<std::int64_t>(i)), longest);
    }
    label_.resize(static_cast<std::size_t>(begin_.back()));
    weight_.resize(label_.size());
  }

  // Takes the strongest of some labels by their weights. Of equals the smaller labels are kept.
  void write(std::int64_t feature, const std::vector<std::int32_t>& labels, const std::vector<std::uint16_t>& ordered) {
    auto at = static_cast<std::size_t>(begin_[static_cast<std::size_t>(feature)]);
    const auto add = [&](std::size_t i) {
      label_[at] = labels[i];
      weight_[at++] = half_of_ordered(ordered[i]);
    };
    if (static_cast<std::int64_t>(labels.size()) <= longest_) {
      for (std::size_t i = 0; i < labels.size(); ++i) add(i);
    } else {
      Threshold<std::uint16_t> least = threshold_of_halves(ordered.data(), labels.size(), longest_);
      for (std::size_t i = 0; i < labels.size(); ++i) {
        if (least.admits(ordered[i])) add(i);
      }
    }
  }

  StrongestLabels taken() {
    StrongestLabels made;
    made.begin = Stored(std::move(begin_));
    made.label = Stored(std::move(label_));
    made.weight = Stored(std::move(weight_));
    return made;
  }

 private:
  std::int64_t longest_;
  LargeVector<std::int64_t> begin_;
  LargeVector<std::int32_t> label_;
  LargeVector<std::uint16_t> weight_;
};

// Makes all lists: their sizes first, so that every array is made once and features are written in any order.
class TablesBuilder {
 public:
  TablesBuilder(const CsrView& centroids, const CsrView& head, const double* norms, const LongestLists& longest,
                bool by_label, int n_threads)
      : centroids_(centroids),
        head_(head),
        n_labels_(centroids.n_rows),
        n_features_(centroids.n_columns),
        norms_(norms),
        has_near_(longest.near > 0),
        has_votes_(longest.votes > 0),
        by_label_(by_label),
        n_threads_(n_threads),
        no_entries_(by_label ? static_cast<std::size_t>(n_labels_) + 1 : 0, 0),
        joined_(centroids, by_label ? CsrView{n_labels_, n_features_, no_entries_.data(), nullptr, nullptr} : head,
                n_threads),
        near_(joined_, n_features_, longest.near),
        votes_(joined_, has_votes_ ? n_features_ : 0, longest.votes) {
    if (by_label) {
      place_own_lists();
    } else {
      place_lists();
    }
  }

  LabelTables build() {
    Lender<ListRoom> rooms;
    parallel_ranges(n_features_, kFeaturesPerTask, n_threads_, [&](std::int64_t begin, std::int64_t end) {
      rooms.lend([&](ListRoom& room) {
        for (std::int64_t feature = begin; feature < end; ++feature) {
          if (!by_label_) write_list(feature);
          write_strongest(feature, room);
        }
      });
    });
    if (by_label_) write_own_lists();
    LabelTables made;
    made.n_labels = n_labels_;
    made.n_features = n_features_;
    made.lists = Stored(std::move(lists_));
    made.list_labels = Stored(std::move(list_labels_));
    made.pairs = Stored(std::move(pairs_));
    made.words = Stored(std::move(words_));
    made.near = near_.taken();
    if (has_votes_) made.votes = votes_.taken();
    return made;
  }

 private:
  // Calls visit(feature, pair) for the features of a label, ascending.
  template <class Visit>
  void visit_label(std::int64_t label, const Visit& visit) const {
    std::int64_t s = head_.indptr[label], t = centroids_.indptr[label];
    const std::int64_t s_end = head_.indptr[label + 1], t_end = centroids_.indptr[label + 1];
    while (s < s_end || t < t_end) {
      const std::int32_t feature = t == t_end || (s < s_end && head_.indices[s] < centroids_.indices[t])
                                       ? head_.indices[s]
                                       : centroids_.indices[t];
      const bool has_head = s < s_end && head_.indices[s] == feature;
      const bool has_centroid = t < t_end && centroids_.indices[t] == feature;
      const std::uint32_t weight = has_head ? to_half(head_.data[s]) : 0;
      visit(feature, weight | (has_centroid ? to_half(centroids_.data[t]) : 0) << 16);
      s += has_head;
      t += has_centroid;
    }
  }

  template <class Use>
  void for_labels(const Use& use) const {
    parallel_ranges(n_labels_, kLabelsPerTask, n_threads_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t label = begin; label < end; ++label) use(label);
    });
  }

  void place_own_lists() {
    lists_.resize(static_cast<std::size_t>(n_labels_));
    for_labels([&](std::int64_t label) {
      std::int32_t length = 0;
      visit_label(label, [&](std::int32_t, std::uint32_t) { ++length; });
      lists_[static_cast<std::size_t>(label)] = {0, 0, length, WeightList::kByLabel};
    });
    std::int64_t before = 0;
    for (WeightList& list : lists_) {
      list.first_pair = list.first_label = before;
      before += list.length;
    }
    pairs_.resize(static_cast<std::size_t>(before));
    list_labels_.resize(static_cast<std::size_t>(before));
  }

  void write_own_lists() {
    for_labels([&](std::int64_t label) {
      auto at = static_cast<std::size_t>(lists_[static_cast<std::size_t>(label)].first_pair);
      visit_label(label, [&](std::int32_t feature, std::uint32_t pair) {
        list_labels_[at] = feature;
        pairs_[at++] = pair;
      });
    });
  }

  void place_lists() {
    const std::int64_t dense_ratio = n_labels_ <= kFewLabels ? kFewLabelsPerDenseEntry : kLabelsPerDenseEntry;
    std::int64_t n_pairs = 0, n_list_labels = 0, n_words = 0;
    lists_.reserve(static_cast<std::size_t>(n_features_));
    for (std::int64_t feature = 0; feature < n_features_; ++feature) {
      const std::int64_t length = joined_.length(feature);
      WeightList list{n_pairs, n_list_labels, static_cast<std::int32_t>(length), WeightList::kShort};
      if (length > kShortDenseList && length * dense_ratio >= n_labels_) {
        list.layout = WeightList::kArray;
        n_pairs += n_labels_;
      } else if (length > kShortList &&
                 length * (length > kLongList ? kLabelsPerEntry : kLabelsPerSmallEntry) >= n_labels_) {
        list.layout = WeightList::kBitmap;
        list.first_label = n_words;
        n_words += words_of(n_labels_);
        n_pairs += length + 1;
      } else {
        n_pairs += length;
        n_list_labels += length;
      }
      lists_.push_back(list);
    }
    pairs_.resize(static_cast<std::size_t>(n_pairs));
    list_labels_.resize(static_cast<std::size_t>(n_list_labels));
    words_.resize(static_cast<std::size_t>(n_words));
  }

  void write_list(std::int64_t feature) {
    const WeightList& list = lists_[static_cast<std::size_t>(feature)];
    std::uint32_t* pair = pairs_.data() + list.first_pair;
    if (list.layout == WeightList::kArray) {
      std::fill(pair, pair + n_labels_, 0u);
      joined_.visit(feature, [&](const JoinedEntry& entry) { pair[entry.label & ~kHasCentroid] = entry.pair; });
    } else if (list.layout == WeightList::kBitmap) {
      LabelWord* const words = words_.data() + list.first_label;
      std::fill(words, words + words_of(n_labels_), LabelWord{0, 0});
      std::uint32_t place = 0;
      *pair = 0;
      joined_.visit(feature, [&](const JoinedEntry& entry) {
        const std::uint32_t label = entry.label & ~kHasCentroid;
        LabelWord& word = words[label / 32];
        if (word.bits == 0) word.before = place;
        word.bits |= std::uint32_t{1} << (label % 32);
        pair[++place] = entry.pair;
      });
    } else {
      std::int32_t* label = list_labels_.data() + list.first_label;
      joined_.visit(feature, [&](const JoinedEntry& entry) {
        *label++ = static_cast<std::int32_t>(entry.label & ~kHasCentroid);
        *pair++ = entry.pair;
      });
    }
  }

  void write_strongest(std::int64_t feature, ListRoom& room) {
    const auto length = static_cast<std::size_t>(joined_.length(feature));
    room.labels.resize(length);
    room.ordered.resize(length);
    std::size_t count = 0;
    joined_.visit(feature, [&](const JoinedEntry& entry) {
      room.labels[count] = static_cast<std::int32_t>(entry.label & ~kHasCentroid);
      room.ordered[count] = ordered_half(entry.pair >> 16);
      count += (entry.label & kHasCentroid) != 0;
    });
    room.labels.resize(count);
    if (has_near_) near_.write(feature, room.labels, room.ordered);
    if (!has_votes_) return;
    // The sum of a label's examples is its centroid times the norm.
    room.sums.resize(count);
    double total = std::numeric_limits<double>::min();
    for (std::size_t i = 0; i < count; ++i) {
      room.sums[i] = from_half(half_of_ordered(room.ordered[i])) * norms_[room.labels[i]];
      total += std::fabs(room.sums[i]);
    }
    // Ranked as it is stored: labels of the same share stay equal however their sums were rounded.
    for (std::size_t i = 0; i < count; ++i) {
      room.ordered[i] = ordered_half(to_half(static_cast<float>(room.sums[i] / total)));
    }
    votes_.write(feature, room.labels, room.ordered);
  }

  const CsrView& centroids_;
  const CsrView& head_;
  std::int64_t n_labels_, n_features_;
  const double* norms_;
  bool has_near_, has_votes_, by_label_;
  int n_threads_;
  std::vector<std::int64_t> no_entries_;  // ends of lists of nothing: the head's, where weights lie label by label
  JoinedWeights joined_;
  StrongestLists near_, votes_;
  LargeVector<WeightList> lists_;
  LargeVector<std::int32_t> list_labels_;
  LargeVector<std::uint32_t> pairs_;
  LargeVector<LabelWord> words_;
};

}  // namespace

LabelTables label_tables(const CsrView& centroids, const CsrView& head, const double* norms,
                         const LongestLists& longest, bool by_label, int n_threads) {
  return TablesBuilder(centroids, head, norms, longest, by_label, n_threads).build();
}

}  // namespace labelprism
