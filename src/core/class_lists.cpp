#include "class_lists.hpp"

#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "node_rows.hpp"
#include "ordered_set.hpp"
#include "thread_pool.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kRowsPerTask = 256;

struct ClassRoom {
  OrderedSet met;
  std::vector<std::uint8_t> is_own;  // whether a cluster is one of the row's own labels
};

struct Range {
  const std::int32_t *first, *last;
  const std::int32_t* begin() const { return first; }
  const std::int32_t* end() const { return last; }
};

Range row_of(const CsrView& lists, std::int64_t row) {
  return {lists.indices + lists.indptr[row], lists.indices + lists.indptr[row + 1]};
}

// Calls visit(class) for the classes of a row, in ascending order.
template <class Visit>
void visit_classes(const LabelLists& lists, const ClusterView& clusters, std::int64_t row, ClassRoom& room,
                   const Visit& visit) {
  const std::int64_t c = clusters.n_labels;
  const bool meets_all = row >= lists.n_seen;
  const Range labels = row_of(lists.labels, row);
  for (const std::int32_t label : labels) visit(label);
  for (std::int64_t k = 0; k < clusters.n_clusterings; ++k) {
    const std::int32_t* const of_label = clusters.of_label + k * c;
    if (meets_all) {
      for (const std::int32_t label : labels) {
        room.met.insert(of_label[label]);
        visit(c * (1 + k) + label);
      }
      continue;
    }
    const Range own = row_of(lists.own, row);
    for (const std::int32_t label : own) room.is_own[static_cast<std::size_t>(of_label[label])] = 1;
    for (const std::int32_t label : labels) {
      const std::int32_t cluster = of_label[label];
      room.met.insert(cluster);
      if (room.is_own[static_cast<std::size_t>(cluster)]) visit(c * (1 + k) + label);
    }
    for (const std::int32_t label : own) room.is_own[static_cast<std::size_t>(of_label[label])] = 0;
  }
  room.met.empty([&](std::int64_t cluster) { visit(c * (1 + clusters.n_clusterings) + cluster); });
}

template <class Use>
void for_every_row(const LabelLists& lists, const ClusterView& clusters, int n_threads, const Use& use) {
  Lender<ClassRoom> rooms;
  parallel_ranges(lists.labels.n_rows, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    rooms.lend([&](ClassRoom& room) {
      if (room.is_own.empty()) {
        room.met.make_room(clusters.n_clusters);
        room.is_own.assign(static_cast<std::size_t>(clusters.n_clusters), 0);
      }
      for (std::int64_t row = begin; row < end; ++row) use(row, room);
    });
  });
}

}  // namespace

std::int64_t count_classes(const ClusterView& clusters) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const std::int64_t of_labels = clusters.n_labels * (1 + clusters.n_clusterings);
  if (of_labels > most || clusters.n_clusters > most - of_labels) {
    throw std::invalid_argument("too many classes: " + std::to_string(clusters.n_labels) + " labels in " +
                                std::to_string(clusters.n_clusterings) + " clusterings and " +
                                std::to_string(clusters.n_clusters) + " clusters are more than " +
                                std::to_string(most) + "; take fewer clusterings");
  }
  return of_labels + clusters.n_clusters;
}

void find_class_ends(const LabelLists& lists, const ClusterView& clusters, int n_threads, std::int64_t* indptr) {
  for_every_row(lists, clusters, n_threads, [&](std::int64_t row, ClassRoom& room) {
    std::int64_t count = 0;
    visit_classes(lists, clusters, row, room, [&](std::int64_t) { ++count; });
    indptr[row + 1] = count;
  });
  indptr[0] = 0;
  for (std::int64_t row = 0; row < lists.labels.n_rows; ++row) indptr[row + 1] += indptr[row];
}

void write_classes(const LabelLists& lists, const ClusterView& clusters, const std::int64_t* indptr, int n_threads,
                   std::int32_t* classes) {
  for_every_row(lists, clusters, n_threads, [&](std::int64_t row, ClassRoom& room) {
    std::int32_t* out = classes + indptr[row];
    visit_classes(lists, clusters, row, room, [&](std::int64_t number) { *out++ = static_cast<std::int32_t>(number); });
  });
}

}  // namespace labelprism
