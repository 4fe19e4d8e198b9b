// The fused predictor, as Python sees it.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "bindings.hpp"
#include "predictor.hpp"
#include "text_weights.hpp"

namespace labelprism {
namespace {

// The labels that a row may be given, from an array of flags; an empty one allows all.
AllowList allow_list(const Vector<std::uint8_t>& flags, std::int64_t n_labels) {
  if (flags.size() == 0) return {};
  require(static_cast<std::int64_t>(flags.size()) == n_labels, "allowed must have a flag for every label");
  const auto* first = flags.data();
  return {first, n_labels - std::count(first, first + n_labels, 0)};
}

// Clusterings of the labels, of shape (clusterings, labels); there are as many clusters as biases beyond the labels.
ClusterView checked_clusters(const Matrix<std::int32_t>& clusters, const Vector<float>& bias, std::int64_t n_labels) {
  const auto n_clusterings = static_cast<std::int64_t>(clusters.shape(0));
  const std::int64_t n_clusters = static_cast<std::int64_t>(bias.size()) - n_labels;
  require(static_cast<std::int64_t>(clusters.shape(1)) == n_labels && (n_clusterings == 0) == (n_clusters == 0) &&
              0 <= n_clusters && n_clusters <= kMostClusters,
          "bias must have an entry for every label and every cluster, clusters one for every label; there may be 35000 "
          "clusters");
  require(n_clusters == 0 || all_below(clusters.data(), clusters.size(), n_clusters), "a cluster is out of range");
  return {n_clusterings, n_labels, clusters.data(), n_clusters};
}

void bind_tables(nb::class_<Predictor>& predictor) {
  predictor
      .def_static(
          "tables_of",
          [](Vector<std::int64_t> centroid_indptr, Vector<std::int32_t> centroid_indices, Vector<float> centroid_data,
             Vector<std::int64_t> head_indptr, Vector<std::int32_t> head_indices, Vector<float> head_data,
             Vector<double> norms, std::int64_t n_features, std::int64_t longest_list, std::int64_t longest_vote_list,
             bool by_label, int n_threads) {
            const CsrView centroids = checked_csr(centroid_indptr, centroid_indices, centroid_data, n_features);
            const CsrView head = checked_csr(head_indptr, head_indices, head_data, n_features);
            require(centroids.n_rows == head.n_rows, "centroids and head must have a row for every label");
            require(all_finite(centroid_data) && all_finite(head_data), "centroids and head must be finite");
            require(longest_list >= 0 && longest_vote_list >= 0,
                    "longest_list and longest_vote_list must be at least 0");
            const auto n_norms = static_cast<std::int64_t>(norms.size());
            require(n_norms <= centroids.n_rows &&
                        centroid_indptr.data()[n_norms] == centroid_indptr.data()[centroids.n_rows] &&
                        all_finite(norms),
                    "norms must be finite, one for every label that has a centroid");
            if (by_label) {
              require_sorted(centroids);
              require_sorted(head);
            }
            auto* tables = new LabelTables;
            const nb::capsule owner(tables, [](void* p) noexcept { delete static_cast<LabelTables*>(p); });
            {
              const nb::gil_scoped_release release;
              *tables =
                  label_tables(centroids, head, norms.data(), {longest_list, longest_vote_list}, by_label, n_threads);
            }
            nb::dict arrays;
            arrays["lists"] = view_of<std::int64_t>(tables->lists, owner);
            arrays["list_labels"] = view_of<std::int32_t>(tables->list_labels, owner);
            arrays["pairs"] = view_of<std::uint32_t>(tables->pairs, owner);
            arrays["words"] = view_of<std::uint32_t>(tables->words, owner);
            arrays["near_begin"] = view_of<std::int64_t>(tables->near.begin, owner);
            arrays["near_label"] = view_of<std::int32_t>(tables->near.label, owner);
            arrays["near_cosine"] = view_of<std::uint16_t>(tables->near.weight, owner);
            arrays["vote_begin"] = view_of<std::int64_t>(tables->votes.begin, owner);
            arrays["vote_label"] = view_of<std::int32_t>(tables->votes.label, owner);
            arrays["vote_share"] = view_of<std::uint16_t>(tables->votes.weight, owner);
            return arrays;
          },
          array("centroid_indptr"), array("centroid_indices"), array("centroid_data"), array("head_indptr"),
          array("head_indices"), array("head_data"), array("norms"), "n_features"_a, "longest_list"_a,
          "longest_vote_list"_a, "by_label"_a = false, "n_threads"_a = 1,
          "What head and centroids, (c, d), know of labels, laid out for prediction; see label_tables.hpp.")
      .def(
          "weights",
          [](const Predictor& self) {
            ListedWeights found;
            {
              const nb::gil_scoped_release release;
              found = listed_weights(self.tables());
            }
            const auto copied = [](const auto& values) {
              using T = typename std::decay_t<decltype(values)>::value_type;
              T* data;
              NewArray<T> result = new_array({values.size()}, &data);
              std::copy(values.begin(), values.end(), data);
              return result;
            };
            return std::tuple(copied(found.begin), copied(found.label), copied(found.head), copied(found.centroid));
          },
          "Head and centroids again, feature by feature: where each begins, labels, weights of head and centroid.");
}

}  // namespace

void bind_predictor(nb::module_& m) {
  nb::class_<Predictor> predictor(m, "Predictor", "From rows to their best labels in one go; see predictor.hpp.");
  bind_tables(predictor);
  predictor
      .def(
          "__init__",
          [](Predictor* self, const ForestScorer& forest, Matrix<std::int64_t> lists, Vector<std::int32_t> list_labels,
             Vector<std::uint32_t> pairs, Matrix<std::uint32_t> words, Vector<std::int64_t> near_begin,
             Vector<std::int32_t> near_label, Vector<std::uint16_t> near_cosine, Vector<std::int64_t> vote_begin,
             Vector<std::int32_t> vote_label, Vector<std::uint16_t> vote_share, Matrix<std::int32_t> clusters,
             Vector<float> bias, Vector<float> prior, const NearExamples* examples, const LabelSpace* space,
             float head_weight, float forest_weight, float centroid_weight, float unreached_weight,
             float clusters_weight, float examples_weight, float space_weight, std::int64_t forest_candidates,
             std::int64_t centroid_candidates, std::int64_t vote_candidates, std::int64_t space_candidates,
             std::int64_t kept_candidates, bool unit_rows, std::int64_t strong_features) {
            const ClusterView of_labels = checked_clusters(clusters, bias, forest.n_labels());
            require(static_cast<std::int64_t>(prior.size()) == forest.n_labels(),
                    "prior must have an entry for every label");
            require(1 <= forest_candidates && forest_candidates <= kMostCandidates,
                    "forest_candidates must be from 1 to 30000");
            for (const std::int64_t n : {centroid_candidates, vote_candidates, space_candidates, kept_candidates}) {
              require(0 <= n && n <= kMostCandidates,
                      "centroid_candidates, vote_candidates, space_candidates and kept_candidates must be from 0 to "
                      "30000");
            }
            require(1 <= strong_features && strong_features <= kMostCandidates,
                    "strong_features must be from 1 to 30000");
            require(vote_candidates == 0 || vote_begin.size() > 0,
                    "there must be lists of votes where there are vote_candidates");
            require(kMostCandidates + centroid_candidates + vote_candidates + space_candidates + of_labels.n_clusters <=
                        kMostPlaces,
                    "there are too many centroid_candidates, vote_candidates, space_candidates and clusters: together "
                    "there may be 35535");
            require(all_finite(bias) && all_finite(prior) && std::isfinite(head_weight) &&
                        std::isfinite(forest_weight) && std::isfinite(centroid_weight) &&
                        std::isfinite(unreached_weight) && std::isfinite(clusters_weight) &&
                        std::isfinite(examples_weight) && std::isfinite(space_weight),
                    "bias, prior and blend must be finite");
            LabelTables tables;
            tables.n_labels = forest.n_labels() + of_labels.n_clusters;
            tables.n_features = forest.n_features();
            tables.lists = stored<WeightList>(lists);
            tables.list_labels = stored<std::int32_t>(list_labels);
            tables.pairs = stored<std::uint32_t>(pairs);
            tables.words = stored<LabelWord>(words);
            tables.near.begin = stored<std::int64_t>(near_begin);
            tables.near.label = stored<std::int32_t>(near_label);
            tables.near.weight = stored<std::uint16_t>(near_cosine);
            tables.votes.begin = stored<std::int64_t>(vote_begin);
            tables.votes.label = stored<std::int32_t>(vote_label);
            tables.votes.weight = stored<std::uint16_t>(vote_share);
            require(!examples || examples->n_features() == forest.n_features(),
                    "there must be a list for every feature");
            require(!space || (space->n_features() == forest.n_features() && space->n_labels() == forest.n_labels()),
                    "there must be a vector for every feature and every label");
            check_tables(tables);
            new (self) Predictor(forest, std::move(tables), of_labels, examples, space, bias.data(), prior.data(),
                                 {head_weight, forest_weight, centroid_weight, unreached_weight, clusters_weight,
                                  examples_weight, space_weight},
                                 {forest_candidates, centroid_candidates, vote_candidates, space_candidates,
                                  kept_candidates, strong_features, unit_rows});
          },
          nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>(), nb::keep_alive<1, 5>(),
          nb::keep_alive<1, 6>(), nb::keep_alive<1, 7>(), nb::keep_alive<1, 8>(), nb::keep_alive<1, 9>(),
          nb::keep_alive<1, 10>(), nb::keep_alive<1, 11>(), nb::keep_alive<1, 12>(), nb::keep_alive<1, 13>(),
          nb::keep_alive<1, 16>(), nb::keep_alive<1, 17>(), "forest"_a, array("lists"), array("list_labels"),
          array("pairs"), array("words"), array("near_begin"), array("near_label"), array("near_cosine"),
          array("vote_begin"), array("vote_label"), array("vote_share"), array("clusters"), array("bias"),
          array("prior"), "examples"_a.none(), "space"_a.none(), nb::kw_only(), "head_weight"_a, "forest_weight"_a,
          "centroid_weight"_a, "unreached_weight"_a, "clusters_weight"_a, "examples_weight"_a, "space_weight"_a,
          "forest_candidates"_a, "centroid_candidates"_a, "vote_candidates"_a, "space_candidates"_a,
          "kept_candidates"_a, "unit_rows"_a, "strong_features"_a,
          "Arrays of `tables_of` and `clusters` are used, not copied. Tables and `bias` have the labels, then the "
          "clusters; `clusters` has the cluster of every label for each clustering, none or several. `examples` "
          "and `space` may be None.")
      .def(
          "predict",
          [](const Predictor& self, Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data,
             std::int64_t k, float smallest, Vector<std::uint8_t> allowed, int n_threads) {
            require(k >= 1 && k <= kMostCandidates, "k must be from 1 to 30000");
            const AllowList may_be = allow_list(allowed, self.n_labels());
            const CsrView X = checked_csr(indptr, indices, data, self.n_features());
            std::int32_t* label;
            float* score;
            const auto n = static_cast<std::size_t>(X.n_rows), width = static_cast<std::size_t>(k);
            NewArray<std::int32_t> labels = new_array({n, width}, &label);
            NewArray<float> scores = new_array({n, width}, &score);
            {
              const nb::gil_scoped_release release;
              predict_rows(self, X, k, Routing{smallest}, may_be, n_threads, label, score);
            }
            return std::pair(labels, scores);
          },
          array("indptr"), array("indices"), array("data"), "k"_a, "smallest"_a, array("allowed"), "n_threads"_a = 1,
          "The k best labels of every row and their scores, of those that have a flag in `allowed`; if that is empty, "
          "of all.")
      .def(
          "predict_texts",
          [](const Predictor& self, const TextWeigher& weigher, nb::list texts, std::int64_t k, float smallest,
             int n_threads) -> std::optional<std::pair<NewArray<std::int32_t>, NewArray<float>>> {
            require(k >= 1 && k <= kMostCandidates, "k must be from 1 to 30000");
            require(weigher.n_features() == self.n_features(), "the texts must have the features of the model");
            const JoinedTexts joined(texts);
            const auto n = static_cast<std::size_t>(joined.view().count), width = static_cast<std::size_t>(k);
            std::int32_t* label;
            float* score;
            NewArray<std::int32_t> labels = new_array({n, width}, &label);
            NewArray<float> scores = new_array({n, width}, &score);
            bool is_done = joined.is_valid;
            if (is_done) {
              const nb::gil_scoped_release release;
              GrowingCsr rows;
              is_done = weigher.rows(joined.view(), false, n_threads, rows);
              const CsrView X{static_cast<std::int64_t>(n), self.n_features(), rows.indptr.data(), rows.indices.data(),
                              rows.data.data()};
              if (is_done) predict_rows(self, X, k, Routing{smallest}, AllowList(), n_threads, label, score);
            }
            if (!is_done) return std::nullopt;
            return std::pair(labels, scores);
          },
          "weigher"_a, "texts"_a, "k"_a, "smallest"_a, "n_threads"_a = 1,
          "The k best labels of every text: `TextWeigher.rows` and `predict` in one call; None where the former is.")
      .def(
          "predict_row",
          [](const Predictor& self, nb::handle indices, nb::handle data, float smallest, nb::handle labels,
             nb::handle scores) {
            const BufferOf<const std::int32_t> features(indices);
            const BufferOf<const float> values(data);
            const BufferOf<std::int32_t> label(labels);
            const BufferOf<float> score(scores);
            const std::size_t k = label.size();
            require(k >= 1 && k <= kMostCandidates && score.size() == k, "k must be from 1 to 30000");
            require(features.size() == values.size(), "data and indices must be of the same length");
            require(all_below(features.data(), features.size(), self.n_features()), "an index is out of range");
            const nb::gil_scoped_release release;
            self.with_room([&](PredictorRoom& room) {
              const SparseRow row{features.data(), values.data(), static_cast<std::int64_t>(features.size())};
              self.predict(row, static_cast<std::int64_t>(k), Routing{smallest}, AllowList(), room, label.data(),
                           score.data());
            });
          },
          "indices"_a, "data"_a, "smallest"_a, "labels"_a, "scores"_a,
          "Write the best labels of one row, and their scores, into two arrays: as `predict`, faster.")
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
          "empty if they are not to be scored.")
      .def(
          "score_candidates",
          [](const Predictor& self, Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data,
             Vector<std::int64_t> candidate_indptr, Vector<std::int32_t> candidates, float smallest, int n_threads) {
            const CsrView X = checked_csr(indptr, indices, data, self.n_features());
            const CsrView given = checked_labels(candidate_indptr, candidates, self.n_labels());
            require(X.n_rows == given.n_rows, "X and candidates must have the same rows");
            for (std::int64_t row = 0; row < given.n_rows; ++row) {
              for (std::int64_t t = given.indptr[row] + 1; t < given.indptr[row + 1]; ++t) {
                require(given.indices[t - 1] < given.indices[t], "the candidates of a row must ascend");
              }
            }
            GivenScores out;
            NewArray<float> score = new_array({candidates.size()}, &out.score);
            NewArray<float> forest = new_array({candidates.size()}, &out.forest);
            NewArray<float> margin = new_array({candidates.size()}, &out.margin);
            NewArray<float> cosine = new_array({candidates.size()}, &out.cosine);
            NewArray<float> clusters = new_array({self.has_clusters() ? candidates.size() : 0}, &out.clusters);
            if (!self.has_clusters()) out.clusters = nullptr;
            NewArray<float> examples = new_array({self.has_examples() ? candidates.size() : 0}, &out.examples);
            if (!self.has_examples()) out.examples = nullptr;
            NewArray<float> space = new_array({self.has_space() ? candidates.size() : 0}, &out.space);
            if (!self.has_space()) out.space = nullptr;
            {
              const nb::gil_scoped_release release;
              score_candidates(self, X, given, Routing{smallest}, n_threads, out);
            }
            return std::tuple(score, forest, margin, cosine, clusters, examples, space);
          },
          array("indptr"), array("indices"), array("data"), array("candidate_indptr"), array("candidates"),
          "smallest"_a, "n_threads"_a = 1,
          "Scores of given candidates, log p_F, margins of the head, cosines and, where there are any, means of log p "
          "of clusters, logarithms of the votes of near examples and cosines in the space, entry by entry.");
}

}  // namespace labelprism
