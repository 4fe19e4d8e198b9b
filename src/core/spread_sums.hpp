// What the rows of a chunk add to the sums of a node whose rows are spread over many chunks.
//
// Each function makes one pass over the rows that reach the node. They are read where they lie, and nothing is made
// that is as long as they are: a task answers for many nodes, and copies and the pages that hold them took longer than
// the arithmetic. Sums are float32 by feature, since these travel, and float64 where there are few. Tables have a row
// for every feature or label of the chunk, with zeros for those that the node leaves out.
#pragma once

#include "buffer.hpp"
#include "csr.hpp"
#include "node_rows.hpp"

namespace labelprism {

// Some rows of the data; of Y the entries are ones.
struct ChunkRows {
  CsrView X, Y;
};

// The mass of every label; of every feature the rows that have it, and the weighted sum of its values.
void count_rows(const ChunkRows& chunk, const NodeRows& node, float* label_mass, std::int32_t* feature_rows,
                float* feature_sums);

// features = X'D (Y codes - means) for codes [n_labels][8]; features is [n_features][8].
void features_of_codes(const ChunkRows& chunk, const NodeRows& node, const float* codes, const float* means,
                       float* features);

// labels = Y'D (X features - means) for features [n_features][8], labels [n_labels][8]; and the weighted second moments
// of X features - means, [8][8], unless null.
void labels_of_features(const ChunkRows& chunk, const NodeRows& node, const float* features, const float* means,
                        float* labels, double* moments);

// A margin of rows: weights.x + offset. It may be seen from `mean`, in units of 1 / scale.
struct Margin {
  const float* weights;  // n_features
  float offset;
  float mean;
  float scale;
};

// The weighted sum of the margins of each label's rows, [n_labels]: seen from the mean, and cut at three units.
void sides_of_labels(const ChunkRows& chunk, const NodeRows& node, const Margin& margin, float* sides);

// How labels vote for the sides of their rows. A row costs as much as its vote is clear.
struct LabelVotes {
  const float* table;  // [n_labels][2]: the side, 1 or -1, times the strength; and the strength
  float cost;
};

// The gradient of the squared hinge loss by weights and offset, [n_features + 1]; and, unless null, the second
// derivatives, as many, as they would be if all rows were within the margin.
void hinge_gradient(const ChunkRows& chunk, const NodeRows& node, const LabelVotes& votes, const Margin& margin,
                    float* gradient, float* diagonal);

// A line of margins: (weights + step * move).x + offset + step * offset_move, of mean mean + step * mean_move.
struct MarginLine {
  const float* pairs;  // [n_features][2]: weight, move
  float offset, offset_move;
  float mean, mean_move;
};

constexpr int kMostSteps = 16;

// The loss, and the weighted sum of the sizes of the centred margins, at n_steps <= kMostSteps points of a line. Two
// numbers of a row are enough for all of them.
void line_search(const ChunkRows& chunk, const NodeRows& node, const LabelVotes& votes, const MarginLine& line,
                 const float* steps, int n_steps, double* losses, double* sizes);

// weights.x of the rows of the node.
void margins_of(const ChunkRows& chunk, const NodeRows& node, const float* weights, float* margins);

// A router: right with probability Phi((weights.x - bias) / noise); with a noise of 0 where that is above 0.
struct SpreadRouter {
  const float* weights;  // n_features
  float bias;
  float noise;
};

// The mass that would go right.
double right_mass(const ChunkRows& chunk, const NodeRows& node, const SpreadRouter& router);

// Rows and weights of the two sides; see row_routing.hpp. Row 0 of the chunk is row `first_row` of all.
struct RoutedRows {
  Buffer<std::int32_t> rows[2];
  Buffer<float> weight[2];
};
void route_rows(const ChunkRows& chunk, const NodeRows& node, const SpreadRouter& router, std::uint64_t key,
                std::uint64_t first_row, float prune_below, RoutedRows& sides);

}  // namespace labelprism
