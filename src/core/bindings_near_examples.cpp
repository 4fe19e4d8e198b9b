// The examples nearest to a row, as Python sees them.
#include <cmath>
#include <utility>

#include "bindings.hpp"
#include "near_examples.hpp"

namespace labelprism {

void bind_near_examples(nb::module_& m) {
  m.def(
      "strongest_examples",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, std::int64_t n_features,
         std::int64_t longest, int n_threads) {
        const CsrView X = checked_csr(indptr, indices, data, n_features);
        require_sorted(X);
        require(longest >= 1, "longest must be at least 1");
        require(X.n_rows <= INT32_MAX, "there may be 2147483647 rows");
        GrowingCsr lists;
        {
          const nb::gil_scoped_release release;
          strongest_examples(X, longest, n_threads, lists);
        }
        return take(lists);
      },
      array("indptr"), array("indices"), array("data"), "n_features"_a, "longest"_a, "n_threads"_a = 1,
      "For each feature, the rows of its values of largest size, ascending, and the values.");
  nb::class_<NearExamples>(m, "NearExamples", "The examples nearest to a row; see near_examples.hpp.")
      .def(
          "__init__",
          [](NearExamples* self, Vector<std::int64_t> begin, Vector<std::int32_t> example, Vector<std::uint16_t> value,
             Vector<std::int64_t> label_begin, Vector<std::int32_t> label, Vector<float> weight) {
            ExampleTables tables;
            tables.begin = stored<std::int64_t>(begin);
            tables.example = stored<std::int32_t>(example);
            tables.value = stored<std::uint16_t>(value);
            tables.label_begin = stored<std::int64_t>(label_begin);
            tables.label = stored<std::int32_t>(label);
            tables.weight = stored<float>(weight);
            require(all_within(weight, 0.0f, std::numeric_limits<float>::max()),
                    "the weights of examples must be finite and not negative");
            new (self) NearExamples(std::move(tables));
          },
          nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>(), nb::keep_alive<1, 5>(),
          nb::keep_alive<1, 6>(), nb::keep_alive<1, 7>(), array("begin"), array("example"), array("value"),
          array("label_begin"), array("label"), array("weight"),
          "The arrays are used, not copied; values are float16. `weight` may be empty: all examples count the same.")
      .def(
          "votes",
          [](const NearExamples& self, Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data,
             Vector<std::int64_t> candidate_indptr, Vector<std::int32_t> candidates, std::int64_t n_labels,
             int n_threads) {
            const CsrView X = checked_csr(indptr, indices, data, self.n_features());
            const CsrView given = checked_labels(candidate_indptr, candidates, n_labels);
            require(X.n_rows == given.n_rows, "X and candidates must have the same rows");
            float* votes;
            NewArray<float> result = new_array({candidates.size()}, &votes);
            {
              const nb::gil_scoped_release release;
              near_example_votes(self, X, given, n_threads, votes);
            }
            return result;
          },
          array("indptr"), array("indices"), array("data"), array("candidate_indptr"), array("candidates"),
          "n_labels"_a, "n_threads"_a = 1,
          "log(0.01 + share of the votes) of each candidate of each row, for rows that are unit.");
}

}  // namespace labelprism
