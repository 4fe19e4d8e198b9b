#include "sparse_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>
#include <vector>

#include "parse_float.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kLargestIndex = std::numeric_limits<std::int32_t>::max() - 1;

constexpr std::int64_t kTooLarge = 100'000'000'000'000'000;

// Thrown inside the parser and caught at its door.
struct Malformed {
  TextError error;
};

inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool ends_token(char c) { return is_blank(c) || c == '#'; }

inline const char* skip_blanks(const char* at, const char* end) {
  while (at < end && is_blank(*at)) ++at;
  return at;
}

// The whole token around `at`, for messages.
std::string_view token_at(const char* at, const char* end) {
  const char* stop = at;
  while (stop < end && !ends_token(*stop)) ++stop;
  return {at, static_cast<std::size_t>(stop - at)};
}

// Digits to a number; overlong numbers stop growing far above every index, and so are found out of range.
inline const char* parse_digits(const char* at, const char* end, std::int64_t* value) {
  std::int64_t number = 0;
  for (; at < end && is_digit(*at); ++at) {
    if (number < kTooLarge) number = number * 10 + (*at - '0');
  }
  *value = number;
  return at;
}

std::string range_text(std::int64_t first, std::int64_t count) {
  return std::to_string(first) + " to " + std::to_string(first + count - 1);
}

}  // namespace

SparseTextParser::SparseTextParser(const SparseTextOptions& options) : options_(options) {
  feature_indptr.push(0);
  label_indptr.push(0);
}

void SparseTextParser::fail(const std::string& message, std::string_view token) const {
  throw Malformed{{line_, message, std::string(token.substr(0, 200))}};
}

std::int64_t SparseTextParser::n_features() const {
  return options_.n_features >= 0 ? options_.n_features : largest_feature_ + 1;
}

std::int64_t SparseTextParser::n_labels() const {
  return options_.n_labels >= 0 ? options_.n_labels : largest_label_ + 1;
}

bool SparseTextParser::feed(const char* text, std::size_t size) {
  if (error_) return false;
  const char* at = text;
  const char* const end = text + size;
  try {
    while (const void* found = std::memchr(at, '\n', static_cast<std::size_t>(end - at))) {
      const char* stop = static_cast<const char*>(found);
      if (rest_.size() > 0) {  // the line began in an earlier piece
        rest_.append(at, static_cast<std::size_t>(stop - at));
        parse_line({rest_.data(), rest_.size()});
        rest_.truncate(0);
      } else {
        parse_line({at, static_cast<std::size_t>(stop - at)});
      }
      at = stop + 1;
    }
    rest_.append(at, static_cast<std::size_t>(end - at));
  } catch (const Malformed& malformed) {
    error_ = malformed.error;
  }
  return !error_;
}

bool SparseTextParser::finish() {
  if (error_) return false;
  try {
    if (rest_.size() > 0) parse_line({rest_.data(), rest_.size()});
    rest_.truncate(0);
    if (options_.header == Header::kRequired && !had_header_) {
      fail("the file is empty; expected a header line 'rows features labels'", "");
    }
    if (had_header_ && n_rows() != declared_rows_) {
      fail("the header says " + std::to_string(declared_rows_) + " rows, but the file holds " +
               std::to_string(n_rows()) + "; it is truncated or the header is wrong",
           "");
    }
  } catch (const Malformed& malformed) {
    error_ = malformed.error;
  }
  return !error_;
}

void SparseTextParser::parse_line(std::string_view line) {
  if (line_++ == 0) {
    if (line.substr(0, 3) == "\xEF\xBB\xBF") line.remove_prefix(3);  // the byte order mark of UTF-8
    if (options_.header != Header::kAbsent && parse_header(line)) return;
    if (options_.header == Header::kRequired) fail("expected a header line 'rows features labels'", line);
  }
  const char* const end = line.data() + line.size();
  const char* at = skip_blanks(line.data(), end);
  if (at < end && *at == '#') return;
  if (at == end) {
    if (!had_header_) return;
    if (n_rows() == declared_rows_) return;  // blank lines after the last example are no examples
  }
  if (had_header_ && n_rows() == declared_rows_) {
    fail("the header says " + std::to_string(declared_rows_) + " rows, but here is one more", token_at(at, end));
  }
  parse_example(at, end);
  close_row();
}

bool SparseTextParser::parse_header(std::string_view line) {
  const char* at = line.data();
  const char* const end = at + line.size();
  std::int64_t counts[3];
  for (std::int64_t& count : counts) {
    at = skip_blanks(at, end);
    const char* digits = at;
    at = parse_digits(at, end, &count);
    if (at == digits || (at < end && !is_blank(*at))) return false;
  }
  if (skip_blanks(at, end) != end) return false;
  for (const std::int64_t count : {counts[1], counts[2]}) {
    if (count > kLargestIndex + 1) fail("the header asks for more than 2147483647 features or labels", line);
  }
  had_header_ = true;
  declared_rows_ = counts[0];
  for (const auto& [known, declared, what] :
       {std::tuple{&options_.n_features, counts[1], "features"}, std::tuple{&options_.n_labels, counts[2], "labels"}}) {
    if (*known >= 0 && *known != declared) {
      fail("the header says " + std::to_string(declared) + " " + what + ", but " + std::to_string(*known) +
               " were asked for",
           line);
    }
    *known = declared;
  }
  return true;
}

void SparseTextParser::parse_example(const char* at, const char* end) {
  const char* after_digits = at;
  while (after_digits < end && is_digit(*after_digits)) ++after_digits;
  const bool starts_with_feature = after_digits > at && after_digits < end && *after_digits == ':';
  if (at < end && !starts_with_feature) at = parse_labels(at, end);
  for (;;) {
    at = skip_blanks(at, end);
    if (at == end || *at == '#') return;
    at = parse_feature(at, end);
  }
}

const char* SparseTextParser::parse_labels(const char* at, const char* end) {
  const char* const token = at;
  std::int64_t previous = -1;
  for (;;) {
    const char* const digits = at;
    std::int64_t label;
    at = parse_digits(at, end, &label);
    if (at == digits) {
      fail(at < end && *at == '-' ? "a label is negative; labels are numbers from 0"
                                  : "expected a label number, or labels separated by ','",
           token_at(token, end));
    }
    if (at < end && *at != ',' && !ends_token(*at)) fail("a label is not a whole number", token_at(token, end));
    if (label > kLargestIndex) fail("a label is over 2147483646", token_at(token, end));
    if (options_.n_labels >= 0 && label >= options_.n_labels) {
      fail("label " + std::to_string(label) + " is out of range: there are " + std::to_string(options_.n_labels) +
               " labels, counted from 0",
           token_at(token, end));
    }
    if (label <= previous) labels_sorted_ = false;
    previous = label;
    largest_label_ = std::max(largest_label_, label);
    labels.push(static_cast<std::int32_t>(label));
    if (at == end || *at != ',') return at;
    ++at;
  }
}

const char* SparseTextParser::parse_feature(const char* at, const char* end) {
  const char* const token = at;
  std::int64_t feature;
  at = parse_digits(at, end, &feature);
  if (at == token || at == end || *at != ':') {
    fail(*token == '-'
             ? "a feature number is negative; features are numbered from " + std::to_string(options_.first_feature)
             : "expected 'feature:value' with a whole number before the ':'",
         token_at(token, end));
  }
  feature -= options_.first_feature;
  if (feature > kLargestIndex) {
    const std::string largest = std::to_string(kLargestIndex + options_.first_feature);
    fail("a feature number is over " + largest, token_at(token, end));
  }
  if (feature < 0) fail("feature 0 in a file whose features are numbered from 1", token_at(token, end));
  if (options_.n_features >= 0 && feature >= options_.n_features) {
    fail("feature " + std::to_string(feature + options_.first_feature) + " is out of range: expected " +
             range_text(options_.first_feature, options_.n_features) +
             (feature == options_.n_features ? "; are the features of this file numbered from 1?" : ""),
         token_at(token, end));
  }
  float value;
  at = parse_float(at + 1, end, &value);
  if (at == nullptr) {
    fail("the value after ':' is not a finite decimal number", token_at(token, end));
  }
  if (!(std::abs(value) <= std::numeric_limits<float>::max())) {
    fail("the value after ':' is too large for float32", token_at(token, end));
  }
  if (static_cast<std::int64_t>(features.size()) > feature_indptr[feature_indptr.size() - 1] &&
      feature <= features[features.size() - 1]) {
    features_sorted_ = false;
  }
  largest_feature_ = std::max(largest_feature_, feature);
  if (smallest_feature_ < 0 || feature < smallest_feature_) smallest_feature_ = feature;
  features.push(static_cast<std::int32_t>(feature));
  values.push(value);
  return at;
}

void SparseTextParser::close_row() {
  if (!labels_sorted_) sort_labels(static_cast<std::size_t>(label_indptr[label_indptr.size() - 1]));
  if (!features_sorted_) sort_features(static_cast<std::size_t>(feature_indptr[feature_indptr.size() - 1]));
  labels_sorted_ = features_sorted_ = true;
  label_indptr.push(static_cast<std::int64_t>(labels.size()));
  feature_indptr.push(static_cast<std::int64_t>(features.size()));
}

void SparseTextParser::sort_labels(std::size_t begin) {
  std::int32_t* const first = labels.data() + begin;
  std::int32_t* const last = labels.data() + labels.size();
  std::sort(first, last);
  const std::int32_t* const twice = std::adjacent_find(first, last);
  if (twice != last) fail("the row has a label twice", std::to_string(*twice));
}

void SparseTextParser::sort_features(std::size_t begin) {
  std::vector<std::pair<std::int32_t, float>> row;
  for (std::size_t t = begin; t < features.size(); ++t) row.emplace_back(features[t], values[t]);
  std::sort(row.begin(), row.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i > 0 && row[i].first == row[i - 1].first) {
      fail("the row has a feature twice", std::to_string(row[i].first + options_.first_feature));
    }
    features[begin + i] = row[i].first;
    values[begin + i] = row[i].second;
  }
}

namespace {

template <class Number>
void append_number(std::string& text, Number number) {
  char digits[32];
  const std::to_chars_result result = std::to_chars(digits, digits + sizeof digits, number);
  text.append(digits, result.ptr);
}

}  // namespace

std::string format_sparse_text(const CsrView& labels, const CsrView& features, std::int64_t first_feature,
                               std::int64_t begin, std::int64_t end) {
  std::string text;
  text.reserve(static_cast<std::size_t>(16 * (features.indptr[end] - features.indptr[begin] + end - begin)));
  for (std::int64_t row = begin; row < end; ++row) {
    for (std::int64_t t = labels.indptr[row]; t < labels.indptr[row + 1]; ++t) {
      if (t > labels.indptr[row]) text.push_back(',');
      append_number(text, labels.indices[t]);
    }
    for (std::int64_t t = features.indptr[row]; t < features.indptr[row + 1]; ++t) {
      text.push_back(' ');
      append_number(text, features.indices[t] + first_feature);
      text.push_back(':');
      append_number(text, features.data[t]);
    }
    text.push_back('\n');
  }
  return text;
}

}  // namespace labelprism
