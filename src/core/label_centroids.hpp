// The sums of the rows of labels, and what models keep of them: unit centroids, cut to their largest features.
#pragma once

#include <cstdint>

#include "csr.hpp"
#include "growing_csr.hpp"

namespace labelprism {

// Rows and their labels. A row counts as much as its weight says; null stands for ones.
struct LabelledRows {
  CsrView X, Y;
  const float* weight;
};

// The sum of the rows of each label, n_labels x n_features, sorted and without zeros. A label's rows are added one
// after the other in float32, so that sums do not depend on the other labels, and can be gone on with.
void label_sums(const LabelledRows& rows, int n_threads, GrowingCsr& sums);

// The centroids of labels and the norms of their sums. `start`, unless null, has the sums of rows that come before
// these. Sums are never held but for one label of each thread.
void label_centroids(const LabelledRows& rows, const CsrView* start, std::int64_t n_features, int n_threads,
                     GrowingCsr& centroids, double* norms);

// The centroids of sums whose norms are known: the `n_features` largest values of each row, of equals those of the
// first columns, divided by the norm and rounded to float16. Rows are sorted.
void cut_centroids(const CsrView& sums, const double* norms, std::int64_t n_features, int n_threads,
                   GrowingCsr& centroids);

// For each of n_rows the sum of the rows k n_rows + i of a matrix times shares[k], without what is 0 or smaller than
// `drop` in size, rounded to float16; after them, all rows from n_rows n_shares on as they are. Sorted, if these are.
void mean_rows(const CsrView& matrix, std::int64_t n_rows, const float* shares, std::int64_t n_shares, float drop,
               int n_threads, GrowingCsr& mean);

// Values rounded to float16; NaN stays.
void round_to_half(const float* values, std::int64_t count, int n_threads, float* halves);

}  // namespace labelprism
