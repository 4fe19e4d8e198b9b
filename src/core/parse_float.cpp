#include "parse_float.hpp"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <system_error>

#if !defined(__cpp_lib_to_chars)  // libc++ before LLVM 20 has no from_chars for floats
#include <clocale>
#include <cstdlib>
#if defined(__APPLE__)
#include <xlocale.h>
#endif
#endif

namespace labelprism {
namespace {

constexpr int kMantissaDigits = 18;  // as many always fit 64 bits
constexpr int kExactPower = 22;      // 10^22 is the largest power of ten that a double holds exactly
constexpr double kPowers[kExactPower + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                             1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

struct Decimal {
  std::uint64_t mantissa = 0;  // the first 18 significant digits
  std::int64_t exponent = 0;   // the number is mantissa * 10^exponent, if `exact`
  bool exact = true;           // whether no further digits were left out
};

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads digits [ '.' digits ] [ 'e' [sign] digits ]; false if the text has another form.
bool read_decimal(const char* at, const char* end, Decimal* number) {
  int significant = 0;
  bool any = false;
  const auto take = [&](char c, bool fraction) {
    any = true;
    if (significant < kMantissaDigits) {
      number->mantissa = number->mantissa * 10 + static_cast<std::uint64_t>(c - '0');
      if (number->mantissa != 0) ++significant;
      if (fraction) --number->exponent;
    } else {
      if (c != '0') number->exact = false;
      if (!fraction) ++number->exponent;
    }
  };
  for (; at < end && is_digit(*at); ++at) take(*at, false);
  if (at < end && *at == '.') {
    for (++at; at < end && is_digit(*at); ++at) take(*at, true);
  }
  if (!any) return false;
  if (at < end && (*at == 'e' || *at == 'E')) {
    ++at;
    const bool negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) ++at;
    if (at == end || !is_digit(*at)) return false;
    std::int64_t exponent = 0;
    for (; at < end && is_digit(*at); ++at) {
      if (exponent < 1'000'000) exponent = exponent * 10 + (*at - '0');
    }
    number->exponent += negative ? -exponent : exponent;
  }
  return at == end;
}

// One multiplication or division of exact doubles is rounded once (Clinger 1990). Rounding that to float is the same as
// rounding the number itself, unless the double lies just halfway between two floats or outside their normal range.
bool fast_path(const Decimal& number, float* value) {
  if (!number.exact || number.mantissa > (std::uint64_t{1} << 53)) return false;
  if (number.exponent < -kExactPower || number.exponent > kExactPower) return false;
  const double mantissa = static_cast<double>(number.mantissa);
  const double wide = number.exponent < 0 ? mantissa / kPowers[-number.exponent] : mantissa * kPowers[number.exponent];
  if (number.mantissa != 0 && (wide < std::numeric_limits<float>::min() || wide > std::numeric_limits<float>::max())) {
    return false;
  }
  std::uint64_t bits;
  std::memcpy(&bits, &wide, sizeof bits);
  constexpr std::uint64_t kBelowFloat = (std::uint64_t{1} << 29) - 1;
  if ((bits & kBelowFloat) == std::uint64_t{1} << 28) return false;
  *value = static_cast<float>(wide);
  return true;
}

// The library's conversion; [begin, end) is known to be a decimal number without a sign.
float slow_path(const char* begin, const char* end, const Decimal& number) {
  float value = 0;
#if defined(__cpp_lib_to_chars)
  const std::from_chars_result result = std::from_chars(begin, end, value);
  if (result.ec == std::errc::result_out_of_range) {
    double wide = 0;
    if (std::from_chars(begin, end, wide).ec == std::errc()) return static_cast<float>(wide);
    // the decimal point lies `exponent` digits right of the mantissa, so its sign tells the very large from the tiny
    return number.exponent > 0 ? std::numeric_limits<float>::infinity() : 0.0f;
  }
#else
  (void)number;
  const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  value = strtof_l(std::string(begin, end).c_str(), nullptr, plain);
  freelocale(plain);
#endif
  return value;
}

// The usual number, `digits`, `digits.digits` or `.digits` with at most 18 digits, in one pass; null if it is not one.
const char* read_short(const char* at, const char* end, Decimal* number) {
  const char* const first = at;
  std::uint64_t mantissa = 0;
  for (; at < end && is_digit(*at); ++at) mantissa = mantissa * 10 + static_cast<std::uint64_t>(*at - '0');
  std::ptrdiff_t n_digits = at - first, n_decimals = 0;
  if (at < end && *at == '.') {
    const char* const point = ++at;
    for (; at < end && is_digit(*at); ++at) mantissa = mantissa * 10 + static_cast<std::uint64_t>(*at - '0');
    n_decimals = at - point;
  }
  n_digits += n_decimals;
  if (n_digits == 0 || n_digits > kMantissaDigits || (at < end && (*at == 'e' || *at == 'E'))) return nullptr;
  number->mantissa = mantissa;
  number->exponent = -n_decimals;
  return at;
}

const char* end_of_token(const char* at, const char* end) {
  while (at < end && *at != ' ' && *at != '\t' && *at != '\r' && *at != '#') ++at;
  return at;
}

}  // namespace

const char* parse_float(const char* begin, const char* end, float* value) {
  const bool negative = begin < end && *begin == '-';
  if (begin < end && (*begin == '-' || *begin == '+')) ++begin;
  Decimal number;
  const char* stop = read_short(begin, end, &number);
  if (stop == nullptr || stop != end_of_token(stop, end)) {
    stop = end_of_token(begin, end);
    number = Decimal();
    if (!read_decimal(begin, stop, &number)) return nullptr;
  }
  if (!fast_path(number, value)) *value = slow_path(begin, stop, number);
  if (negative) *value = -*value;
  return stop;
}

}  // namespace labelprism
