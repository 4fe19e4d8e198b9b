// The one-vs-rest head, as Python sees it.
#include "bindings.hpp"
#include "one_vs_rest.hpp"

namespace labelprism {
namespace {

using Csr = std::tuple<NewArray<std::int64_t>, NewArray<std::int32_t>, NewArray<float>>;

NewArray<float> copied(const std::vector<float>& values) {
  float* data;
  NewArray<float> result = new_array({values.size()}, &data);
  std::copy(values.begin(), values.end(), data);
  return result;
}

}  // namespace

void bind_one_vs_rest(nb::module_& m) {
  nb::class_<OneVsRestSettings>(m, "OneVsRestSettings", "How the classifiers of the labels are trained.")
      .def(
          "__init__",
          [](OneVsRestSettings* self, float cost, float positive_weight, float rare_examples, float tolerance,
             int passes, float drop, std::uint64_t seed, std::int64_t first_cluster) {
            require(cost > 0 && positive_weight >= 0 && rare_examples >= 0,
                    "cost must be above 0, positive_weight and rare_examples at least 0");
            new (self)
                OneVsRestSettings{cost, positive_weight, rare_examples, tolerance, passes, drop, seed, first_cluster};
          },
          "cost"_a, "positive_weight"_a, "rare_examples"_a, "tolerance"_a, "passes"_a, "drop"_a, "seed"_a,
          "first_cluster"_a = OneVsRestSettings{}.first_cluster);
  m.def(
      "fit_one_vs_rest",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, std::int64_t n_features,
         Vector<std::int64_t> label_indptr, Vector<std::int32_t> labels, std::int64_t n_labels,
         Vector<std::int64_t> candidate_indptr, Vector<std::int32_t> candidates, Vector<std::uint8_t> held_out,
         Vector<float> row_weight, Vector<std::int64_t> start_indptr, Vector<std::int32_t> start_indices,
         Vector<float> start_data, Vector<float> start_bias, std::int64_t first_label, std::int64_t end_label,
         const OneVsRestSettings& settings, int n_threads, Counter* counter) {
        const CsrView X = checked_csr(indptr, indices, data, n_features);
        const CsrView Y = checked_labels(label_indptr, labels, n_labels);
        const CsrView C = checked_labels(candidate_indptr, candidates, n_labels);
        require(X.n_rows == Y.n_rows && X.n_rows == C.n_rows, "X, Y and candidates must have the same number of rows");
        require(held_out.size() == 0 || static_cast<std::int64_t>(held_out.size()) == X.n_rows,
                "held_out must be empty or have a flag for every row");
        require(0 <= first_label && first_label <= end_label && end_label <= n_labels,
                "first_label and end_label must be a range of the labels");
        const float* weights = checked_weights(row_weight, X.n_rows);
        OneVsRestStart start{};
        if (start_bias.size() > 0) {
          start = {checked_csr(start_indptr, start_indices, start_data, n_features), start_bias.data()};
          require(start.weights.n_rows == n_labels && static_cast<std::int64_t>(start_bias.size()) == n_labels,
                  "a start must have weights and a bias for every label");
        }
        OneVsRestModel model;
        {
          const nb::gil_scoped_release release;
          fit_one_vs_rest(X, examples_by_label(C, Y, {first_label, end_label}, n_threads),
                          held_out.size() ? held_out.data() : nullptr, weights, start.bias ? &start : nullptr, settings,
                          n_threads, counter, model);
        }
        return std::tuple<Csr, NewArray<float>, Csr>(take(model.weights), copied(model.bias), take(model.held_out));
      },
      array("indptr"), array("indices"), array("data"), "n_features"_a, array("label_indptr"), array("labels"),
      "n_labels"_a, array("candidate_indptr"), array("candidates"), array("held_out"), array("row_weight"),
      array("start_indptr"), array("start_indices"), array("start_data"), array("start_bias"), "first_label"_a,
      "end_label"_a, "settings"_a, "n_threads"_a = 1, "counter"_a = nb::none(),
      "Train a classifier for every label of a range: weights and biases, and the margins of held-out rows by label. "
      "`held_out`, "
      "`row_weight` and `start_bias` may be empty: no rows, ones, and no start.");
  m.def(
      "candidate_scores",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, std::int64_t n_features,
         Vector<std::int64_t> weight_indptr, Vector<std::int32_t> weight_labels, Vector<float> weights,
         Vector<float> bias, Vector<std::int64_t> candidate_indptr, Vector<std::int32_t> candidates, int n_threads) {
        const CsrView X = checked_csr(indptr, indices, data, n_features);
        const CsrView W = checked_csr(weight_indptr, weight_labels, weights, static_cast<std::int64_t>(bias.size()));
        const CsrView C = checked_labels(candidate_indptr, candidates, W.n_columns);
        require(W.n_rows == X.n_columns, "there must be weights for every feature");
        require(C.n_rows == X.n_rows, "X and candidates must have the same number of rows");
        float* score;
        NewArray<float> scores = new_array({candidates.size()}, &score);
        {
          const nb::gil_scoped_release release;
          candidate_scores(X, W, bias.data(), C, n_threads, score);
        }
        return scores;
      },
      array("indptr"), array("indices"), array("data"), "n_features"_a, array("weight_indptr"), array("weight_labels"),
      array("weights"), array("bias"), array("candidate_indptr"), array("candidates"), "n_threads"_a = 1,
      "The scores of the candidates of every row by weights that are sorted by feature.");
}

}  // namespace labelprism
