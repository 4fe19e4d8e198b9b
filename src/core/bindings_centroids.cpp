// Sums of the rows of labels, centroids, and means of classifiers, as Python sees them.
#include "bindings.hpp"
#include "label_centroids.hpp"

namespace labelprism {
namespace {

using CsrArrays = std::tuple<NewArray<std::int64_t>, NewArray<std::int32_t>, NewArray<float>>;

LabelledRows checked_rows(const CsrView& X, const CsrView& Y, const Vector<float>& weight) {
  require(X.n_rows == Y.n_rows, "X and Y must have the same number of rows");
  require(X.n_rows <= INT32_MAX, "there must be at most 2147483647 rows");
  require(weight.size() == 0 || static_cast<std::int64_t>(weight.size()) == X.n_rows,
          "there must be a weight for every row, or none at all");
  return {X, Y, weight.size() ? weight.data() : nullptr};
}

void check_count(std::int64_t n_features) { require(n_features >= 1, "n_features must be at least 1"); }

void bind_sums(nb::module_& m) {
  m.def(
      "label_sums",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, std::int64_t n_features,
         Vector<std::int64_t> label_indptr, Vector<std::int32_t> labels, std::int64_t n_labels, Vector<float> weight,
         int n_threads) {
        const LabelledRows rows = checked_rows(checked_csr(indptr, indices, data, n_features),
                                               checked_labels(label_indptr, labels, n_labels), weight);
        GrowingCsr sums;
        {
          const nb::gil_scoped_release release;
          label_sums(rows, n_threads, sums);
        }
        return take(sums);
      },
      array("indptr"), array("indices"), array("data"), "n_features"_a, array("label_indptr"), array("labels"),
      "n_labels"_a, array("weight"), "n_threads"_a = 1, "The sum of the rows of every label, sorted: Y'D X.");
  m.def(
      "mean_rows",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, std::int64_t n_columns,
         std::int64_t n_rows, Vector<float> shares, float drop, int n_threads) {
        const CsrView matrix = checked_csr(indptr, indices, data, n_columns);
        const auto n_shares = static_cast<std::int64_t>(shares.size());
        require(n_shares >= 1 && n_rows >= 0 && n_rows <= matrix.n_rows / n_shares,
                "there must be shares, and n_rows rows for each of them");
        GrowingCsr mean;
        {
          const nb::gil_scoped_release release;
          mean_rows(matrix, n_rows, shares.data(), n_shares, drop, n_threads, mean);
        }
        return take(mean);
      },
      array("indptr"), array("indices"), array("data"), "n_columns"_a, "n_rows"_a, array("shares"), "drop"_a,
      "n_threads"_a = 1,
      "The sums of the rows i, n_rows + i and so on times their shares, in float16 and without what is smaller than "
      "`drop`; and all rows after these.");
  m.def(
      "round_to_half",
      [](Vector<float> values, int n_threads) {
        float* halves;
        NewArray<float> result = new_array({values.size()}, &halves);
        {
          const nb::gil_scoped_release release;
          round_to_half(values.data(), static_cast<std::int64_t>(values.size()), n_threads, halves);
        }
        return result;
      },
      array("values"), "n_threads"_a = 1, "The float16 numbers that are nearest to some values.");
}

}  // namespace

void bind_centroids(nb::module_& m) {
  bind_sums(m);
  m.def(
      "label_centroids",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, std::int64_t n_columns,
         Vector<std::int64_t> label_indptr, Vector<std::int32_t> labels, std::int64_t n_labels, Vector<float> weight,
         Vector<std::int64_t> start_indptr, Vector<std::int32_t> start_indices, Vector<float> start_data,
         std::int64_t n_features, int n_threads) {
        const LabelledRows rows = checked_rows(checked_csr(indptr, indices, data, n_columns),
                                               checked_labels(label_indptr, labels, n_labels), weight);
        const CsrView start = checked_csr(start_indptr, start_indices, start_data, n_columns);
        require(start.n_rows == 0 || start.n_rows == n_labels, "start must have a row for every label, or none at all");
        check_count(n_features);
        double* norms;
        NewArray<double> found = new_array({static_cast<std::size_t>(n_labels)}, &norms);
        GrowingCsr centroids;
        {
          const nb::gil_scoped_release release;
          label_centroids(rows, start.n_rows ? &start : nullptr, n_features, n_threads, centroids, norms);
        }
        return std::tuple<CsrArrays, NewArray<double>>(take(centroids), found);
      },
      array("indptr"), array("indices"), array("data"), "n_columns"_a, array("label_indptr"), array("labels"),
      "n_labels"_a, array("weight"), array("start_indptr"), array("start_indices"), array("start_data"), "n_features"_a,
      "n_threads"_a = 1,
      "The unit centroids of all labels, cut to their largest features, and the norms of the sums of their rows; "
      "`start` has the sums of rows before these.");
  m.def(
      "cut_centroids",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, Vector<double> norms,
         std::int64_t n_features, int n_threads) {
        const CsrView sums = checked_csr(indptr, indices, data, INT32_MAX);
        require(static_cast<std::int64_t>(norms.size()) == sums.n_rows, "there must be a norm for every row");
        check_count(n_features);
        GrowingCsr centroids;
        {
          const nb::gil_scoped_release release;
          cut_centroids(sums, norms.data(), n_features, n_threads, centroids);
        }
        return take(centroids);
      },
      array("indptr"), array("indices"), array("data"), array("norms"), "n_features"_a, "n_threads"_a = 1,
      "The centroids of sums whose norms are known.");
}

}  // namespace labelprism
