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

#include <memory>
#include <stdexcept>
#include <string>

#include "block_kernels.hpp"
#include "block_products.hpp"
#include "sparse_text.hpp"
#include "text_hash.hpp"
#include "thread_pool.hpp"
#include "top_k.hpp"

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

void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

// A new uninitialised array; `data` points into it.
template <class T>
NewArray<T> new_array(std::initializer_list<std::size_t> shape, T** data) {
  std::size_t size = 1;
  for (const std::size_t extent : shape) size *= extent;
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

// Checks all that kernels rely on; costs one pass over the indices, which a kernel reads anyway.
CsrView checked_csr(const Vector<std::int64_t>& indptr, const Vector<std::int32_t>& indices, const float* data,
                    std::size_t data_size, std::int64_t n_columns) {
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
      "indptr"_a, "indices"_a, "data"_a, "block"_a, "n_threads"_a = 1,
      "The product of a CSR matrix (n, d) and a dense block (d, width).");
  m.def(
      "csr_transposed_times_block",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, std::int64_t n_columns,
         Matrix<float> block, int n_threads) {
        return transposed_product(checked_csr(indptr, indices, data, n_columns), nullptr, block, n_threads);
      },
      "indptr"_a, "indices"_a, "data"_a, "n_columns"_a, "block"_a, "n_threads"_a = 1,
      "The product of the transpose of a CSR matrix (n, d) and a dense block (n, width).");
  m.def(
      "class_sums",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> labels, std::int64_t n_labels, Vector<float> example_weight,
         Matrix<float> block, int n_threads) {
        const CsrView Y = checked_labels(indptr, labels, n_labels);
        require(static_cast<std::int64_t>(example_weight.size()) == Y.n_rows, "example_weight must have a value a row");
        return transposed_product(Y, example_weight.data(), block, n_threads);
      },
      "indptr"_a, "labels"_a, "n_labels"_a, "example_weight"_a, "block"_a, "n_threads"_a = 1,
      "For every label the weighted sum of its examples' rows of the block (n, width): Y'D block.");
  m.def("instruction_sets", &instruction_sets, "The instruction sets that this processor can run, the fastest last.");
  m.def("instruction_set", [] { return std::string(block_kernels().name); }, "The instruction set in use.");
  m.def("use_instruction_set", &use_instruction_set, "name"_a, "Choose an instruction set, for tests and benchmarks.");
}

using TopK = std::tuple<NewArray<std::int32_t>, NewArray<float>>;

template <class Select>
TopK top_k_result(std::int64_t n_rows, std::int64_t k, const Select& select) {
  require(k >= 1, "k must be at least 1");
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
      "scores"_a, "k"_a, "n_threads"_a = 1, "The columns and scores of the k largest entries of every row.");
  m.def(
      "top_k_csr",
      [](Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, std::int64_t k, int n_threads) {
        const CsrView scores = checked_csr(indptr, indices, data, INT32_MAX);
        return top_k_result(scores.n_rows, k, [&](std::int32_t* columns, float* best) {
          top_k_csr(scores, k, n_threads, columns, best);
        });
      },
      "indptr"_a, "indices"_a, "data"_a, "k"_a, "n_threads"_a = 1,
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
          "piece"_a, "Read on; False once the text is malformed.")
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
      "label_indptr"_a, "labels"_a, "indptr"_a, "indices"_a, "data"_a, "first_feature"_a = 0,
      "Rows of X and Y as lines of sparse text.");
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
      "utf8"_a, "offsets"_a, "The texts whose case and compatibility characters cannot be folded one by one.");
  m.def(
      "hash_texts",
      [](nb::bytes utf8, Vector<std::int64_t> offsets, const HashOptions& options, int n_threads) {
        const Texts texts = checked_texts(utf8, offsets);
        HashedRows rows;
        {
          const nb::gil_scoped_release release;
          hash_texts(texts, options, n_threads, rows);
        }
        return std::tuple{take(rows.indptr), take(rows.indices), take(rows.data)};
      },
      "utf8"_a, "offsets"_a, "options"_a, "n_threads"_a = 1, "Counts of hashed n-grams: the arrays of a CSR matrix.");
  nb::class_<TokenTable>(m, "TokenTable", "Counts n-grams by their spelling, to name hashed features.")
      .def(nb::init<>())
      .def(
          "add",
          [](TokenTable& self, nb::bytes utf8, Vector<std::int64_t> offsets, const HashOptions& options) {
            const Texts texts = checked_texts(utf8, offsets);
            const nb::gil_scoped_release release;
            self.add(texts, options);
          },
          "utf8"_a, "offsets"_a, "options"_a)
      .def("names", &TokenTable::names, "options"_a, "Pairs of feature and most frequent n-gram, sorted by feature.");
}

}  // namespace
}  // namespace labelprism

NB_MODULE(_core, m) {
  m.doc() = "The native kernels of labelprism.";
  labelprism::bind_products(m);
  labelprism::bind_top_k(m);
  labelprism::bind_sparse_text(m);
  labelprism::bind_text_hash(m);
}
