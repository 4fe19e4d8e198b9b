// The fused predictor, as Python sees it.
#include <cmath>

#include "bindings.hpp"
#include "predictor.hpp"

namespace labelprism {
namespace {

// Places of candidates are held in 16 bits.
constexpr std::int64_t kMostCandidates = 30000;

}  // namespace

void bind_predictor(nb::module_& m) {
  nb::class_<Predictor>(m, "Predictor", "From rows to their best labels in one go; see predictor.hpp.")
      .def(
          "__init__",
          [](Predictor* self, const ForestScorer& forest, Vector<std::int64_t> centroid_indptr,
             Vector<std::int32_t> centroid_indices, Vector<float> centroid_data, Vector<std::int64_t> head_indptr,
             Vector<std::int32_t> head_indices, Vector<float> head_data, Vector<float> bias, Vector<float> prior,
             float head_weight, float forest_weight, float centroid_weight, std::int64_t forest_candidates,
             std::int64_t centroid_candidates, std::int64_t longest_list, bool unit_rows) {
            const CsrView centroids =
                checked_csr(centroid_indptr, centroid_indices, centroid_data, forest.n_features());
            const CsrView head = checked_csr(head_indptr, head_indices, head_data, forest.n_features());
            require(centroids.n_rows == forest.n_labels() && head.n_rows == forest.n_labels() &&
                        static_cast<std::int64_t>(bias.size()) == forest.n_labels() &&
                        static_cast<std::int64_t>(prior.size()) == forest.n_labels(),
                    "centroids, head, bias and prior must have a row for every label");
            require(1 <= forest_candidates && forest_candidates <= kMostCandidates && 0 <= centroid_candidates &&
                        centroid_candidates <= kMostCandidates && longest_list >= 1,
                    "forest_candidates: 1 to 30000, centroid_candidates: 0 to 30000, longest_list: at least 1");
            require(all_finite(centroid_data) && all_finite(head_data) && all_finite(bias) && all_finite(prior) &&
                        std::isfinite(head_weight) && std::isfinite(forest_weight) && std::isfinite(centroid_weight),
                    "centroids, head, bias, prior and blend must be finite");
            const nb::gil_scoped_release release;
            new (self) Predictor(forest, centroids, head, bias.data(), prior.data(),
                                 {head_weight, forest_weight, centroid_weight},
                                 {forest_candidates, centroid_candidates, longest_list, unit_rows});
          },
          nb::keep_alive<1, 2>(), "forest"_a, array("centroid_indptr"), array("centroid_indices"),
          array("centroid_data"), array("head_indptr"), array("head_indices"), array("head_data"), array("bias"),
          array("prior"), "head_weight"_a, "forest_weight"_a, "centroid_weight"_a, "forest_candidates"_a,
          "centroid_candidates"_a, "longest_list"_a, "unit_rows"_a)
      .def(
          "predict",
          [](const Predictor& self, Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data,
             std::int64_t k, float smallest, int n_threads) {
            require(k >= 1 && k <= kMostCandidates, "k must be from 1 to 30000");
            const CsrView X = checked_csr(indptr, indices, data, self.n_features());
            std::int32_t* label;
            float* score;
            const auto n = static_cast<std::size_t>(X.n_rows), width = static_cast<std::size_t>(k);
            NewArray<std::int32_t> labels = new_array({n, width}, &label);
            NewArray<float> scores = new_array({n, width}, &score);
            {
              const nb::gil_scoped_release release;
              predict_rows(self, X, k, Routing{smallest}, n_threads, label, score);
            }
            return std::pair(labels, scores);
          },
          array("indptr"), array("indices"), array("data"), "k"_a, "smallest"_a, "n_threads"_a = 1,
          "The k best labels of every row and their scores.")
      .def(
          "predict_row",
          [](const Predictor& self, Vector<std::int32_t> indices, Vector<float> data, std::int64_t k, float smallest) {
            require(k >= 1 && k <= kMostCandidates, "k must be from 1 to 30000");
            require(indices.size() == data.size(), "data and indices must be of the same length");
            for (std::size_t t = 0; t < indices.size(); ++t) {
              require(indices.data()[t] >= 0 && indices.data()[t] < self.n_features(), "an index is out of range");
            }
            std::int32_t* label;
            float* score;
            NewArray<std::int32_t> labels = new_array({1, static_cast<std::size_t>(k)}, &label);
            NewArray<float> scores = new_array({1, static_cast<std::size_t>(k)}, &score);
            {
              const nb::gil_scoped_release release;
              self.with_room([&](PredictorRoom& room) {
                const SparseRow row{indices.data(), data.data(), static_cast<std::int64_t>(indices.size())};
                self.predict(row, k, Routing{smallest}, room, label, score);
              });
            }
            return std::pair(labels, scores);
          },
          array("indices"), array("data"), "k"_a, "smallest"_a, "The k best labels of one row: as `predict`, faster.")
      .def(
          "find",
          [](const Predictor& self, Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data,
             float smallest, float noise_scale, int n_threads, bool scored) {
            const CsrView X = checked_csr(indptr, indices, data, self.n_features());
            GrowingCsr candidates;
            Buffer<float> cosine, margin;
            {
              const nb::gil_scoped_release release;
              find_candidates(self, X, Routing{smallest, noise_scale}, scored, n_threads, candidates, cosine, margin);
            }
            return std::tuple(take(candidates.indptr), take(candidates.indices), take(candidates.data), take(cosine),
                              take(margin));
          },
          array("indptr"), array("indices"), array("data"), "smallest"_a, "noise_scale"_a = 1.0f, "n_threads"_a = 1,
          "scored"_a = true,
          "The candidates of every row as CSR of log p_F, their cosines and the margins of the head; the last two are "
          "empty if they are not to be scored.");
}

}  // namespace labelprism
