// Reading and writing of sparse text: `label,label feature:value feature:value ...`, one example a line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "buffer.hpp"
#include "csr.hpp"

namespace labelprism {

// Where and why a text could not be read.
struct TextError {
  std::int64_t line;  // from 1
  std::string message;
  std::string token;  // the piece of the line at fault; may be empty
};

enum class Header { kAbsent, kRequired, kDetect };

// What the caller knows of the file; -1 stands for unknown.
struct SparseTextOptions {
  Header header = Header::kDetect;
  std::int64_t first_feature = 0;  // the number of the first feature: 0, or 1 in most svmlight files
  std::int64_t n_features = -1;
  std::int64_t n_labels = -1;
};

// A parser that is fed the file in pieces of any size.
//
// - A header `n d c` makes blank lines count as examples without labels and features, and fixes all three counts.
// - Without one, blank lines are skipped. `#` starts a comment in both cases.
// - Rows come out sorted. Repeated features or labels of a row, values that are not finite, and anything that is not
//   a plain decimal number are errors.
// After an error the parser takes no more text.
class SparseTextParser {
 public:
  explicit SparseTextParser(const SparseTextOptions& options);

  // Both return false once an error was met.
  bool feed(const char* text, std::size_t size);
  bool finish();

  // Takes no more text: what was read is about to be given away.
  void close() { error_ = TextError{line_, "the text was taken from the parser already", ""}; }

  const std::optional<TextError>& error() const { return error_; }
  std::int64_t line() const { return line_; }  // lines that were read
  std::int64_t n_rows() const { return static_cast<std::int64_t>(feature_indptr.size()) - 1; }
  std::int64_t n_features() const;  // as declared, else one more than the largest seen
  std::int64_t n_labels() const;
  std::int64_t smallest_feature() const { return smallest_feature_; }  // less first_feature; -1 when there is none
  bool had_header() const { return had_header_; }

  Buffer<std::int64_t> feature_indptr;
  Buffer<std::int32_t> features;
  Buffer<float> values;
  Buffer<std::int64_t> label_indptr;
  Buffer<std::int32_t> labels;

 private:
  void parse_line(std::string_view line);
  bool parse_header(std::string_view line);
  void parse_example(const char* at, const char* end);
  const char* parse_labels(const char* at, const char* end);
  const char* parse_feature(const char* at, const char* end);
  void close_row();
  void sort_features(std::size_t begin);
  void sort_labels(std::size_t begin);
  [[noreturn]] void fail(const std::string& message, std::string_view token) const;

  SparseTextOptions options_;
  std::optional<TextError> error_;
  Buffer<char> rest_;  // the unfinished line at the end of what was fed
  std::int64_t line_ = 0;
  std::int64_t declared_rows_ = -1;
  std::int64_t largest_feature_ = -1;
  std::int64_t smallest_feature_ = -1;
  std::int64_t largest_label_ = -1;
  bool had_header_ = false;
  bool features_sorted_ = true;
  bool labels_sorted_ = true;
};

// The rows begin <= r < end as text; values are written with as few digits as give the same float back.
std::string format_sparse_text(const CsrView& labels, const CsrView& features, std::int64_t first_feature,
                               std::int64_t begin, std::int64_t end);

}  // namespace labelprism
