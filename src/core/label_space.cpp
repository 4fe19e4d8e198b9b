#include "label_space.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "large_vector.hpp"
#include "node_rows.hpp"
#include "nth_largest.hpp"
#include "scramble.hpp"
#include "space_sums.hpp"
#include "thread_pool.hpp"
#include "unit_vector.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kWidth = kSpaceWidth;
constexpr std::int64_t kBlockRows = kComparedRows;  // are compared with each other's labels,
constexpr std::int64_t kColumns = kComparedColumns;
constexpr std::int64_t kDrawnCandidates = kColumns / kBlockRows - 1;  // and with so many candidates of each
constexpr std::int64_t kBatchRows = 1024;                             // their features move together
constexpr std::int64_t kRowsPerTask = 64;
constexpr std::int64_t kLearnedRows = 16;  // of a task, whole blocks: there are many batches, and a wait after each
constexpr std::int64_t kSievedRows = 16;   // look for the lists near them together
constexpr std::int64_t kLabelsPerTask = 1024;
constexpr std::int64_t kLine = 16;  // entries in a line of the cache
constexpr std::int64_t kAhead = 8;  // rows
static_assert(kLearnedRows % kBlockRows == 0);

// Where an entry of a list is, drawn by a hash.
const std::int32_t* drawn(const CsrView& lists, std::int64_t row, std::uint64_t random) {
  const auto count = static_cast<std::uint64_t>(lists.indptr[row + 1] - lists.indptr[row]);
  return lists.indices + lists.indptr[row] + static_cast<std::int64_t>(((random >> 32) * count) >> 32);
}

// Draws the label of a row, number 0, and its candidates: visits the numbers and where labels are written.
template <typename Visit>
void draw(const SpaceRows& rows, const SpaceStep& step, std::int64_t row, const Visit& visit) {
  std::uint64_t random =
      scramble(step.seed + static_cast<std::uint64_t>(row) * static_cast<std::uint64_t>(step.n_passes) +
               static_cast<std::uint64_t>(step.pass));
  if (rows.Y.indptr[row] < rows.Y.indptr[row + 1]) visit(0, drawn(rows.Y, row, random));
  if (!rows.candidates.n_rows || rows.candidates.indptr[row] == rows.candidates.indptr[row + 1]) return;
  for (std::int64_t k = 1; k <= kDrawnCandidates; ++k) {
    random = scramble(random);
    visit(k, drawn(rows.candidates, row, random));
  }
}

// Rows lie anywhere in the data: those of the block after next, and what they have in the next one, are asked for
// early.
void ask_for_blocks(const SpaceRows& rows, const SpaceStep& step, const std::int32_t* next, std::int64_t count) {
  for (std::int64_t r = kBlockRows; r < std::min(2 * kBlockRows, count); ++r) {
    __builtin_prefetch(rows.X.indptr + next[r]);
    __builtin_prefetch(rows.Y.indptr + next[r]);
    if (rows.candidates.n_rows) __builtin_prefetch(rows.candidates.indptr + next[r]);
  }
  for (std::int64_t r = 0; r < std::min(kBlockRows, count); ++r) {
    for (std::int64_t t = rows.X.indptr[next[r]]; t < rows.X.indptr[next[r] + 1]; t += kLine) {
      __builtin_prefetch(rows.X.indices + t);
      __builtin_prefetch(rows.X.data + t);
    }
    draw(rows, step, next[r], [](std::int64_t, const std::int32_t* label) { __builtin_prefetch(label); });
  }
}

// Labels in bytes, as a model will have them: a line of the cache each, where float32 would be four.
struct RoundedLabels {
  LargeVector<SpaceVector> vectors;
  std::vector<float> scale;

  RoundedLabels(const float* labels, std::int64_t n_labels, int n_threads)
      : vectors(
            static_cast<std::size_t>(std::max<std::int64_t>(n_labels, 1))),  // columns without a label read the first
        scale(static_cast<std::size_t>(n_labels)) {
    round_vectors(labels, n_labels, n_threads, vectors.data(), scale.data());
  }
};

// Some rows and what they are compared with. Columns are the labels of the rows, then their candidates.
class SpaceBlock {
 public:
  // Writes the gradient of each row's loss by its vector before that is made unit: 0 for rows without a label.
  void run(const SpaceRows& rows, const RoundedLabels& labels, const SpaceStep& step, const std::int32_t* numbers,
           std::int64_t count, const BlockKernels& kernels, const float* features, float* gradient) {
    load(rows, step, numbers, count);
    const CsrView X{count, rows.X.n_columns, indptr_.data(), indices_.data(), values_.data()};
    kernels.gather(X, 0, count, features, kWidth, vectors_.data());
    for (std::int64_t r = 0; r < count; ++r) compared_.norm[r] = make_unit(vectors_.data() + r * kWidth);
    for (const std::int32_t label : columns_) {
      if (label >= 0) __builtin_prefetch(labels.vectors.data() + label);
    }
    kernels.copy_vectors(labels.vectors.data(), labels.scale.data(), columns_.data(), kColumns, labels_.data());
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int64_t row = numbers[r];
      const bool counts = columns_[static_cast<std::size_t>(r)] >= 0 && compared_.norm[r] != 0;
      compared_.weight[r] = !counts ? 0.0f : rows.weight ? rows.weight[row] : 1.0f;
      compared_.labels[r] = rows.Y.indices + rows.Y.indptr[row];
      compared_.n_labels[r] = rows.Y.indptr[row + 1] - rows.Y.indptr[row];
    }
    kernels.pull_rows(compared_, vectors_.data(), labels_.data(), gradient);
  }

 private:
  void load(const SpaceRows& rows, const SpaceStep& step, const std::int32_t* numbers, std::int64_t count) {
    indptr_.assign(1, 0);
    indices_.clear();
    values_.clear();
    columns_.fill(-1);
    compared_ = {};
    compared_.count = count;
    compared_.columns = columns_.data();
    compared_.scale = step.scale;
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int64_t row = numbers[r], begin = rows.X.indptr[row], end = rows.X.indptr[row + 1];
      indices_.insert(indices_.end(), rows.X.indices + begin, rows.X.indices + end);
      values_.insert(values_.end(), rows.X.data + begin, rows.X.data + end);
      indptr_.push_back(static_cast<std::int64_t>(indices_.size()));
      draw(rows, step, row, [&](std::int64_t k, const std::int32_t* label) {
        columns_[static_cast<std::size_t>(k * kBlockRows + r)] = *label;
      });
    }
  }

  template <std::int64_t N>
  using Floats = std::array<float, static_cast<std::size_t>(N)>;

  std::vector<std::int64_t> indptr_;  // of the rows, one after the other
  std::vector<std::int32_t> indices_;
  std::vector<float> values_;
  std::array<std::int32_t, static_cast<std::size_t>(kColumns)> columns_;
  ComparedRows compared_;
  Floats<kBlockRows * kWidth> vectors_{};
  Floats<kColumns * kWidth> labels_;
};

// Moves the features of one part after a batch: which entries of the batch's rows are of them, and by how much each
// moves its feature.
class SpaceMoves {
 public:
  // Row r of the batch is order[r], with row r of the gradient.
  void run(const CsrView& X, const std::int32_t* order, std::int64_t count, const float* gradient, float rate,
           std::int64_t part, std::int64_t n_parts, const BlockKernels& kernels, float* features, float* squares) {
    std::size_t n_entries = 0, n = 0;
    for (std::int64_t r = 0; r < count; ++r) {
      n_entries += static_cast<std::size_t>(X.indptr[order[r] + 1] - X.indptr[order[r]]);
    }
    indices_.resize(n_entries + 1);
    steps_.resize(n_entries + 1);
    indptr_.assign(1, 0);
    for (std::int64_t r = 0; r < count; ++r) {
      // Half of the rows were looked at by other threads, whose caches have them.
      if (r + kAhead < count) {
        const std::int64_t soon = X.indptr[order[r + kAhead]];
        __builtin_prefetch(X.indices + soon);
        __builtin_prefetch(X.data + soon);
      }
      const float square = square_of(gradient + r * kWidth);
      for (std::int64_t t = X.indptr[order[r]]; square > 0 && t < X.indptr[order[r] + 1]; ++t) {
        // Noted in any case, and kept if it is of this part, which cannot be foretold: that needs no jump.
        indices_[n] = X.indices[t];
        steps_[n] = X.data[t];
        n += is_of_part(X.indices[t], part, n_parts);
      }
      for (auto i = static_cast<std::size_t>(indptr_.back()); i < n; ++i) {
        float& total = squares[indices_[i]];
        total += steps_[i] * steps_[i] * square;
        steps_[i] *= -rate / std::sqrt(total);
      }
      indptr_.push_back(static_cast<std::int64_t>(n));
    }
    const CsrView moves{count, X.n_columns, indptr_.data(), indices_.data(), steps_.data()};
    kernels.scatter(moves, 0, count, nullptr, gradient, kWidth, scaled_.data(), features);
  }

 private:
  std::vector<std::int64_t> indptr_;
  std::vector<std::int32_t> indices_;
  std::vector<float> steps_;
  std::array<float, static_cast<std::size_t>(kWidth)> scaled_;
};

// The candidates of a few rows at a time.
class SpaceSieve {
 public:
  // Adds the rows `begin` to `end`, at most kSievedRows.
  void add(const LabelSpace& space, const CsrView& X, const CsrView& candidates, std::int64_t begin, std::int64_t end,
           const Sieve& sieve, GrowingCsr& out) {
    const auto count = static_cast<std::size_t>(end - begin);
    for (std::size_t r = 0; r < count; ++r) space.place(sparse_row(X, begin + static_cast<std::int64_t>(r)), rooms_[r]);
    if (sieve.n_near > 0) space.find_lists(sieve.most_lists, rooms_.data(), count);
    for (std::size_t r = 0; r < count; ++r) {
      const std::int64_t* const ends = candidates.indptr + begin + r;
      labels_.assign(candidates.indices + ends[0], candidates.indices + ends[1]);
      if (sieve.n_near > 0) add_nearest(space, rooms_[r], sieve.n_near);
      keep(space, rooms_[r], sieve.n_kept, out);
    }
  }

 private:
  void add_nearest(const LabelSpace& space, SpaceRoom& room, std::int64_t n_near) {
    const auto count = static_cast<std::ptrdiff_t>(labels_.size());
    space.find_nearest(n_near, nullptr, room, labels_);
    std::sort(labels_.begin() + count, labels_.end());
    std::inplace_merge(labels_.begin(), labels_.begin() + count, labels_.end());
    labels_.erase(std::unique(labels_.begin(), labels_.end()), labels_.end());
  }

  void keep(const LabelSpace& space, const SpaceRoom& room, std::int64_t n_kept, GrowingCsr& out) {
    const std::size_t found = labels_.size();
    if (room.is_placed && static_cast<std::int64_t>(found) > n_kept) {
      cosines_.resize(found);
      space.cosines(room, labels_.data(), static_cast<std::int64_t>(found), cosines_.data());
      auto threshold = largest_.threshold(cosines_.data(), found, n_kept);
      for (std::size_t i = 0; i < found; ++i) {
        if (threshold.admits(cosines_[i])) out.indices.push(labels_[i]);
      }
    } else {
      out.indices.append(labels_.data(), found);
    }
    out.end_row();
  }

  std::array<SpaceRoom, kSievedRows> rooms_;
  LargestValues largest_;
  std::vector<std::int32_t> labels_;
  std::vector<float> cosines_;
};

std::vector<std::int32_t> drawn_order(std::int64_t n_rows, std::uint64_t seed) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(n_rows));
  for (std::int64_t i = 0; i < n_rows; ++i) order[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i);
  for (std::int64_t left = n_rows; left > 1; --left) {
    const std::uint64_t random = scramble(seed + static_cast<std::uint64_t>(left)) >> 32;
    std::swap(order[static_cast<std::size_t>(left - 1)], order[(random * static_cast<std::uint64_t>(left)) >> 32]);
  }
  return order;
}

}  // namespace

void round_vectors(const float* vectors, std::int64_t count, int n_threads, SpaceVector* steps, float* scale) {
  const BlockKernels& kernels = block_kernels();
  parallel_ranges(count, kLabelsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    kernels.round_vectors(vectors + begin * kWidth, end - begin, steps + begin, scale + begin);
  });
}

void learn_space(const SpaceRows& rows, const float* labels, const SpaceStep& step, int n_threads, Counter* counter,
                 float* features, float* squares) {
  const BlockKernels& kernels = block_kernels();
  const std::int64_t n_rows = rows.X.n_rows;
  const RoundedLabels rounded(labels, rows.Y.n_columns, n_threads);
  const auto first_row = static_cast<std::uint64_t>(step.pass) * static_cast<std::uint64_t>(n_rows);
  const std::vector<std::int32_t> order = drawn_order(n_rows, scramble(step.seed ^ ~first_row));
  std::vector<float> gradient(static_cast<std::size_t>(std::min(kBatchRows, n_rows) * kWidth));
  // A feature is moved by one task, row after row, so that it does not matter how many tasks there are.
  const std::int64_t n_parts = parts_for(n_threads);
  std::vector<SpaceMoves> parts(static_cast<std::size_t>(n_parts));
  Lender<SpaceBlock> blocks;
  for (std::int64_t first = 0; first < n_rows; first += kBatchRows) {
    const std::int64_t count = std::min(kBatchRows, n_rows - first);
    parallel_ranges(count, kLearnedRows, n_threads, [&](std::int64_t begin, std::int64_t end) {
      blocks.lend([&](SpaceBlock& block) {
        for (std::int64_t at = begin; at < end; at += kBlockRows) {
          const std::int64_t next = first + at + kBlockRows;
          ask_for_blocks(rows, step, order.data() + next, n_rows - next);
          block.run(rows, rounded, step, order.data() + first + at, std::min(kBlockRows, end - at), kernels, features,
                    gradient.data() + at * kWidth);
        }
      });
    });
    const float done = (static_cast<float>(step.pass) + static_cast<float>(first) / static_cast<float>(n_rows)) /
                       static_cast<float>(step.n_passes);
    const float rate = step.rate * (1 - done);
    parallel_for(n_parts, n_threads, [&](std::int64_t part) {
      parts[static_cast<std::size_t>(part)].run(rows.X, order.data() + first, count, gradient.data(), rate, part,
                                                n_parts, kernels, features, squares);
    });
    advance(counter, count);
  }
}

LabelSpace::LabelSpace(SpaceTables&& tables) : tables_(std::move(tables)), kernels_(&block_kernels()) {
  if (tables_.features.size() != tables_.feature_scale.size() || tables_.labels.size() != tables_.label_scale.size()) {
    throw std::invalid_argument("the vectors of features and labels must have a scale each");
  }
  const std::size_t n_listed = tables_.list_of_label.size();
  if (n_listed == 0) return;
  const std::int32_t* first = tables_.list_of_label.data();
  const auto [least, most] = std::minmax_element(first, first + n_listed);
  if (n_listed != tables_.labels.size() || *least < 0 || static_cast<std::size_t>(*most) >= n_listed) {
    throw std::invalid_argument("every label must have a list, of as many as there are labels at most");
  }
  lists_ = SpaceLists(tables_.labels.data(), tables_.label_scale.data(), first, n_labels(), *most + 1);
}

void LabelSpace::place(const SparseRow& row, SpaceRoom& room) const {
  kernels_->add_vectors(tables_.features.data(), tables_.feature_scale.data(), row, room.vector.data());
  room.is_placed = make_unit(room.vector.data()) > 0;
}

void LabelSpace::cosines(const SpaceRoom& room, const std::int32_t* labels, std::int64_t count, float* cosines) const {
  // Labels lie anywhere in their table: all are asked for first.
  for (std::int64_t i = 0; i < count; ++i) {
    __builtin_prefetch(tables_.labels.data() + labels[i]);
    __builtin_prefetch(tables_.label_scale.data() + labels[i]);
  }
  kernels_->dot_vectors(tables_.labels.data(), labels, count, room.vector.data(), cosines);
  for (std::int64_t i = 0; i < count; ++i) cosines[i] *= tables_.label_scale[static_cast<std::size_t>(labels[i])];
}

void space_cosines(const LabelSpace& space, const CsrView& X, const CsrView& candidates, int n_threads,
                   float* cosines) {
  parallel_ranges(X.n_rows, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    SpaceRoom room;
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t first = candidates.indptr[r];
      space.place(sparse_row(X, r), room);
      space.cosines(room, candidates.indices + first, candidates.indptr[r + 1] - first, cosines + first);
    }
  });
}

void sieve_candidates(const LabelSpace& space, const CsrView& X, const CsrView& candidates, const Sieve& sieve,
                      int n_threads, GrowingCsr& sieved) {
  std::vector<GrowingCsr> pieces(static_cast<std::size_t>((X.n_rows + kRowsPerTask - 1) / kRowsPerTask));
  Lender<SpaceSieve> sieves;
  parallel_ranges(X.n_rows, kRowsPerTask, n_threads, [&](std::int64_t begin, std::int64_t end) {
    sieves.lend([&](SpaceSieve& rows) {
      GrowingCsr& piece = pieces[static_cast<std::size_t>(begin / kRowsPerTask)];
      for (std::int64_t r = begin; r < end; r += kSievedRows) {
        rows.add(space, X, candidates, r, std::min(r + kSievedRows, end), sieve, piece);
      }
    });
  });
  sieved.join(pieces, n_threads);
}

}  // namespace labelprism
