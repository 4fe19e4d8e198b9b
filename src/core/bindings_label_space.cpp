// The space of features and labels, as Python sees it.
#include <algorithm>
#include <utility>

#include "bindings.hpp"
#include "label_space.hpp"
#include "small_eigen.hpp"
#include "space_sums.hpp"

namespace labelprism {
namespace {

template <class T>
using WritableMatrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using WritableVector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void bind_learning(nb::module_& m) {
  m.def(
      "symmetric_eigen",
      [](Matrix<double> matrix) {
        const std::size_t n = matrix.shape(0);
        require(n == matrix.shape(1) && n <= 1000, "the matrix must be square, of an order of at most 1000");
        double *values, *vectors;
        NewArray<double> found = new_array({n}, &values), directions = new_array({n, n}, &vectors);
        {
          const nb::gil_scoped_release release;
          SquareMatrix square(static_cast<int>(n));
          std::copy_n(matrix.data(), n * n, square.values.begin());
          const Eigenpairs pairs = symmetric_eigen(std::move(square));
          std::copy(pairs.values.begin(), pairs.values.end(), values);
          std::copy(pairs.vectors.values.begin(), pairs.vectors.values.end(), vectors);
        }
        return std::pair(found, directions);
      },
      array("matrix"), "The eigenvalues of a symmetric matrix, descending, and its eigenvectors as columns.");
  m.def(
      "sums_through_rows",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, Vector<std::int64_t> to_indptr,
         Vector<std::int32_t> to_indices, Vector<float> to_data, std::int64_t n_columns, Vector<float> weight,
         Matrix<float> vectors, bool unit, int n_threads) {
        const auto view = [](const auto& ends, const auto& entries, const Vector<float>& values, std::int64_t columns) {
          return values.size() ? checked_csr(ends, entries, values, columns) : checked_labels(ends, entries, columns);
        };
        const CsrView from = view(indptr, indices, data, static_cast<std::int64_t>(vectors.shape(0)));
        const CsrView to = view(to_indptr, to_indices, to_data, n_columns);
        require(from.n_rows == to.n_rows, "both matrices must have the same rows");
        require(vectors.shape(1) == kSpaceWidth, "vectors must have 64 columns");
        const float* const of_rows = checked_weights(weight, from.n_rows);
        float* sums;
        const auto size = static_cast<std::size_t>(n_columns);
        NewArray<float> result = new_array({size, std::size_t{kSpaceWidth}}, &sums);
        {
          const nb::gil_scoped_release release;
          std::fill_n(sums, size * kSpaceWidth, 0.0f);
          add_through_rows(from, to, of_rows, vectors.data(), unit, n_threads, sums);
        }
        return result;
      },
      array("indptr"), array("indices"), array("data"), array("to_indptr"), array("to_indices"), array("to_data"),
      "n_columns"_a, array("weight"), array("vectors"), "unit"_a, "n_threads"_a = 1,
      "For every column of the second matrix the sum of its rows' vectors, which are the products of the first one and "
      "`vectors`, made unit or not; see space_sums.hpp. Values that are empty are ones.");
  m.def(
      "vectors_in_bytes",
      [](Matrix<float> vectors, int n_threads) {
        require(vectors.shape(1) == kSpaceWidth, "vectors must have 64 columns");
        const std::size_t count = vectors.shape(0);
        std::int8_t* steps;
        float* scale;
        NewArray<std::int8_t> all_steps = new_array({count, std::size_t{kSpaceWidth}}, &steps);
        NewArray<float> scales = new_array({count}, &scale);
        {
          const nb::gil_scoped_release release;
          round_vectors(vectors.data(), static_cast<std::int64_t>(count), n_threads,
                        reinterpret_cast<SpaceVector*>(steps), scale);
        }
        return std::pair(all_steps, scales);
      },
      array("vectors"), "n_threads"_a = 1, "Vectors as models keep them: steps, and what to multiply them with.");
  m.def(
      "space_lists",
      [](Matrix<std::int8_t> labels, Vector<float> scale, std::int64_t usual_labels, std::uint64_t seed,
         int n_threads) {
        require(labels.shape(1) == kSpaceWidth && labels.shape(0) == scale.size(),
                "labels must have 64 columns, and a scale each");
        require(usual_labels >= 1 && usual_labels <= INT32_MAX, "usual_labels must be from 1 to 2147483647");
        const SpaceVector* const vectors = stored<SpaceVector>(labels).data();
        std::int32_t* lists;
        NewArray<std::int32_t> result = new_array({scale.size()}, &lists);
        {
          const nb::gil_scoped_release release;
          find_lists(vectors, scale.data(), static_cast<std::int64_t>(scale.size()), usual_labels, seed, n_threads,
                     lists);
        }
        return result;
      },
      array("labels"), array("scale"), "usual_labels"_a, "seed"_a, "n_threads"_a = 1,
      "The list of every label, labels that lie together in one; see space_lists.hpp.");
  m.def(
      "learn_space",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data,
         Vector<std::int64_t> label_indptr, Vector<std::int32_t> own, Vector<float> weight,
         Vector<std::int64_t> candidate_indptr, Vector<std::int32_t> candidates, Matrix<float> labels,
         WritableMatrix<float> features, WritableVector<float> squares, std::int64_t pass, std::int64_t n_passes,
         float rate, float scale, std::uint64_t seed, int n_threads, Counter* counter) {
        const auto d = static_cast<std::int64_t>(features.shape(0)), c = static_cast<std::int64_t>(labels.shape(0));
        const CsrView X = checked_csr(indptr, indices, data, d), Y = checked_labels(label_indptr, own, c);
        const CsrView found = checked_labels(candidate_indptr, candidates, c);
        require(X.n_rows == Y.n_rows && X.n_rows <= INT32_MAX && (found.n_rows == 0 || found.n_rows >= X.n_rows),
                "X and Y must have the same rows, at most 2147483647; candidates these too, or none at all");
        require(labels.shape(1) == kSpaceWidth && features.shape(1) == kSpaceWidth &&
                    static_cast<std::int64_t>(squares.size()) == d,
                "labels and features must have 64 columns, squares an entry for every feature");
        require(0 <= pass && pass < n_passes, "pass must be from 0 to n_passes - 1");
        const SpaceRows rows{X, Y, checked_weights(weight, X.n_rows), found};
        const nb::gil_scoped_release release;
        learn_space(rows, labels.data(), {pass, n_passes, rate, scale, seed}, n_threads, counter, features.data(),
                    squares.data());
      },
      array("indptr"), array("indices"), array("data"), array("label_indptr"), array("own"), array("weight"),
      array("candidate_indptr"), array("candidates"), array("labels"), array("features"), array("squares"), "pass_"_a,
      "n_passes"_a, "rate"_a, "scale"_a, "seed"_a, "n_threads"_a = 1, "counter"_a.none() = nb::none(),
      "One pass over all rows, which changes `features` and `squares`; see label_space.hpp.");
}

}  // namespace

void bind_label_space(nb::module_& m) {
  bind_learning(m);
  nb::class_<LabelSpace>(m, "LabelSpace", "Vectors of features and labels; see label_space.hpp.")
      .def(
          "__init__",
          [](LabelSpace* self, Matrix<std::int8_t> features, Vector<float> feature_scale, Matrix<std::int8_t> labels,
             Vector<float> label_scale, Vector<std::int32_t> list_of_label) {
            require(all_finite(feature_scale) && all_within(label_scale, 0.0f, 1.0f),
                    "the scales of features must be finite, those of labels, which are unit, from 0 to 1");
            SpaceTables tables;
            tables.features = stored<SpaceVector>(features);
            tables.feature_scale = stored<float>(feature_scale);
            tables.labels = stored<SpaceVector>(labels);
            tables.label_scale = stored<float>(label_scale);
            tables.list_of_label = stored<std::int32_t>(list_of_label);
            new (self) LabelSpace(std::move(tables));
          },
          nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>(), nb::keep_alive<1, 5>(),
          nb::keep_alive<1, 6>(), array("features"), array("feature_scale"), array("labels"), array("label_scale"),
          array("list_of_label"),
          "The arrays are used, not copied: (d, 64) and (c, 64) bytes, and a number for each row. `list_of_label` is "
          "the "
          "number of a list for every label, or empty; vectors are copied then, list by list.")
      .def(
          "cosines",
          [](const LabelSpace& self, Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data,
             Vector<std::int64_t> candidate_indptr, Vector<std::int32_t> candidates, int n_threads) {
            const CsrView X = checked_csr(indptr, indices, data, self.n_features());
            const CsrView given = checked_labels(candidate_indptr, candidates, self.n_labels());
            require(X.n_rows == given.n_rows, "X and candidates must have the same rows");
            float* cosines;
            NewArray<float> result = new_array({candidates.size()}, &cosines);
            {
              const nb::gil_scoped_release release;
              space_cosines(self, X, given, n_threads, cosines);
            }
            return result;
          },
          array("indptr"), array("indices"), array("data"), array("candidate_indptr"), array("candidates"),
          "n_threads"_a = 1, "The cosine of each candidate of each row.")
      .def(
          "sieved",
          [](const LabelSpace& self, Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data,
             Vector<std::int64_t> candidate_indptr, Vector<std::int32_t> candidates, std::int64_t n_near,
             std::int64_t n_kept, int n_threads, std::int64_t most_lists) {
            const CsrView X = checked_csr(indptr, indices, data, self.n_features());
            const CsrView given = checked_labels(candidate_indptr, candidates, self.n_labels());
            require(X.n_rows == given.n_rows, "X and candidates must have the same rows");
            require(n_kept >= 1 && n_near >= 0 && (n_near == 0 || self.has_lists()),
                    "n_kept must be at least 1, n_near at least 0, and 0 where there are no lists");
            require(most_lists >= 1, "most_lists must be at least 1");
            GrowingCsr sieved;
            {
              const nb::gil_scoped_release release;
              sieve_candidates(self, X, given, {n_near, n_kept, most_lists}, n_threads, sieved);
            }
            return std::pair(take(sieved.indptr), take(sieved.indices));
          },
          array("indptr"), array("indices"), array("data"), array("candidate_indptr"), array("candidates"), "n_near"_a,
          "n_kept"_a, "n_threads"_a = 1, "most_lists"_a = kMostLists,
          "The `n_kept` candidates nearest to each row, of those given, which ascend within a row, and of the `n_near` "
          "labels that lists find, at most `most_lists` for a row; as CSR without values. All of them where a row has "
          "none of the features.");
}

}  // namespace labelprism
