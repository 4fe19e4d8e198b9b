// Labels in clusters of nearly the same size, by balanced 2-means on the unit centroids of the labels.
#pragma once

#include <cstdint>

#include "csr.hpp"

namespace labelprism {

// Clusterings of the labels: in clustering k, label j is in cluster of_label[k * n_labels + j].
struct ClusterView {
  std::int64_t n_clusterings;
  std::int64_t n_labels;
  const std::int32_t* of_label;
  std::int64_t n_clusters;  // of all clusterings together, numbered through
};

struct ClusterSettings {
  std::int64_t n_clusterings;  // that differ by their random numbers alone
  std::int64_t most_labels;    // a cluster has no more
  std::uint64_t seed;
};

// Halves the set of all labels, then the halves, and so on, until no set has more than most_labels. The two sides of a
// set differ by at most one label in size. `centroids` has a row for every label, sorted, of norm 1 at most, or empty.
// Writes the cluster of every label, n_clusterings x n_labels; clusters are numbered through, those of the first
// clustering first, and neighbours in a tree are neighbours in number. Returns the number of all clusters.
std::int64_t cluster_labels(const CsrView& centroids, const ClusterSettings& settings, int n_threads,
                            std::int32_t* cluster_of_label);

}  // namespace labelprism
