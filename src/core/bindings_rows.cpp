// Copies of the rows of matrices, as Python sees them.
#include "bindings.hpp"
#include "csr_rows.hpp"

namespace labelprism {

void bind_rows(nb::module_& m) {
  m.def(
      "sorted_rows",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, std::int64_t n_columns,
         int n_threads) {
        const CsrView matrix = checked_csr(indptr, indices, data, n_columns);
        std::int32_t* columns;
        float* values;
        NewArray<std::int32_t> new_indices = new_array({indices.size()}, &columns);
        NewArray<float> new_data = new_array({data.size()}, &values);
        bool is_canonical;
        {
          const nb::gil_scoped_release release;
          is_canonical = sort_rows(matrix, n_threads, columns, values);
        }
        return std::tuple(new_indices, new_data, is_canonical);
      },
      array("indptr"), array("indices"), array("data"), "n_columns"_a, "n_threads"_a = 1,
      "Indices and data of a matrix whose rows ascend, and whether no column is twice in a row; see csr_rows.hpp.");
  m.def(
      "gathered_rows",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, std::int64_t n_columns,
         Vector<std::int64_t> rows, int n_threads) {
        const CsrView matrix = checked_csr(indptr, indices, data, n_columns);
        std::int64_t* ends;
        NewArray<std::int64_t> new_indptr = new_array({rows.size() + 1}, &ends);
        ends[0] = 0;
        for (std::size_t i = 0; i < rows.size(); ++i) {
          const std::int64_t row = rows.data()[i];
          require(0 <= row && row < matrix.n_rows, "a row is out of range");
          ends[i + 1] = ends[i] + matrix.indptr[row + 1] - matrix.indptr[row];
        }
        const auto size = static_cast<std::size_t>(ends[rows.size()]);
        std::int32_t* columns;
        float* values;
        NewArray<std::int32_t> new_indices = new_array({size}, &columns);
        NewArray<float> new_data = new_array({size}, &values);
        {
          const nb::gil_scoped_release release;
          gather_rows(matrix, rows.data(), static_cast<std::int64_t>(rows.size()), ends, n_threads, columns, values);
        }
        return std::tuple(new_indptr, new_indices, new_data);
      },
      array("indptr"), array("indices"), array("data"), "n_columns"_a, array("rows"), "n_threads"_a = 1,
      "Some rows of a matrix, in the order of their numbers; see csr_rows.hpp.");
}

}  // namespace labelprism
