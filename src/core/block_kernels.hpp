// The inner loops that profit from wide registers, one set per instruction set, chosen at run time.
#pragma once

#include <string>
#include <vector>

#include "csr.hpp"
#include "normal_table.hpp"
#include "router_tables.hpp"
#include "space_vectors.hpp"
#include "weight_pairs.hpp"

namespace labelprism {

// What a line search must know of a row, to know its loss and its margin anywhere on the line.
struct RowOnLine {
  float cost, slack, slack_move;
  float weight, centred, centred_move;
};

// A dense block holds `width` vectors side by side, as [row][width], so that one row of 8 or 16 floats is one register.
struct BlockKernels {
  const char* name;

  // out[r] = sum over the entries (r, j, v) of v * block[j], for the rows begin <= r < end.
  void (*gather)(const CsrView& matrix, std::int64_t begin, std::int64_t end, const float* block, std::int64_t width,
                 float* out);

  // out[j] += v * row_weight[r] * block[r] over the entries (r, j, v), for the rows begin <= r < end, in their order.
  // A null row_weight stands for ones. `scaled` is room for `width` floats.
  void (*scatter)(const CsrView& matrix, std::int64_t begin, std::int64_t end, const float* row_weight,
                  const float* block, std::int64_t width, float* scaled, float* out);

  // The same two for some of the rows, blocks of 8 vectors and no weights: row i of out or of block is that of rows[i].
  void (*gather_some)(const CsrView& matrix, const std::int32_t* rows, std::int64_t count, const float* block,
                      float* out);
  void (*scatter_some)(const CsrView& matrix, const std::int32_t* rows, std::int64_t count, const float* block,
                       float* out);

  // The first two for a dense matrix and blocks of 8 vectors.
  void (*gather_dense)(const DenseView& matrix, std::int64_t begin, std::int64_t end, const float* block, float* out);
  void (*scatter_dense)(const DenseView& matrix, std::int64_t begin, std::int64_t end, const float* row_weight,
                        const float* block, float* out);

  // out[j] += row_weight[r] * (sum of block[i] over the entries (r, i)) over the entries (r, j), for blocks of 8 and a
  // matrix of ones: one step of Y'D Y block, without Y block ever being written down.
  void (*normal)(const CsrView& matrix, std::int64_t begin, std::int64_t end, const float* row_weight,
                 const float* block, float* out);

  // products[i][j] = sum over the rows of a[row][i] * b[row][j], for two blocks of 8 vectors.
  void (*gram)(const float* a, const float* b, std::int64_t n_rows, float* products);

  // out[row] = (add ? out[row] : 0) + sum over i of a[row][i] * coefficients[i], for blocks of 8; out may be a.
  void (*combine)(const float* a, const float* coefficients, std::int64_t n_rows, bool add, float* out);

  // losses[s] += cost * max(0, slack + steps[s] * slack_move)^2 and sizes[s] += weight * |centred + steps[s] *
  // centred_move| over the rows, for 16 steps.
  void (*add_line)(const RowOnLine* rows, std::int64_t count, const float* steps, float* losses, float* sizes);

  // sums[i] = sum over the features of a row of value * steps[i], for eight routers; `table` has the steps of every
  // feature.
  void (*route_dense)(const std::int8_t* table, const SparseRow& row, float* sums);
  void (*route_hashed)(const RouterBucket* buckets, std::uint32_t n_buckets, const SparseRow& row, float* sums);

  // From a block of routers to the places below that a row comes to, one bit for each: those of a probability above
  // `smallest` and, if `is_main`, the one that is the more probable way at every node, `likeliest`, which is -1
  // otherwise. probability[0] is that to come to the block; the others are written. `normal` is NormalTable's.
  std::uint32_t (*leave_block)(const RouterBlock& block, const float* sums, const float* normal, float noise_scale,
                               float smallest, bool is_main, float* probability, int* likeliest);

  // margins[i] += value * head and cosines[i] += value * centroid of pairs[at[i]]; count is a multiple of 8.
  void (*add_weights)(const std::uint32_t* pairs, const std::int32_t* at, std::int64_t count, float value,
                      float* margins, float* cosines);

  // The same for all pairs there are, of several lists, one after the other: sums[2 i] += values[t] * head and
  // sums[2 i + 1] += values[t] * centroid of lists[t][i]. Bits of a damaged model that are no float16 numbers may make
  // sums that are none either.
  void (*add_all_weights)(const std::uint32_t* const* lists, const float* values, std::int64_t n_lists,
                          std::int64_t count, float* sums);

  // at[i] = the place of labels[i] in the list of a bitmap, from 1 to length; 0: it is not in there.
  void (*find_places)(const LabelWord* words, std::uint32_t length, const std::int32_t* labels, std::int64_t count,
                      std::int32_t* at);

  // sums[labels[i]] += value * halves[i], float16; labels that are not below n_labels are of a damaged model, and
  // sums[n_labels] stands for all of them.
  void (*add_halves)(const std::int32_t* labels, const std::uint16_t* halves, std::int64_t count, float value,
                     std::uint32_t n_labels, float* sums);

  // A number above 0 that `wanted` values, or all that are above 0, reach; more do only where several equal the least
  // of them, and then it is that. count is a multiple of 8.
  float (*nth_largest)(const float* values, std::int64_t count, std::int64_t wanted);

  // Writes the places of the values that reach `least`, ascending, and returns how many there are. count is a multiple
  // of 8, and there must be room for 16 places more.
  std::int64_t (*places_from)(const float* values, std::int64_t count, float least, std::int32_t* places);

  // sums = sum over the features of a row of value * scale * the feature's vector.
  void (*add_vectors)(const SpaceVector* table, const float* scale, const SparseRow& row, float* sums);

  // out[i] = scale * the vector of the table at at[i], or 0 where that is -1.
  void (*copy_vectors)(const SpaceVector* table, const float* scale, const std::int32_t* at, std::int64_t count,
                       float* out);

  // The gradient of each row's loss by its vector before that was made unit, where the loss is minus its weight times
  // the logarithm of the share of its own label in a softmax over all columns, but for those that are labels of the row
  // too. `rows` has the unit vectors, `labels` those of the columns.
  void (*pull_rows)(const ComparedRows& compared, const float* rows, const float* labels, float* gradient);

  // Writes vectors in steps of a 127th of the largest number of each, and how large a step is.
  void (*round_vectors)(const float* vectors, std::int64_t count, SpaceVector* steps, float* scale);

  // products[i] = the inner product of the vector with that of the table at at[i].
  void (*dot_vectors)(const SpaceVector* table, const std::int32_t* at, std::int64_t count, const float* vector,
                      float* products);

  // The cosines of a row with the vectors of tiles (space_tiles.hpp), one tile after the other: `above` and `row_scale`
  // times the vector's scale times the exact inner product of their steps; 0 where a vector's scale is 0. `row` has 64
  // steps of at most kTileRowSteps.
  void (*tile_cosines)(const SpaceTile* tiles, std::int64_t n_tiles, const std::int8_t* row, float row_scale,
                       float above, float* cosines);
};

// The best set that this processor can run, or the one chosen by use_instruction_set.
const BlockKernels& block_kernels();

// "plain", "avx2", "avx512", "avx512_vnni": those that this processor can run, from the slowest to the fastest.
std::vector<std::string> instruction_sets();

// Chooses a set by name, for tests and benchmarks; throws std::invalid_argument if it cannot run here.
void use_instruction_set(const std::string& name);

extern const BlockKernels plain_kernels;
#ifdef LABELPRISM_X86
extern const BlockKernels avx2_kernels;
extern const BlockKernels avx512_kernels;
extern const BlockKernels avx512_vnni_kernels;
#endif

}  // namespace labelprism
