#include "forest_growth.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "label_sketch.hpp"
#include "node_rows.hpp"
#include "normal_table.hpp"
#include "row_algebra.hpp"
#include "row_routing.hpp"
#include "scramble.hpp"
#include "thread_pool.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kManyRows = 1000;     // a node of so many rows is not left whole by one bad start
constexpr int kDirections = 8;               // so many are tried
constexpr double kBalanced = 0.2;            // until the smaller side has this share
constexpr std::int64_t kRowsPerTask = 8192;  // a large node is routed in pieces of so many rows

constexpr std::size_t kBatchNodes = 16;                  // nodes are decided about in batches of at least so many,
constexpr std::int64_t kBatchRows = 1 << 20;             // and of as many more as have so many rows together
constexpr std::uint64_t kSampled = 0x6A09E667F3BCC908u;  // the keys of samples, of
constexpr std::uint64_t kOrdered = 0xBB67AE8584CAA73Bu;  // orders, and of routes have nothing to do with each other

// A node of a level.
struct Node {
  std::uint64_t key;
  NodeRows members;
};

// Examples that go somewhere.
struct Members {
  LargeVector<std::int32_t> rows;
  LargeVector<float> weight;

  NodeRows all() const { return {rows.data(), weight.data(), static_cast<std::int64_t>(rows.size())}; }
  void push(std::int32_t row, float row_weight) {
    rows.push_back(row);
    weight.push_back(row_weight);
  }
  void append(const Members& other) {
    rows.insert(rows.end(), other.rows.begin(), other.rows.end());
    weight.insert(weight.end(), other.weight.begin(), other.weight.end());
  }
};

using Entries = std::vector<std::pair<std::int32_t, float>>;  // (column, value), by column

// What becomes of a node.
struct Outcome {
  bool is_split = false;
  bool is_routed = false;  // whether `sides` are filled already; large nodes are routed afterwards, in pieces
  Entries router, leaf;
  LargeVector<float> right;  // the probabilities of the examples to go right, until they are routed
  float bias = 0, noise = 0, growth_noise = 0;
  float mass = 0;    // of a leaf's labels
  Members sides[2];  // left, right
};

// What a router is learned from: copies of a node's rows, in an order of their own.
template <class Matrix>
struct RouterRows {
  Matrix X;
  CsrView Y;
  const float* weight;
  const std::vector<std::int32_t>& columns;  // of X in the whole data

  RouterRows first(std::int64_t count) const {
    RouterRows rows = *this;
    rows.X.n_rows = rows.Y.n_rows = std::min(count, X.n_rows);
    return rows;
  }
};

// What a task needs of memory; all is as it was at the end of each use.
struct GrowthRoom {
  std::vector<std::int32_t> feature_place, label_place;  // -1
  std::vector<double> label_mass;                        // 0
  LargeVector<std::int32_t> seen;                        // room for all labels and one more
  std::vector<std::int32_t> labels;                      // those of the node at hand
  std::vector<float> masses;
  std::vector<float> spread;  // 0: a router's weights by feature
};

// Turns the nodes of one level into routers and leaves of the forest, and into their children.
template <class Matrix, class Local>
class Level {
 public:
  Level(const Matrix& X, const CsrView& Y, const std::int64_t* row_id, const ForestSettings& settings, int n_threads,
        Counter* counter, Forest& forest)
      : X_(X),
        Y_(Y),
        row_id_(row_id),
        settings_(settings),
        n_threads_(n_threads),
        counter_(counter),
        levels_(expected_levels(X.n_rows, settings)),
        forest_(forest),
        normal_(normal_table()) {}

  // Nodes are taken in batches, since what becomes of them is held until it is written down.
  GrowingNodes grow(const GrowingNodes& level, int depth) {
    GrowingNodes children;
    const std::size_t first_child = forest_.child.size() + level.count();
    for (std::size_t begin = 0; begin < level.count();) {
      std::vector<Node> batch;
      const std::size_t end = batch_end(level, begin);
      for (std::size_t node = begin; node < end; ++node) batch.push_back({level.keys[node], level[node]});
      std::vector<Outcome> outcomes = decide(batch, depth);
      route_large_nodes(batch, outcomes);
      write_down(batch, outcomes, first_child, children);
      begin = end;
    }
    return children;
  }

 private:
  using Rows = RouterRows<Matrix>;

  static std::size_t batch_end(const GrowingNodes& level, std::size_t begin) {
    std::size_t end = std::min(begin + kBatchNodes, level.count());
    while (end < level.count() && level.indptr[end] - level.indptr[begin] < kBatchRows) ++end;
    return end;
  }

  // Decides about nodes, large ones first so that no thread is left with one at the end.
  std::vector<Outcome> decide(const std::vector<Node>& nodes, int depth) {
    std::vector<Outcome> outcomes(nodes.size());
    std::vector<std::size_t> order(nodes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return nodes[a].members.count > nodes[b].members.count; });
    parallel_for(static_cast<std::int64_t>(nodes.size()), n_threads_, [&](std::int64_t i) {
      const Node& node = nodes[order[static_cast<std::size_t>(i)]];
      Outcome& outcome = outcomes[order[static_cast<std::size_t>(i)]];
      rooms_.lend([&](GrowthRoom& room) {
        prepare(room);
        count_labels(node.members, room);
        if (depth < settings_.max_depth && is_worth_splitting(node.members, room)) try_to_split(node, room, outcome);
        if (!outcome.is_split) {
          outcome = Outcome();
          fill_leaf(room, outcome);
        }
        count_progress(node.members, depth, outcome.is_split);
        for (const std::int32_t label : room.labels) room.label_mass[static_cast<std::size_t>(label)] = 0;
      });
    });
    return outcomes;
  }

  // An example that has come to a leaf is done with the levels below too.
  void count_progress(const NodeRows& members, int depth, bool is_split) const {
    if (!counter_ || depth >= levels_) return;
    const double mass = std::accumulate(members.weight, members.weight + members.count, 0.0);
    advance(counter_, static_cast<std::int64_t>(mass * (is_split ? 1 : levels_ - depth)));
  }

  void prepare(GrowthRoom& room) const {
    room.feature_place.resize(static_cast<std::size_t>(X_.n_columns), -1);
    room.label_place.resize(static_cast<std::size_t>(Y_.n_columns), -1);
    room.label_mass.resize(static_cast<std::size_t>(Y_.n_columns), 0.0);
    room.seen.resize(static_cast<std::size_t>(Y_.n_columns) + 1);
    room.spread.resize(static_cast<std::size_t>(X_.n_columns), 0.0f);
  }

  // Adds the masses of the node's labels to `label_mass`, and notes the labels.
  void count_labels(const NodeRows& members, GrowthRoom& room) const {
    constexpr std::int64_t kAhead = 8;
    double* const masses = room.label_mass.data();
    std::int32_t* const seen = room.seen.data();
    std::size_t n_seen = 0;
    for (std::int64_t i = 0; i < members.count; ++i) {
      if (i + 2 * kAhead < members.count) __builtin_prefetch(Y_.indptr + members.rows[i + 2 * kAhead]);
      if (i + kAhead < members.count) __builtin_prefetch(Y_.indices + Y_.indptr[members.rows[i + kAhead]]);
      const double weight = members.weight[i];
      const bool weighs = weight > 0;  // or it could be new again and again
      for (std::int64_t t = Y_.indptr[members.rows[i]], end = Y_.indptr[members.rows[i] + 1]; t < end; ++t) {
        // Noted in any case, and kept if it is new, which cannot be foretold: that needs no jump.
        const std::int32_t label = Y_.indices[t];
        const double mass = masses[label];
        seen[n_seen] = label;
        n_seen += mass == 0 && weighs;
        masses[label] = mass + weight;
      }
    }
    room.labels.assign(seen, seen + n_seen);
  }

  // Whether there are rows enough, and more labels than a leaf may be content with.
  bool is_worth_splitting(const NodeRows& members, GrowthRoom& room) const {
    const auto n_labels = static_cast<std::int64_t>(room.labels.size());
    if (members.count < settings_.min_rows || n_labels <= settings_.stop_labels) return false;
    room.masses.clear();
    double total = 0;
    for (const std::int32_t label : room.labels) {
      total += room.label_mass[static_cast<std::size_t>(label)];
      room.masses.push_back(static_cast<float>(room.label_mass[static_cast<std::size_t>(label)]));
    }
    const auto end = room.masses.begin() + settings_.stop_labels;
    std::nth_element(room.masses.begin(), end, room.masses.end(), std::greater<>());
    return std::accumulate(room.masses.begin(), end, 0.0) < settings_.target_recall * total;
  }

  void fill_leaf(const GrowthRoom& room, Outcome& outcome) const {
    double total = 0;
    for (const std::int32_t label : room.labels) total += room.label_mass[static_cast<std::size_t>(label)];
    for (const std::int32_t label : room.labels) {
      const double share = room.label_mass[static_cast<std::size_t>(label)] / total;
      if (share >= settings_.drop_share) outcome.leaf.emplace_back(label, static_cast<float>(share));
    }
    std::sort(outcome.leaf.begin(), outcome.leaf.end());
    outcome.mass = static_cast<float>(total);
  }

  void try_to_split(const Node& node, GrowthRoom& room, Outcome& outcome) const {
    const LargeVector<std::uint32_t> positions = sample_of(node);
    Members sampled;
    for (const std::uint32_t i : positions) sampled.push(node.members.rows[i], node.members.weight[i]);
    const NodeRows sample = sampled.all();
    const Local local(X_, sample, room.feature_place, settings_.min_feature_rows);
    const LocalCsr labels(Y_, sample, room.label_place);
    const double largest_share = find_split(node.key, {local.view(), labels.view(), sample.weight, local.columns()},
                                            node.members.count >= kManyRows, outcome);
    outcome.is_split = largest_share > 0 && largest_share >= settings_.smallest_share;
    outcome.is_routed = sample.count == node.members.count;
    if (outcome.is_split && outcome.is_routed) {
      LargeVector<float> right(positions.size());
      for (std::size_t i = 0; i < positions.size(); ++i) right[positions[i]] = outcome.right[i];
      route(node.key, node.members, right.data(), outcome.sides);
    }
    outcome.right = {};
  }

  // The places of the examples that a router is learned from: all, or a random sample, in an order of the node's own,
  // as coordinate descent and a forest of unlike trees want it.
  LargeVector<std::uint32_t> sample_of(const Node& node) const {
    const auto count = static_cast<std::size_t>(node.members.count);
    const auto wanted = static_cast<std::size_t>(settings_.router_rows);
    LargeVector<std::uint32_t> positions;
    positions.reserve(std::min(count, wanted + wanted / 8));
    const double share = static_cast<double>(wanted) / static_cast<double>(count);
    for (std::size_t i = 0; i < count; ++i) {
      if (count <= wanted || uniform(bits_of_row(node.key ^ kSampled, id_of(node.members.rows[i]), 0)) < share)
        positions.push_back(static_cast<std::uint32_t>(i));
    }
    if (positions.empty()) positions.push_back(0);
    std::uint64_t state = scramble(node.key ^ kOrdered);
    for (std::size_t i = positions.size(); i > 1; --i) {
      state = scramble(state);
      std::swap(positions[i - 1], positions[state % i]);
    }
    return positions;
  }

  // The number that an example has in the whole data.
  std::uint64_t id_of(std::int32_t row) const { return static_cast<std::uint64_t>(row_id_ ? row_id_[row] : row); }

  // Finds the router of a node, and returns the share of the mass that would go to the smaller side.
  //
  // The best direction may be that of a few examples unlike all others, so that a tree would peel them off step by step
  // and never take the rest apart. So large nodes try further directions when the smaller side is too small, and take
  // the most balanced split.
  double find_split(std::uint64_t key, const Rows& rows, bool is_large, Outcome& outcome) const {
    const Rows some = rows.first(settings_.spectral_rows);
    std::optional<LabelSketch> sketch;  // one for all directions
    if (settings_.sketch_steps > 0) sketch = label_sketch(some.X, some.Y, some.weight, settings_.sketch_steps, key);
    const auto direction = [&](int rank) {
      if (sketch) return sketch->direction(rank);
      const std::uint64_t start = key + static_cast<std::uint64_t>(rank);
      return spectral_direction(some.X, some.columns, some.Y, some.weight, settings_.spectral, start);
    };
    double largest_share = 0;
    for (int rank = 0; rank < (is_large ? kDirections : 1) && largest_share < kBalanced; ++rank) {
      take_if_better(direction(rank), rows, false, outcome, largest_share);
    }
    // Sides that are hard to tell apart: the classifier sends nearly all to the larger one. The median does not.
    if (is_large && largest_share < settings_.smallest_share) {
      take_if_better(direction(0), rows, true, outcome, largest_share);
    }
    return largest_share;
  }

  void take_if_better(Direction direction, const Rows& rows, bool at_median, Outcome& outcome, double& share) const {
    Outcome tried;
    const double new_share = split(std::move(direction), rows, at_median, tried);
    if (new_share <= share) return;
    share = new_share;
    outcome = std::move(tried);
  }

  // Finds a router from a direction, and returns the share of the mass that would go to the smaller side. The bias is
  // the router's own, or the median of the margins.
  double split(Direction direction, const Rows& rows, bool at_median, Outcome& outcome) const {
    std::vector<float> router = router_along(std::move(direction), rows, outcome);
    if (router.empty()) return 0;
    outcome.bias = router.back();
    router.pop_back();
    outcome.router = without_small(rows.columns, router);
    outcome.right.resize(static_cast<std::size_t>(rows.X.n_rows));
    for (std::size_t i = 0; i < outcome.right.size(); ++i) {
      outcome.right[i] = row_dot(rows.X, static_cast<std::int64_t>(i), router.data());
    }
    if (at_median) outcome.bias = median_split(outcome.right.data(), rows.weight, rows.X.n_rows);
    double mass = 0, to_right = 0;
    for (std::size_t i = 0; i < outcome.right.size(); ++i) {
      outcome.right[i] = probability(outcome.right[i], outcome);
      mass += rows.weight[i];
      to_right += rows.weight[i] * outcome.right[i];
    }
    return std::min(to_right, mass - to_right) / mass;
  }

  // The weights of the node's columns and, as the last element, the bias; nothing where there is nothing to split by.
  std::vector<float> router_along(Direction direction, const Rows& rows, Outcome& outcome) const {
    if (!(direction.eigenvalue > 0)) return {};
    LargeVector<float> margins(static_cast<std::size_t>(rows.X.n_rows));
    for (std::int64_t i = 0; i < rows.X.n_rows; ++i) {
      margins[static_cast<std::size_t>(i)] = row_dot(rows.X, i, direction.weights.data());
    }
    if (settings_.refinement.rounds > 0) {
      outcome.noise = settings_.noise;
      outcome.growth_noise = settings_.growth_noise;
      return refined_router(rows.X, rows.Y, rows.weight, settings_.refinement, std::move(margins));
    }
    const float median = median_split(margins.data(), rows.weight, rows.X.n_rows);
    const double mass = std::accumulate(rows.weight, rows.weight + rows.first(settings_.spectral_rows).X.n_rows, 0.0);
    outcome.noise = outcome.growth_noise = static_cast<float>(direction.eigenvalue / mass);
    direction.weights.push_back(median);
    return std::move(direction.weights);
  }

  // The weights that are worth keeping, by feature, rounded to steps of the largest; the others become 0.
  Entries without_small(const std::vector<std::int32_t>& columns, std::vector<float>& weights) const {
    float largest = 0;
    for (const float weight : weights) largest = std::max(largest, std::abs(weight));
    const float step = largest / kRouterSteps, smallest = settings_.drop_weight * largest;
    Entries kept;
    for (std::size_t f = 0; f < weights.size(); ++f) {
      weights[f] = std::abs(weights[f]) > smallest ? std::nearbyint(weights[f] / step) * step : 0.0f;
      if (weights[f] != 0) kept.emplace_back(columns[f], weights[f]);
    }
    std::sort(kept.begin(), kept.end());
    return kept;
  }

  float probability(float margin, const Outcome& router) const {
    return probability_right(normal_, margin - router.bias, settings_.fractional ? router.growth_noise : 0);
  }

  // Sends examples to both sides.
  void route(std::uint64_t key, const NodeRows& node, const float* right, Members* sides) const {
    for (std::int64_t i = 0; i < node.count; ++i) {
      for_sides(key, id_of(node.rows[i]), node.weight[i], right[i], settings_.prune_below,
                [&](int side, float weight) { sides[side].push(node.rows[i], weight); });
    }
  }

  void route_large_nodes(const std::vector<Node>& nodes, std::vector<Outcome>& outcomes) {
    struct Piece {
      std::size_t node;
      std::int64_t first, count;
      Members sides[2];
    };
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (!outcomes[i].is_split || outcomes[i].is_routed) continue;
      const std::int64_t count = nodes[i].members.count;
      for (std::int64_t first = 0; first < count; first += kRowsPerTask) {
        pieces.push_back({i, first, std::min(kRowsPerTask, count - first), {}});
      }
    }
    parallel_for(static_cast<std::int64_t>(pieces.size()), n_threads_, [&](std::int64_t task) {
      Piece& piece = pieces[static_cast<std::size_t>(task)];
      const Node& node = nodes[piece.node];
      const NodeRows rows{node.members.rows + piece.first, node.members.weight + piece.first, piece.count};
      rooms_.lend([&](GrowthRoom& room) {
        route(node.key, rows, all_right(rows, outcomes[piece.node], room).data(), piece.sides);
      });
    });
    for (const Piece& piece : pieces) {
      for (int side = 0; side < 2; ++side) outcomes[piece.node].sides[side].append(piece.sides[side]);
    }
  }

  // The probabilities to go right of rows of X, by a router spread out over all features.
  LargeVector<float> all_right(const NodeRows& rows, const Outcome& outcome, GrowthRoom& room) const {
    prepare(room);
    for (const auto& [feature, weight] : outcome.router) room.spread[static_cast<std::size_t>(feature)] = weight;
    LargeVector<float> right(static_cast<std::size_t>(rows.count));
    for (std::size_t i = 0; i < right.size(); ++i) {
      right[i] = probability(row_dot(X_, rows.rows[i], room.spread.data()), outcome);
    }
    for (const auto& [feature, weight] : outcome.router) room.spread[static_cast<std::size_t>(feature)] = 0;
    return right;
  }

  // Writes down what became of nodes, and their children.
  void write_down(const std::vector<Node>& nodes, std::vector<Outcome>& outcomes, std::size_t first_child,
                  GrowingNodes& children) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      Outcome& outcome = outcomes[i];
      if (outcome.is_split && (outcome.sides[0].rows.empty() || outcome.sides[1].rows.empty())) {
        make_leaf(nodes[i].members, outcome);  // chance may leave a side empty
      }
      forest_.child.push(outcome.is_split ? static_cast<std::int32_t>(first_child + children.count()) : -1);
      forest_.bias.push(outcome.bias);
      forest_.noise.push(outcome.noise);
      forest_.mass.push(outcome.mass);
      for (const auto& [feature, weight] : outcome.router) forest_.routers.push(feature, weight);
      for (const auto& [label, share] : outcome.leaf) forest_.leaves.push(label, share);
      forest_.routers.end_row();
      forest_.leaves.end_row();
      for (std::uint64_t side = 0; outcome.is_split && side < 2; ++side) {
        children.push(scramble(2 * nodes[i].key + side), outcome.sides[side].all());
      }
      outcome = Outcome();
    }
  }

  void make_leaf(const NodeRows& members, Outcome& outcome) {
    outcome = Outcome();
    rooms_.lend([&](GrowthRoom& room) {
      prepare(room);
      count_labels(members, room);
      fill_leaf(room, outcome);
      for (const std::int32_t label : room.labels) room.label_mass[static_cast<std::size_t>(label)] = 0;
    });
  }

  const Matrix& X_;
  const CsrView& Y_;
  const std::int64_t* row_id_;
  const ForestSettings& settings_;
  const int n_threads_;
  Counter* counter_;
  const int levels_;
  Forest& forest_;
  const NormalTable& normal_;
  Lender<GrowthRoom> rooms_;
};

}  // namespace

int expected_levels(std::int64_t n_rows, const ForestSettings& settings) {
  int levels = 1;
  for (std::int64_t rows = n_rows; rows > 2 * settings.min_rows && levels <= settings.max_depth; rows /= 2) ++levels;
  return levels;
}

std::vector<std::uint64_t> root_keys(const ForestSettings& settings) {
  std::vector<std::uint64_t> keys;
  for (int tree = 0; tree < settings.n_trees; ++tree) {
    keys.push_back(scramble(settings.seed ^ scramble(static_cast<std::uint64_t>(tree))));
  }
  return keys;
}

void ForestGrower::step(const CsrView& X, const CsrView& Y, const std::int64_t* row_id, int n_threads,
                        Counter* counter) {
  level_ = Level<CsrView, LocalCsr>(X, Y, row_id, settings_, n_threads, counter, forest_).grow(level_, depth_++);
}

void ForestGrower::step(const DenseView& X, const CsrView& Y, const std::int64_t* row_id, int n_threads,
                        Counter* counter) {
  level_ = Level<DenseView, LocalDense>(X, Y, row_id, settings_, n_threads, counter, forest_).grow(level_, depth_++);
}

}  // namespace labelprism
