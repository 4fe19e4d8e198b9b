// What the classifiers of labels, of labels inside clusters and of clusters learn from, as lists of classes.
//
// With c labels and K clusterings, class l < c is label l, class c (1 + k) + l is label l inside its cluster of
// clustering k, and class c (1 + K) + g is cluster g.
#pragma once

#include <cstdint>

#include "csr.hpp"
#include "label_clusters.hpp"

namespace labelprism {

// Labels of rows as they are turned into classes.
struct LabelLists {
  CsrView labels;       // whose classes are wanted; ascending within a row
  CsrView own;          // the labels that the rows have
  std::int64_t n_seen;  // rows before this one meet a label inside a cluster only if the cluster is one of their own
};

// The number of all classes. Throws std::invalid_argument if they cannot be counted in 32 bits.
std::int64_t count_classes(const ClusterView& clusters);

// The ends of the lists of classes: n_rows + 1 numbers.
void find_class_ends(const LabelLists& lists, const ClusterView& clusters, int n_threads, std::int64_t* indptr);

// The lists themselves, ascending: the labels; for every clustering the labels inside clusters; the clusters of all of
// the labels, each once.
void write_classes(const LabelLists& lists, const ClusterView& clusters, const std::int64_t* indptr, int n_threads,
                   std::int32_t* classes);

}  // namespace labelprism
