// The parser of sparse text and the hasher, as Python sees them.
#include "bindings.hpp"
#include "sparse_text.hpp"
#include "text_hash.hpp"
#include "text_weights.hpp"

namespace labelprism {
namespace {

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

void bind_text_weights(nb::module_& m) {
  nb::class_<TextWeigher>(m, "TextWeigher", "From a few texts to unit rows of tf-idf in one go; see text_weights.hpp.")
      .def(
          "__init__",
          [](TextWeigher* self, const HashOptions& options, Vector<float> of_count, Vector<float> idf) {
            require(options.fold && !options.is_signed, "counts must be of folded texts and without signs");
            require(idf.size() == std::size_t{1} << options.bits, "there must be an idf for every feature");
            require(of_count.size() > 0, "there must be a weight for a count at least");
            new (self) TextWeigher(options, {of_count.data(), of_count.data() + of_count.size()}, idf.data());
          },
          nb::keep_alive<1, 4>(), "options"_a, array("of_count"), array("idf"),
          "`of_count` has the weight of every count, from 0; `idf`, one for each feature, is used, not copied.")
      .def(
          "rows",
          [](const TextWeigher& self, nb::list texts, bool are_folded,
             int n_threads) -> std::optional<decltype(take(std::declval<GrowingCsr&>()))> {
            const JoinedTexts joined(texts);
            GrowingCsr rows;
            bool is_done = joined.is_valid;
            if (is_done) {
              const nb::gil_scoped_release release;
              is_done = self.rows(joined.view(), are_folded, n_threads, rows);
            }
            if (!is_done) return std::nullopt;
            return take(rows);
          },
          "texts"_a, "are_folded"_a, "n_threads"_a = 1,
          "The arrays of a CSR matrix; None if a text cannot be folded character by character, or counts are large.");
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

void bind_text(nb::module_& m) {
  bind_sparse_text(m);
  bind_text_hash(m);
  bind_text_weights(m);
}

}  // namespace labelprism
