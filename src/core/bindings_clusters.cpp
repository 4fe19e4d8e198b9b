// Clusters of labels and the classes that are made of them, as Python sees them.
#include "bindings.hpp"
#include "class_lists.hpp"
#include "label_clusters.hpp"

namespace labelprism {
namespace {

using Lists = std::pair<NewArray<std::int64_t>, NewArray<std::int32_t>>;

constexpr float kLargestOfUnitRow = 1.001f;  // rounded to 16 bits, perhaps

ClusterView checked_clusters(const Matrix<std::int32_t>& clusters, std::int64_t n_clusters) {
  require(0 <= n_clusters && n_clusters <= INT32_MAX, "there must be 0 to 2147483647 clusters");
  require(all_below(clusters.data(), clusters.size(), n_clusters), "a cluster is out of range");
  const ClusterView view{static_cast<std::int64_t>(clusters.shape(0)), static_cast<std::int64_t>(clusters.shape(1)),
                         clusters.data(), n_clusters};
  count_classes(view);
  return view;
}

Lists class_lists(const LabelLists& lists, const ClusterView& clusters, int n_threads) {
  std::int64_t* indptr;
  std::int32_t* classes;
  NewArray<std::int64_t> ends = new_array({static_cast<std::size_t>(lists.labels.n_rows) + 1}, &indptr);
  {
    const nb::gil_scoped_release release;
    find_class_ends(lists, clusters, n_threads, indptr);
  }
  NewArray<std::int32_t> found = new_array({static_cast<std::size_t>(indptr[lists.labels.n_rows])}, &classes);
  {
    const nb::gil_scoped_release release;
    write_classes(lists, clusters, indptr, n_threads, classes);
  }
  return {ends, found};
}

}  // namespace

void bind_clusters(nb::module_& m) {
  m.def(
      "cluster_labels",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, std::int64_t n_features,
         std::int64_t n_clusterings, std::int64_t most_labels, std::uint64_t seed, int n_threads) {
        const CsrView centroids = checked_csr(indptr, indices, data, n_features);
        require(all_within(data, -kLargestOfUnitRow, kLargestOfUnitRow),
                "centroids must be rows of norm 1: a value is above 1 in size, or NaN");
        require(n_clusterings >= 1 && most_labels >= 1, "n_clusterings and most_labels must be at least 1");
        require(centroids.n_rows == 0 || n_clusterings <= INT32_MAX / centroids.n_rows,
                "there are too many labels and clusterings: their product must be below 2147483648");
        std::int32_t* cluster_of_label;
        NewArray<std::int32_t> clusters = new_array(
            {static_cast<std::size_t>(n_clusterings), static_cast<std::size_t>(centroids.n_rows)}, &cluster_of_label);
        std::int64_t n_clusters;
        {
          const nb::gil_scoped_release release;
          n_clusters = cluster_labels(centroids, {n_clusterings, most_labels, seed}, n_threads, cluster_of_label);
        }
        return std::pair<NewArray<std::int32_t>, std::int64_t>(clusters, n_clusters);
      },
      array("indptr"), array("indices"), array("data"), "n_features"_a, "n_clusterings"_a, "most_labels"_a, "seed"_a,
      "n_threads"_a = 1,
      "The cluster of every label in every clustering, numbered through, and the number of all clusters.");
  m.def(
      "label_classes",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> labels, Matrix<std::int32_t> clusters,
         std::int64_t n_clusters, int n_threads) {
        const ClusterView view = checked_clusters(clusters, n_clusters);
        const CsrView Y = checked_labels(indptr, labels, view.n_labels);
        return class_lists({Y, Y, 0}, view, n_threads);
      },
      array("indptr"), array("labels"), array("clusters"), "n_clusters"_a, "n_threads"_a = 1,
      "The classes of the labels of every row: the labels, the labels inside their clusters, their clusters.");
  m.def(
      "candidate_classes",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> candidates, Vector<std::int64_t> label_indptr,
         Vector<std::int32_t> labels, std::int64_t n_seen, Matrix<std::int32_t> clusters, std::int64_t n_clusters,
         int n_threads) {
        const ClusterView view = checked_clusters(clusters, n_clusters);
        const CsrView C = checked_labels(indptr, candidates, view.n_labels);
        const CsrView Y = checked_labels(label_indptr, labels, view.n_labels);
        require(C.n_rows == Y.n_rows, "candidates and labels must have the same number of rows");
        require(0 <= n_seen && n_seen <= C.n_rows, "n_seen must be from 0 to the number of rows");
        return class_lists({C, Y, n_seen}, view, n_threads);
      },
      array("indptr"), array("candidates"), array("label_indptr"), array("labels"), "n_seen"_a, array("clusters"),
      "n_clusters"_a, "n_threads"_a = 1,
      "The classes of the candidates of every row: the candidates, those inside clusters of the row's labels (rows "
      "from "
      "n_seen on: all), their clusters.");
}

}  // namespace labelprism
