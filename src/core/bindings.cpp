// labelprism._core: the kernels as Python sees them. The only file that knows Python.
//
// Every function checks the arrays it is given (a forged model or file must not read outside its arrays), then releases
// the GIL. Inputs may be read-only.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "block_kernels.hpp"
#include "block_products.hpp"
#include "sparse_text.hpp"
#include "spectral_node.hpp"
#include "text_hash.hpp"
#include "thread_pool.hpp"
#include "top_k.hpp"
#include "tree_kernels.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace labelprism {
namespace {

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using NewArray = nb::ndarray<nb::numpy, T, nb::c_contig>;

// An argument that must be an array of just the right kind: a silent conversion could wrap numbers that are too large.
auto array(const char* name) { return nb::arg(name).noconvert(); }

void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

// A new uninitialised array; `data` points into it.
template <class T>
NewArray<T> new_array(std::initializer_list<std::size_t> shape, T** data) {
  std::size_t size = 1;
  for (const std::size_t extent : shape) {
    if (extent != 0 && size > PTRDIFF_MAX / sizeof(T) / extent) throw std::bad_alloc();
    size *= extent;
  }
  *data = new T[size];
  nb::capsule owner(*data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return NewArray<T>(*data, shape, owner);
}

// A buffer's array, without a copy.
template <class T>
NewArray<T> take(Buffer<T>& buffer) {
  const auto [data, size] = buffer.release();
  nb::capsule owner(data, [](void* p) noexcept { std::free(p); });
  return NewArray<T>(data, {size}, owner);
}

std::tuple<NewArray<std::int64_t>, NewArray<std::int32_t>, NewArray<float>> take(GrowingCsr& matrix) {
  return {take(matrix.indptr), take(matrix.indices), take(matrix.data)};
}

// Checks all that kernels rely on; costs one pass over the indices, which a kernel reads anyway.
CsrView checked_csr(const Vector<std::int64_t>& indptr, const Vector<std::int32_t>& indices, const float* data,
                    std::size_t data_size, std::int64_t n_columns) {
  require(0 <= n_columns && n_columns <= INT32_MAX, "there must be 0 to 2147483647 columns");
  require(indptr.size() > 0 && indptr.data()[0] == 0, "indptr must begin with 0");
  const std::int64_t n_rows = static_cast<std::int64_t>(indptr.size()) - 1;
  const std::int64_t* pointers = indptr.data();
  bool ascending = true;
  for (std::int64_t r = 0; r < n_rows; ++r) ascending &= pointers[r] <= pointers[r + 1];
  require(ascending, "indptr must not descend");
  require(pointers[n_rows] == static_cast<std::int64_t>(indices.size()), "indptr must end with the number of indices");
  require(data == nullptr || data_size == indices.size(), "data and indices must be of the same length");
  const std::int32_t* columns = indices.data();
  bool inside = true;
  for (std::size_t t = 0; t < indices.size(); ++t) inside &= columns[t] >= 0 && columns[t] < n_columns;
  require(inside, "an index is out of range");
  return {n_rows, n_columns, pointers, columns, data};
}

CsrView checked_csr(const Vector<std::int64_t>& indptr, const Vector<std::int32_t>& indices, const Vector<float>& data,
                    std::int64_t n_columns) {
  // An empty array may have a null pointer, which would stand for "all ones".
  static const float nothing = 0;
  return checked_csr(indptr, indices, data.size() ? data.data() : &nothing, data.size(), n_columns);
}

CsrView checked_labels(const Vector<std::int64_t>& indptr, const Vector<std::int32_t>& indices,
                       std::int64_t n_columns) {
  return checked_csr(indptr, indices, nullptr, 0, n_columns);
}

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

void bind_products(nb::module_& m) {
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

Header header_of(std::optional<bool> header) {
  return !header ? Header::kDetect : *header ? Header::kRequired : Header::kAbsent;
}

void bind_sparse_text(nb::module_& m) {
  nb::class_<SparseTextParser>(m, "SparseTextParser", "Parser of sparse text that is fed the file in pieces.")
      .def(
          "__init__",
          [](SparseTextParser* self, std::optional<bool> header, std::int64_t first_feature, std::int64_t n_features,
             std::int64_t n_labels) {
            new (self) SparseTextParser({header_of(header), first_feature, n_features, n_labels});
          },
          "header"_a.none() = nb::none(), "first_feature"_a = 0, "n_features"_a = -1, "n_labels"_a = -1)
      .def(
          "feed",
          [](SparseTextParser& self, Vector<std::uint8_t> piece) {
            const nb::gil_scoped_release release;
            return self.feed(reinterpret_cast<const char*>(piece.data()), piece.size());
          },
          array("piece"), "Read on; False once the text is malformed.")
      .def("finish", &SparseTextParser::finish, nb::call_guard<nb::gil_scoped_release>(),
           "Read the last line and check the whole; False if the text is malformed.")
      .def_prop_ro(
          "error",
          [](const SparseTextParser& self) -> std::optional<std::tuple<std::int64_t, std::string, nb::bytes>> {
            if (!self.error()) return std::nullopt;
            const TextError& error = *self.error();
            return std::tuple{error.line, error.message, nb::bytes(error.token.data(), error.token.size())};
          },
          "Line, message and token of the error, or None.")
      .def_prop_ro("line", &SparseTextParser::line)
      .def_prop_ro("had_header", &SparseTextParser::had_header)
      .def_prop_ro("n_rows", &SparseTextParser::n_rows)
      .def_prop_ro("n_features", &SparseTextParser::n_features)
      .def_prop_ro("n_labels", &SparseTextParser::n_labels)
      .def_prop_ro("smallest_feature", &SparseTextParser::smallest_feature)
      .def(
          "take",
          [](SparseTextParser& self) {
            self.close();
            return std::tuple{take(self.feature_indptr), take(self.features), take(self.values),
                              take(self.label_indptr), take(self.labels)};
          },
          "The arrays read: indptr, indices and data of X, indptr and indices of Y. Leaves the parser empty.");
  m.def(
      "format_sparse_text",
      [](Vector<std::int64_t> label_indptr, Vector<std::int32_t> labels, Vector<std::int64_t> indptr,
         Vector<std::int32_t> indices, Vector<float> data, std::int64_t first_feature) {
        const CsrView Y = checked_labels(label_indptr, labels, INT32_MAX);
        const CsrView X = checked_csr(indptr, indices, data, INT32_MAX);
        require(X.n_rows == Y.n_rows, "X and Y must have the same number of rows");
        std::string text;
        {
          const nb::gil_scoped_release release;
          text = format_sparse_text(Y, X, first_feature, 0, X.n_rows);
        }
        return nb::bytes(text.data(), text.size());
      },
      array("label_indptr"), array("labels"), array("indptr"), array("indices"), array("data"), "first_feature"_a = 0,
      "Rows of X and Y as lines of sparse text.");
}

NodeGroups checked_groups(const Vector<std::int32_t>& rows, const float* weight, std::size_t n_weights,
                          const Vector<std::int64_t>& offsets, std::int64_t n_rows) {
  require(offsets.size() > 0 && offsets.data()[0] == 0, "offsets must begin with 0");
  const std::int64_t n_nodes = static_cast<std::int64_t>(offsets.size()) - 1;
  for (std::int64_t i = 0; i < n_nodes; ++i) {
    require(offsets.data()[i] <= offsets.data()[i + 1], "offsets must not descend");
  }
  require(offsets.data()[n_nodes] == static_cast<std::int64_t>(rows.size()),
          "offsets must end with the number of rows");
  require(weight == nullptr || n_weights == rows.size(), "there must be a weight for every row");
  bool inside = true;
  for (std::size_t i = 0; i < rows.size(); ++i) inside &= rows.data()[i] >= 0 && rows.data()[i] < n_rows;
  require(inside, "a row is out of range");
  return {rows.data(), weight, offsets.data(), n_nodes};
}

// What solve_nodes returns: eigenvalue, mass and bias of every node, the routers as CSR, the margin of every example.
using Solution = std::tuple<NewArray<double>, NewArray<double>, NewArray<float>, NewArray<std::int64_t>,
                            NewArray<std::int32_t>, NewArray<float>, NewArray<float>>;

template <class Matrix>
Solution solved(const Matrix& X, const CsrView& Y, const NodeGroups& groups, const Vector<std::int64_t>& node_ids,
                const SpectralSettings& settings, int n_threads) {
  require(X.n_rows == Y.n_rows, "X and Y must have the same number of rows");
  require(static_cast<std::int64_t>(node_ids.size()) == groups.n_nodes, "node_ids must have a number for every node");
  require(settings.n_blocks >= 1 && settings.n_blocks <= 32, "n_blocks: 1 to 32");
  const auto n_nodes = static_cast<std::size_t>(groups.n_nodes);
  double *eigenvalue, *mass;
  float *bias, *margin;
  NewArray<double> eigenvalues = new_array({n_nodes}, &eigenvalue), masses = new_array({n_nodes}, &mass);
  NewArray<float> biases = new_array({n_nodes}, &bias);
  NewArray<float> margins = new_array({static_cast<std::size_t>(groups.offsets[groups.n_nodes])}, &margin);
  GrowingCsr routers;
  {
    const nb::gil_scoped_release release;
    std::vector<Router> found = solve_nodes(X, Y, groups, node_ids.data(), settings, n_threads, margin);
    routers.indptr.push(0);
    for (std::size_t i = 0; i < n_nodes; ++i) {
      eigenvalue[i] = found[i].eigenvalue;
      mass[i] = found[i].mass;
      bias[i] = found[i].bias;
      routers.indices.append(found[i].features.data(), found[i].features.size());
      routers.data.append(found[i].weights.data(), found[i].weights.size());
      routers.end_row();
      found[i] = Router();  // routers of a large tree are many; none is held twice
    }
  }
  return {eigenvalues, masses, biases, take(routers.indptr), take(routers.indices), take(routers.data), margins};
}

template <class Matrix>
NewArray<float> margins_of(const Matrix& X, const CsrView& routers, const NodeGroups& groups,
                           const Vector<std::int64_t>& nodes, int n_threads) {
  require(static_cast<std::int64_t>(nodes.size()) == groups.n_nodes, "nodes must have a number for every group");
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    require(nodes.data()[i] >= 0 && nodes.data()[i] < routers.n_rows, "a node is out of range");
  }
  float* margin;
  NewArray<float> margins = new_array({static_cast<std::size_t>(groups.offsets[groups.n_nodes])}, &margin);
  {
    const nb::gil_scoped_release release;
    router_margins(X, routers, groups, nodes.data(), n_threads, margin);
  }
  return margins;
}

DenseView checked_dense(const Matrix<float>& X) {
  return {static_cast<std::int64_t>(X.shape(0)), static_cast<std::int64_t>(X.shape(1)), X.data()};
}

void bind_tree(nb::module_& m) {
  nb::class_<SpectralSettings>(m, "SpectralSettings", "How the eigenvalue problem of a node is solved.")
      .def(
          "__init__",
          [](SpectralSettings* self, int n_blocks, int cg_iterations, bool one_label, float drop, std::uint64_t seed) {
            new (self) SpectralSettings{n_blocks, cg_iterations, one_label, drop, seed};
          },
          "n_blocks"_a, "cg_iterations"_a, "one_label"_a, "drop"_a, "seed"_a);
  m.def(
      "solve_nodes_csr",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, std::int64_t n_features,
         Vector<std::int64_t> label_indptr, Vector<std::int32_t> labels, std::int64_t n_labels,
         Vector<std::int32_t> rows, Vector<float> weight, Vector<std::int64_t> offsets, Vector<std::int64_t> node_ids,
         const SpectralSettings& settings, int n_threads) {
        const CsrView X = checked_csr(indptr, indices, data, n_features);
        const CsrView Y = checked_labels(label_indptr, labels, n_labels);
        return solved(X, Y, checked_groups(rows, weight.data(), weight.size(), offsets, X.n_rows), node_ids, settings,
                      n_threads);
      },
      array("indptr"), array("indices"), array("data"), "n_features"_a, array("label_indptr"), array("labels"),
      "n_labels"_a, array("rows"), array("weight"), array("offsets"), array("node_ids"), "settings"_a,
      "n_threads"_a = 1, "Solve the eigenvalue problems of several nodes; X is sparse.");
  m.def(
      "solve_nodes_dense",
      [](Matrix<float> X, Vector<std::int64_t> label_indptr, Vector<std::int32_t> labels, std::int64_t n_labels,
         Vector<std::int32_t> rows, Vector<float> weight, Vector<std::int64_t> offsets, Vector<std::int64_t> node_ids,
         const SpectralSettings& settings, int n_threads) {
        const DenseView view = checked_dense(X);
        const CsrView Y = checked_labels(label_indptr, labels, n_labels);
        return solved(view, Y, checked_groups(rows, weight.data(), weight.size(), offsets, view.n_rows), node_ids,
                      settings, n_threads);
      },
      array("X"), array("label_indptr"), array("labels"), "n_labels"_a, array("rows"), array("weight"),
      array("offsets"), array("node_ids"), "settings"_a, "n_threads"_a = 1,
      "Solve the eigenvalue problems of several nodes; X is dense.");
  m.def(
      "label_counts",
      [](Vector<std::int64_t> label_indptr, Vector<std::int32_t> labels, std::int64_t n_labels,
         Vector<std::int32_t> rows, Vector<float> weight, Vector<std::int64_t> offsets, int n_threads) {
        const CsrView Y = checked_labels(label_indptr, labels, n_labels);
        const NodeGroups groups = checked_groups(rows, weight.data(), weight.size(), offsets, Y.n_rows);
        GrowingCsr counts;
        {
          const nb::gil_scoped_release release;
          label_counts(Y, groups, n_threads, counts);
        }
        return take(counts);
      },
      array("label_indptr"), array("labels"), "n_labels"_a, array("rows"), array("weight"), array("offsets"),
      "n_threads"_a = 1, "The weighted label counts of several nodes: the arrays of a CSR matrix.");
  m.def(
      "router_margins_csr",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, std::int64_t n_features,
         Vector<std::int64_t> router_indptr, Vector<std::int32_t> router_indices, Vector<float> router_data,
         Vector<std::int32_t> rows, Vector<std::int64_t> offsets, Vector<std::int64_t> nodes, int n_threads) {
        const CsrView X = checked_csr(indptr, indices, data, n_features);
        const CsrView routers = checked_csr(router_indptr, router_indices, router_data, n_features);
        return margins_of(X, routers, checked_groups(rows, nullptr, 0, offsets, X.n_rows), nodes, n_threads);
      },
      array("indptr"), array("indices"), array("data"), "n_features"_a, array("router_indptr"), array("router_indices"),
      array("router_data"), array("rows"), array("offsets"), array("nodes"), "n_threads"_a = 1,
      "The margin of every row at the router of its group.");
  m.def(
      "router_margins_dense",
      [](Matrix<float> X, Vector<std::int64_t> router_indptr, Vector<std::int32_t> router_indices,
         Vector<float> router_data, Vector<std::int32_t> rows, Vector<std::int64_t> offsets, Vector<std::int64_t> nodes,
         int n_threads) {
        const DenseView view = checked_dense(X);
        const CsrView routers = checked_csr(router_indptr, router_indices, router_data, view.n_columns);
        return margins_of(view, routers, checked_groups(rows, nullptr, 0, offsets, view.n_rows), nodes, n_threads);
      },
      array("X"), array("router_indptr"), array("router_indices"), array("router_data"), array("rows"),
      array("offsets"), array("nodes"), "n_threads"_a = 1,
      "The margin of every row at the router of its group; X is dense.");
  m.def(
      "median_split",
      [](Vector<float> values, Vector<float> weights) {
        require(values.size() == weights.size() && values.size() > 0, "values and weights: as many, and at least one");
        return median_split(values.data(), weights.data(), static_cast<std::int64_t>(values.size()));
      },
      array("values"), array("weights"), "A number that splits the values at their weighted median.");
  m.def(
      "weighted_median",
      [](Vector<float> values, Vector<float> weights) {
        require(values.size() == weights.size() && values.size() > 0, "values and weights: as many, and at least one");
        return weighted_median(values.data(), weights.data(), static_cast<std::int64_t>(values.size()));
      },
      array("values"), array("weights"), "The smallest value at which the weights up to it reach half of the total.");
}

HashOptions hash_options(const std::string& analyzer, std::pair<int, int> ngram_range, int bits, int n_hashes,
                         bool is_signed, bool fold, int min_word_length) {
  require(analyzer == "word" || analyzer == "char" || analyzer == "char_wb", "analyzer: 'word', 'char' or 'char_wb'");
  require(1 <= ngram_range.first && ngram_range.first <= ngram_range.second, "ngram_range: 1 <= shortest <= longest");
  require(1 <= bits && bits <= 30, "bits: 1 to 30");
  require(n_hashes == 1 || n_hashes == 2, "n_hashes: 1 or 2");
  const Analyzer kind = analyzer == "word"   ? Analyzer::kWord
                        : analyzer == "char" ? Analyzer::kChar
                                             : Analyzer::kCharInWord;
  return {kind, ngram_range.first, ngram_range.second, bits, n_hashes, is_signed, fold, min_word_length};
}

Texts checked_texts(const nb::bytes& utf8, const Vector<std::int64_t>& offsets) {
  require(offsets.size() > 0 && offsets.data()[0] == 0, "offsets must begin with 0");
  const std::int64_t count = static_cast<std::int64_t>(offsets.size()) - 1;
  for (std::int64_t i = 0; i < count; ++i) {
    require(offsets.data()[i] <= offsets.data()[i + 1], "offsets must not descend");
  }
  require(offsets.data()[count] == static_cast<std::int64_t>(utf8.size()), "offsets must end with the size of utf8");
  return {utf8.c_str(), offsets.data(), count};
}

void bind_text_hash(nb::module_& m) {
  nb::class_<HashOptions>(m, "HashOptions", "How texts are cut into n-grams and hashed.")
      .def(
          "__init__",
          [](HashOptions* self, const std::string& analyzer, std::pair<int, int> ngram_range, int bits, int n_hashes,
             bool is_signed, bool fold, int min_word_length) {
            new (self)
                HashOptions(hash_options(analyzer, ngram_range, bits, n_hashes, is_signed, fold, min_word_length));
          },
          "analyzer"_a, "ngram_range"_a, "bits"_a, "n_hashes"_a, "is_signed"_a, "fold"_a, "min_word_length"_a);
  m.def(
      "texts_to_fold",
      [](nb::bytes utf8, Vector<std::int64_t> offsets) {
        const Texts texts = checked_texts(utf8, offsets);
        const nb::gil_scoped_release release;
        return texts_to_fold(texts);
      },
      "utf8"_a, array("offsets"), "The texts whose case and compatibility characters cannot be folded one by one.");
  m.def(
      "hash_texts",
      [](nb::bytes utf8, Vector<std::int64_t> offsets, const HashOptions& options, int n_threads) {
        const Texts texts = checked_texts(utf8, offsets);
        GrowingCsr rows;
        {
          const nb::gil_scoped_release release;
          hash_texts(texts, options, n_threads, rows);
        }
        return take(rows);
      },
      "utf8"_a, array("offsets"), "options"_a, "n_threads"_a = 1,
      "Counts of hashed n-grams: the arrays of a CSR matrix.");
  nb::class_<TokenTable>(m, "TokenTable", "Counts n-grams by their spelling, to name hashed features.")
      .def(nb::init<>())
      .def(
          "add",
          [](TokenTable& self, nb::bytes utf8, Vector<std::int64_t> offsets, const HashOptions& options) {
            const Texts texts = checked_texts(utf8, offsets);
            const nb::gil_scoped_release release;
            self.add(texts, options);
          },
          "utf8"_a, array("offsets"), "options"_a)
      .def("names", &TokenTable::names, "options"_a, "Pairs of feature and most frequent n-gram, sorted by feature.");
}

}  // namespace
}  // namespace labelprism

NB_MODULE(_core, m) {
  m.doc() = "The native kernels of labelprism.";
  labelprism::bind_products(m);
  labelprism::bind_top_k(m);
  labelprism::bind_sparse_text(m);
  labelprism::bind_tree(m);
  labelprism::bind_text_hash(m);
}
