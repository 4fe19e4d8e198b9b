// Products with blocks of vectors, the best columns of rows and the largest of sums, as Python sees them.
#include "bindings.hpp"
#include "block_kernels.hpp"
#include "block_products.hpp"
#include "largest.hpp"
#include "top_k.hpp"

namespace labelprism {
namespace {

NewArray<float> product(const CsrView& matrix, const Matrix<float>& block, int n_threads) {
  require(static_cast<std::int64_t>(block.shape(0)) == matrix.n_columns, "block must have a row for every column");
  float* out;
  NewArray<float> result = new_array({static_cast<std::size_t>(matrix.n_rows), block.shape(1)}, &out);
  {
    const nb::gil_scoped_release release;
    csr_times_block(matrix, block.data(), static_cast<std::int64_t>(block.shape(1)), n_threads, out);
  }
  return result;
}

NewArray<float> transposed_product(const CsrView& matrix, const float* row_weight, const Matrix<float>& block,
                                   int n_threads) {
  require(static_cast<std::int64_t>(block.shape(0)) == matrix.n_rows, "block must have a row for every row");
  float* out;
  NewArray<float> result = new_array({static_cast<std::size_t>(matrix.n_columns), block.shape(1)}, &out);
  {
    const nb::gil_scoped_release release;
    csr_transposed_times_block(matrix, row_weight, block.data(), static_cast<std::int64_t>(block.shape(1)), n_threads,
                               out);
  }
  return result;
}

void bind_block_products(nb::module_& m) {
  m.def(
      "csr_times_block",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, Matrix<float> block,
         int n_threads) {
        const auto n_columns = static_cast<std::int64_t>(block.shape(0));
        return product(checked_csr(indptr, indices, data, n_columns), block, n_threads);
      },
      array("indptr"), array("indices"), array("data"), array("block"), "n_threads"_a = 1,
      "The product of a CSR matrix (n, d) and a dense block (d, width).");
  m.def(
      "dense_times_block",
      [](Matrix<float> X, Matrix<float> block, int n_threads) {
        const DenseView rows = checked_dense(X);
        const auto width = static_cast<std::int64_t>(block.shape(1));
        require(static_cast<std::int64_t>(block.shape(0)) == rows.n_columns, "block must have a row for every column");
        require(width % 8 == 0, "block must have a multiple of 8 columns");
        float* out;
        NewArray<float> result = new_array({X.shape(0), block.shape(1)}, &out);
        {
          const nb::gil_scoped_release release;
          dense_times_block(rows, block.data(), width, n_threads, out);
        }
        return result;
      },
      array("X"), array("block"), "n_threads"_a = 1,
      "The product of a dense matrix (n, d) and a block (d, width); a row's result does not depend on the others.");
  m.def(
      "csr_transposed_times_block",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, std::int64_t n_columns,
         Matrix<float> block, int n_threads) {
        return transposed_product(checked_csr(indptr, indices, data, n_columns), nullptr, block, n_threads);
      },
      array("indptr"), array("indices"), array("data"), "n_columns"_a, array("block"), "n_threads"_a = 1,
      "The product of the transpose of a CSR matrix (n, d) and a dense block (n, width).");
  m.def(
      "class_sums",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> labels, std::int64_t n_labels, Vector<float> example_weight,
         Matrix<float> block, int n_threads) {
        const CsrView Y = checked_labels(indptr, labels, n_labels);
        require(static_cast<std::int64_t>(example_weight.size()) == Y.n_rows, "example_weight must have a value a row");
        return transposed_product(Y, example_weight.data(), block, n_threads);
      },
      array("indptr"), array("labels"), "n_labels"_a, array("example_weight"), array("block"), "n_threads"_a = 1,
      "For every label the weighted sum of its examples' rows of the block (n, width): Y'D block.");
  m.def("instruction_sets", &instruction_sets, "The instruction sets that this processor can run, the fastest last.");
  m.def("instruction_set", [] { return std::string(block_kernels().name); }, "The instruction set in use.");
  m.def("use_instruction_set", &use_instruction_set, "name"_a, "Choose an instruction set, for tests and benchmarks.");
}

using TopK = std::tuple<NewArray<std::int32_t>, NewArray<float>>;

template <class Select>
TopK top_k_result(std::int64_t n_rows, std::int64_t k, const Select& select) {
  require(1 <= k && k <= INT32_MAX, "k must be at least 1 and at most 2147483647");
  std::int32_t* columns;
  float* scores;
  const auto shape = {static_cast<std::size_t>(n_rows), static_cast<std::size_t>(k)};
  NewArray<std::int32_t> best_columns = new_array(shape, &columns);
  NewArray<float> best_scores = new_array(shape, &scores);
  {
    const nb::gil_scoped_release release;
    select(columns, scores);
  }
  return {best_columns, best_scores};
}

void bind_largest(nb::module_& m) {
  m.def(
      "largest_places",
      [](Vector<float> values, std::int64_t wanted) {
        require(wanted >= 1, "wanted must be at least 1");
        std::vector<float> padded(values.data(), values.data() + values.size());
        padded.resize(padded_to_eight(values.size()), 0.0f);
        Largest largest;
        largest.find(block_kernels(), padded.data(), padded.size(), wanted);
        const std::size_t size = largest.size();
        if (size > static_cast<std::size_t>(wanted)) {
          largest.drop_last(padded.data(), size - static_cast<std::size_t>(wanted));
        }
        return std::vector<std::int32_t>(largest.begin(), largest.end());
      },
      array("values"), "wanted"_a,
      "The places of the largest of the values that are above 0, ascending; of equals the first ones.");
  m.def(
      "add_halves",
      [](Vector<std::int32_t> labels, Vector<std::uint16_t> halves, float value, Vector<float> sums) {
        require(labels.size() == halves.size(), "labels and halves must be of the same length");
        require(sums.size() >= 1 && sums.size() <= INT32_MAX, "there must be a sum");
        float* out;
        NewArray<float> result = new_array({sums.size()}, &out);
        for (std::size_t i = 0; i < sums.size(); ++i) out[i] = sums.data()[i];
        block_kernels().add_halves(labels.data(), halves.data(), static_cast<std::int64_t>(labels.size()), value,
                                   static_cast<std::uint32_t>(sums.size() - 1), out);
        return result;
      },
      array("labels"), array("halves"), "value"_a, array("sums"),
      "The sums after value * half was added at each label; the last of them stands for labels that are out of range.");
}

void bind_top_k(nb::module_& m) {
  m.def(
      "top_k_dense",
      [](Matrix<float> scores, std::int64_t k, int n_threads) {
        const auto n = static_cast<std::int64_t>(scores.shape(0)), m = static_cast<std::int64_t>(scores.shape(1));
        require(m <= INT32_MAX, "at most 2147483647 columns are possible");
        return top_k_result(n, k, [&](std::int32_t* columns, float* best) {
          top_k_dense(scores.data(), n, m, k, n_threads, columns, best);
        });
      },
      array("scores"), "k"_a, "n_threads"_a = 1, "The columns and scores of the k largest entries of every row.");
  m.def(
      "top_k_csr",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, std::int64_t k, int n_threads) {
        const CsrView scores = checked_csr(indptr, indices, data, INT32_MAX);
        return top_k_result(scores.n_rows, k, [&](std::int32_t* columns, float* best) {
          top_k_csr(scores, k, n_threads, columns, best);
        });
      },
      array("indptr"), array("indices"), array("data"), "k"_a, "n_threads"_a = 1,
      "The columns and scores of the k largest stored entries of every row.");
}

}  // namespace

void bind_products(nb::module_& m) {
  bind_block_products(m);
  bind_top_k(m);
  bind_largest(m);
}

}  // namespace labelprism
