#include "text_hash.hpp"

#include <algorithm>

#include "thread_pool.hpp"
#include "unicode.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kTextsPerTask = 128;

constexpr std::uint64_t kFactor = 0x9FB21C651E98DF25u;
constexpr std::uint64_t kSecondHash = 0x9E3779B97F4A7C15u;
constexpr std::size_t kPadding = 8;  // bytes that may be read behind the end of a spelling

inline std::uint64_t little_endian(const char* bytes) {
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value |= std::uint64_t{static_cast<std::uint8_t>(bytes[i])} << (8 * i);
  return value;  // one load where the machine is little-endian
}

// The finaliser of MurmurHash3: every bit of the input reaches every bit of the output.
inline std::uint64_t spread(std::uint64_t hash) {
  hash = (hash ^ (hash >> 33)) * 0xFF51AFD7ED558CCDu;
  hash = (hash ^ (hash >> 33)) * 0xC4CEB9FE1A85EC53u;
  return hash ^ (hash >> 33);
}

// The hash of an n-gram is one of the UTF-8 bytes of its spelling (words joined by one blank), taken eight at a time,
// the last ones filled up with zeros. It is arithmetic modulo 2^64, the same on every machine.
inline std::uint64_t hash_bytes(const char* bytes, std::size_t size) {
  std::uint64_t hash = size;
  for (; size > 8; size -= 8, bytes += 8) {
    hash = (hash ^ little_endian(bytes)) * kFactor;
    hash ^= hash >> 32;
  }
  const std::uint64_t last = size == 0 ? 0 : little_endian(bytes) & (~std::uint64_t{0} >> (64 - 8 * size));
  return spread((hash ^ last) * kFactor);
}

inline std::int32_t feature_of(std::uint64_t hash, int bits) {
  return static_cast<std::int32_t>(hash & ((std::uint64_t{1} << bits) - 1));
}

inline char fold_ascii(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

// The units (words or characters) that n-grams are made of, inside a folded spelling of the text.
struct Units {
  struct Unit {
    std::size_t begin;
    std::size_t end;
  };
  std::vector<char> buffer;  // the spelling, and room behind it
  std::size_t size = 0;      // of the spelling
  std::vector<Unit> units;

  // Makes room for the spelling of a text: no character of two bytes or more is folded to over 12, nor gets more than a
  // blank added, and a byte of ASCII stays one.
  void start(std::string_view text) {
    const std::size_t most = 8 * text.size() + 2 + kPadding;
    if (buffer.size() < most) buffer.resize(most);
    clear();
  }
  void clear() {
    size = 0;
    units.clear();
  }
  void append(std::uint32_t code_point) {
    size = static_cast<std::size_t>(write_code_point(code_point, buffer.data() + size) - buffer.data());
  }
  void append(const char* first, const char* last, bool fold) {  // ASCII
    for (; first < last; ++first) buffer[size++] = fold ? fold_ascii(*first) : *first;
  }
  std::uint64_t hash(std::size_t begin, std::size_t end) const {
    return hash_bytes(buffer.data() + begin, end - begin);
  }
  std::string spelling(std::size_t begin, std::size_t end) const { return {buffer.data() + begin, end - begin}; }
};

// Letters, digits and the underscore: what CharClass::kWord is below 128.
constexpr bool is_ascii_word(std::uint8_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
}

struct AsciiWord {
  constexpr AsciiWord() : is_word() {
    for (int c = 0; c < 128; ++c) is_word[c] = is_ascii_word(static_cast<std::uint8_t>(c));
  }
  bool is_word[128];
};
constexpr AsciiWord kAscii;

// Calls use(character) for the characters of a text, folded if that is asked for: a character is what it is folded to.
// Runs of ASCII letters and digits, most of most texts, go to use_word(first, last) instead, and are not folded yet.
template <class UseWord, class Use>
void each_character(std::string_view text, const HashOptions& options, const UseWord& use_word, const Use& use) {
  const CharFolds folds;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    const char* const first = at;
    while (at < end && static_cast<signed char>(*at) >= 0 && kAscii.is_word[static_cast<std::uint8_t>(*at)]) ++at;
    if (at > first) use_word(first, at);
    if (at == end) return;
    const std::uint32_t code = next_code_point(at, end);
    if (options.fold) {
      folds.fold(code, use);
    } else {
      use(code);
    }
  }
}

// Words, with one blank between them in the spelling, so that an n-gram of words is one piece of it.
void split_words(std::string_view text, const HashOptions& options, Units& out) {
  const CharClasses classes;
  std::size_t begin = 0;
  int length = 0;
  bool ideograph = false;
  const auto end_word = [&] {
    if (length >= (ideograph ? 1 : options.min_word_length) && length > 0) {
      out.units.push_back({begin, out.size});
      out.buffer[out.size++] = ' ';
    } else {
      out.size = begin;
    }
    begin = out.size;
    length = 0;
    ideograph = false;
  };
  const auto take = [&](std::uint32_t code) {
    const CharClass kind = classes[code];
    if (kind == CharClass::kIgnored || (kind == CharClass::kMark && length == 0)) return;
    if (kind == CharClass::kBreak || kind == CharClass::kIdeograph || (kind == CharClass::kWord && ideograph)) {
      end_word();
    }
    if (kind == CharClass::kBreak) return;
    out.append(code);
    if (kind != CharClass::kMark) ++length;
    if (kind == CharClass::kIdeograph) ideograph = true;
  };
  const auto take_run = [&](const char* first, const char* last) {
    if (ideograph) end_word();
    length += static_cast<int>(last - first);
    out.append(first, last, options.fold);
  };
  each_character(text, options, take_run, take);
  end_word();
}

// Calls emit(hash, begin, end) for the n-grams of the units [first, last).
template <class Emit>
void each_ngram(const Units& text, std::size_t first, std::size_t last, const HashOptions& options, const Emit& emit) {
  for (std::size_t i = first; i < last; ++i) {
    const std::size_t begin = text.units[i].begin;
    const std::size_t stop = std::min(last, i + static_cast<std::size_t>(options.longest));
    for (std::size_t j = i + static_cast<std::size_t>(options.shortest) - 1; j < stop; ++j) {
      const std::size_t end = text.units[j].end;
      emit(text.hash(begin, end), begin, end);
    }
  }
}

// N-grams of characters. White space counts as one blank. With `in_word` no n-gram reaches over a blank: each word is
// taken with a blank on both sides, and a word too short for any n-gram is one by itself.
template <class Emit>
void each_char_ngram(std::string_view text, const HashOptions& options, Units& out, const Emit& emit) {
  const CharClasses classes;
  const bool in_word = options.analyzer == Analyzer::kCharInWord;
  const auto push = [&](std::uint32_t code) {
    const std::size_t begin = out.size;
    out.append(code);
    out.units.push_back({begin, out.size});
  };
  const auto end_piece = [&] {
    if (!out.units.empty()) {
      if (in_word) push(' ');
      each_ngram(out, 0, out.units.size(), options, emit);
      if (in_word && out.units.size() < static_cast<std::size_t>(options.shortest)) {
        emit(out.hash(0, out.size), 0, out.size);
      }
    }
    out.clear();
  };
  bool blank_pending = false;
  const auto take = [&](std::uint32_t code) {
    if (is_space(code)) {
      if (in_word) end_piece();
      blank_pending = !out.units.empty();
      return;
    }
    if (classes[code] == CharClass::kIgnored) return;
    if (blank_pending || (in_word && out.units.empty())) push(' ');
    blank_pending = false;
    push(code);
  };
  const auto take_run = [&](const char* first, const char* last) {
    for (; first < last; ++first) take(static_cast<std::uint8_t>(options.fold ? fold_ascii(*first) : *first));
  };
  each_character(text, options, take_run, take);
  end_piece();
}

template <class Emit>
void each_ngram_of_text(std::string_view text, const HashOptions& options, Units& scratch, const Emit& emit) {
  scratch.start(text);
  if (options.analyzer == Analyzer::kWord) {
    split_words(text, options, scratch);
    each_ngram(scratch, 0, scratch.units.size(), options, emit);
  } else {
    each_char_ngram(text, options, scratch, emit);
  }
}

// The features of one n-gram; `use` gets the feature and whether its sign is negative.
template <class Use>
void each_feature(std::uint64_t hash, const HashOptions& options, const Use& use) {
  for (int i = 0; i < options.n_hashes; ++i) {
    const std::uint64_t value = i == 0 ? hash : spread(hash + kSecondHash);
    use(feature_of(value, options.bits), options.is_signed && (value >> 63) != 0);
  }
}

// Sorts by 11 bits at a time; for the few keys of a short text comparing them is faster.
void sort_keys(std::vector<std::uint32_t>& keys, std::vector<std::uint32_t>& spare, int bits) {
  constexpr int kDigit = 11;
  constexpr std::size_t kWorthIt = 128;
  if (keys.size() < kWorthIt) {
    std::sort(keys.begin(), keys.end());
    return;
  }
  spare.resize(keys.size());
  for (int shift = 0; shift < bits; shift += kDigit) {
    std::uint32_t starts[(1 << kDigit) + 1] = {};
    const auto digit = [shift](std::uint32_t key) { return (key >> shift) & ((1u << kDigit) - 1); };
    for (const std::uint32_t key : keys) ++starts[digit(key) + 1];
    for (int i = 0; i < 1 << kDigit; ++i) starts[i + 1] += starts[i];
    for (const std::uint32_t key : keys) spare[starts[digit(key)]++] = key;
    keys.swap(spare);
  }
}

// What the tasks of a thread need again and again.
struct Scratch {
  Units units;
  std::vector<std::uint32_t> keys;
  std::vector<std::uint32_t> spare;
};

void hash_one(std::string_view text, const HashOptions& options, Scratch& scratch, GrowingCsr& rows) {
  std::vector<std::uint32_t>& keys = scratch.keys;
  keys.clear();
  each_ngram_of_text(text, options, scratch.units, [&](std::uint64_t hash, std::size_t, std::size_t) {
    each_feature(hash, options, [&](std::int32_t feature, bool negative) {
      keys.push_back((static_cast<std::uint32_t>(feature) << 1) | (negative ? 1u : 0u));
    });
  });
  sort_keys(keys, scratch.spare, options.bits + 1);
  for (std::size_t i = 0; i < keys.size();) {
    const std::uint32_t feature = keys[i] >> 1;
    float count = 0;
    for (; i < keys.size() && keys[i] >> 1 == feature; ++i) count += (keys[i] & 1) ? -1.0f : 1.0f;
    if (count == 0) continue;
    rows.push(static_cast<std::int32_t>(feature), count);
  }
  rows.end_row();
}

}  // namespace

std::vector<std::int64_t> texts_to_fold(const Texts& texts) {
  const CharFolds folds;
  std::vector<std::int64_t> found;
  for (std::int64_t i = 0; i < texts.count; ++i) {
    const char* at = texts[i].data();
    const char* const end = at + texts[i].size();
    bool simple = true;
    while (at < end && simple) {
      while (at < end && static_cast<signed char>(*at) >= 0) ++at;  // ASCII is simple
      if (at < end) simple = folds.is_simple(next_code_point(at, end));
    }
    if (!simple) found.push_back(i);
  }
  return found;
}

void hash_texts(const Texts& texts, const HashOptions& options, int n_threads, GrowingCsr& rows) {
  std::vector<GrowingCsr> pieces(static_cast<std::size_t>((texts.count + kTextsPerTask - 1) / kTextsPerTask));
  parallel_ranges(texts.count, kTextsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    Scratch scratch;
    GrowingCsr& piece = pieces[static_cast<std::size_t>(begin / kTextsPerTask)];
    for (std::int64_t i = begin; i < end; ++i) hash_one(texts[i], options, scratch, piece);
  });
  rows.join(pieces);
}

void TokenTable::add(const Texts& texts, const HashOptions& options) {
  Units scratch;
  for (std::int64_t i = 0; i < texts.count; ++i) {
    each_ngram_of_text(texts[i], options, scratch, [&](std::uint64_t hash, std::size_t begin, std::size_t end) {
      Entry& entry = entries_[hash];
      if (entry.count++ == 0) entry.spelling = scratch.spelling(begin, end);
    });
  }
}

std::vector<std::pair<std::int32_t, std::string>> TokenTable::names(const HashOptions& options) const {
  std::unordered_map<std::int32_t, const Entry*> best;
  for (const auto& [hash, entry] : entries_) {
    each_feature(hash, options, [&best, &candidate = entry](std::int32_t feature, bool) {
      const Entry*& holder = best[feature];
      if (holder == nullptr || candidate.count > holder->count ||
          (candidate.count == holder->count && candidate.spelling < holder->spelling)) {
        holder = &candidate;
      }
    });
  }
  std::vector<std::pair<std::int32_t, std::string>> names;
  names.reserve(best.size());
  for (const auto& [feature, entry] : best) names.emplace_back(feature, entry->spelling);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace labelprism
