#include "forest_growth.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "label_sketch.hpp"
#include "node_rows.hpp"
#include "normal_table.hpp"
#include "row_algebra.hpp"
#include "scramble.hpp"
#include "thread_pool.hpp"

namespace labelprism {
namespace {

constexpr std::int64_t kManyRows = 1000;     // a node of so many rows is not left whole by one bad start
constexpr int kDirections = 8;               // so many are tried
constexpr double kBalanced = 0.2;            // until the smaller side has this share
constexpr std::int64_t kRowsPerTask = 8192;  // a large node is routed in pieces of so many rows

// The examples that reach a node, and with which probability.
struct Members {
  std::vector<std::int32_t> rows;
  std::vector<float> weight;

  std::int64_t count() const { return static_cast<std::int64_t>(rows.size()); }
  NodeRows first(std::int64_t n) const { return {rows.data(), weight.data(), std::min(n, count())}; }
  void append(const Members& other) {
    rows.insert(rows.end(), other.rows.begin(), other.rows.end());
    weight.insert(weight.end(), other.weight.begin(), other.weight.end());
  }
};

struct GrowingNode {
  std::uint64_t key;  // seeds all that is random in the node
  Members members;
};

using Entries = std::vector<std::pair<std::int32_t, float>>;  // (column, value), by column

// What becomes of a node.
struct Outcome {
  bool is_split = false;
  bool is_routed = false;  // whether `sides` are filled already; large nodes are routed afterwards, in pieces
  Entries router, leaf;
  std::vector<float> right;  // the probabilities of the examples to go right, until they are routed
  float bias = 0, noise = 0, growth_noise = 0;
  float mass = 0;    // of a leaf's labels
  Members sides[2];  // left, right
};

// What a task needs of memory; all is as it was at the end of each use.
struct GrowthRoom {
  std::vector<std::int32_t> feature_place, label_place;  // -1
  std::vector<double> label_mass;                        // 0
  std::vector<std::int32_t> labels;                      // those of the node at hand
  std::vector<float> masses;
  std::vector<float> spread;  // 0: a router's weights by feature
};

template <class Matrix, class Local>
class Grower {
 public:
  Grower(const Matrix& X, const CsrView& Y, const float* row_weight, const ForestSettings& settings, int n_threads,
         Counter* counter, Forest& forest)
      : X_(X),
        Y_(Y),
        row_weight_(row_weight),
        settings_(settings),
        n_threads_(n_threads),
        counter_(counter),
        levels_(expected_levels(X.n_rows, settings)),
        forest_(forest),
        normal_(normal_table()) {}

  void grow() {
    forest_.routers.indptr.push(0);
    forest_.leaves.indptr.push(0);
    std::vector<GrowingNode> level = roots();
    for (int depth = 0; !level.empty(); ++depth) {
      std::vector<Outcome> outcomes = decide(level, depth);
      route_large_nodes(level, outcomes);
      level = next_level(level, outcomes);
    }
  }

 private:
  std::vector<GrowingNode> roots() const {
    std::vector<GrowingNode> roots(static_cast<std::size_t>(settings_.n_trees));
    parallel_for(settings_.n_trees, n_threads_, [&](std::int64_t tree) {
      GrowingNode& root = roots[static_cast<std::size_t>(tree)];
      root.key = scramble(settings_.seed ^ scramble(static_cast<std::uint64_t>(tree)));
      root.members.rows.resize(static_cast<std::size_t>(X_.n_rows));
      root.members.weight.assign(static_cast<std::size_t>(X_.n_rows), 1.0f);
      std::iota(root.members.rows.begin(), root.members.rows.end(), 0);
      std::uint64_t state = root.key;
      for (std::size_t i = root.members.rows.size(); i > 1; --i) {
        state = scramble(state);
        std::swap(root.members.rows[i - 1], root.members.rows[state % i]);
      }
      for (std::size_t i = 0; row_weight_ && i < root.members.rows.size(); ++i) {
        root.members.weight[i] = row_weight_[root.members.rows[i]];
      }
    });
    return roots;
  }

  // Decides about every node of a level, large nodes first so that no thread is left with one at the end.
  std::vector<Outcome> decide(const std::vector<GrowingNode>& level, int depth) {
    std::vector<Outcome> outcomes(level.size());
    std::vector<std::size_t> order(level.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return level[a].members.count() > level[b].members.count(); });
    parallel_for(static_cast<std::int64_t>(level.size()), n_threads_, [&](std::int64_t i) {
      const std::size_t node = order[static_cast<std::size_t>(i)];
      rooms_.lend([&](GrowthRoom& room) {
        prepare(room);
        count_labels(level[node].members, room);
        if (depth < settings_.max_depth && is_worth_splitting(level[node].members, room))
          try_to_split(level[node], room, outcomes[node]);
        if (!outcomes[node].is_split) {
          outcomes[node] = Outcome();
          fill_leaf(room, outcomes[node]);
        }
        count_progress(level[node].members, depth, outcomes[node].is_split);
        for (const std::int32_t label : room.labels) room.label_mass[static_cast<std::size_t>(label)] = 0;
      });
    });
    return outcomes;
  }

  // An example that has come to a leaf is done with the levels below too.
  void count_progress(const Members& members, int depth, bool is_split) const {
    if (!counter_ || depth >= levels_) return;
    const double mass = std::accumulate(members.weight.begin(), members.weight.end(), 0.0);
    advance(counter_, static_cast<std::int64_t>(mass * (is_split ? 1 : levels_ - depth)));
  }

  void prepare(GrowthRoom& room) const {
    room.feature_place.resize(static_cast<std::size_t>(X_.n_columns), -1);
    room.label_place.resize(static_cast<std::size_t>(Y_.n_columns), -1);
    room.label_mass.resize(static_cast<std::size_t>(Y_.n_columns), 0.0);
    room.spread.resize(static_cast<std::size_t>(X_.n_columns), 0.0f);
  }

  void count_labels(const Members& members, GrowthRoom& room) const {
    room.labels.clear();
    constexpr std::size_t kAhead = 8;
    for (std::size_t i = 0; i < members.rows.size(); ++i) {
      if (i + 2 * kAhead < members.rows.size()) __builtin_prefetch(Y_.indptr + members.rows[i + 2 * kAhead]);
      if (i + kAhead < members.rows.size()) __builtin_prefetch(Y_.indices + Y_.indptr[members.rows[i + kAhead]]);
      for (std::int64_t t = Y_.indptr[members.rows[i]]; t < Y_.indptr[members.rows[i] + 1]; ++t) {
        double& mass = room.label_mass[static_cast<std::size_t>(Y_.indices[t])];
        if (mass == 0) room.labels.push_back(Y_.indices[t]);
        mass += members.weight[i];
      }
    }
  }

  // Whether there are rows enough, and more labels than a leaf may be content with.
  bool is_worth_splitting(const Members& members, GrowthRoom& room) const {
    const auto n_labels = static_cast<std::int64_t>(room.labels.size());
    if (members.count() < settings_.min_rows || n_labels <= settings_.stop_labels) return false;
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

  // The best direction may be that of a few examples unlike all others, so that a tree would peel them off step by step
  // and never take the rest apart. So large nodes try further directions when the smaller side is too small, and take
  // the most balanced split.
  void try_to_split(const GrowingNode& node, GrowthRoom& room, Outcome& outcome) const {
    const bool is_large = node.members.count() >= kManyRows;
    const NodeRows sample = node.members.first(settings_.router_rows);
    const Local local(X_, sample, room.feature_place, settings_.min_feature_rows);
    const LocalCsr labels(Y_, sample, room.label_place);
    const int directions = is_large ? kDirections : 1;
    double largest_share = 0;
    for (int rank = 0; rank < directions && largest_share < kBalanced; ++rank) {
      Outcome tried;
      const double share = split(node.key, rank, local, labels.view(), sample, tried);
      if (share <= largest_share) continue;
      largest_share = share;
      outcome = std::move(tried);
    }
    if (is_large && largest_share < settings_.smallest_share) {
      // Sides that are hard to tell apart: the classifier sends nearly all to the larger one. The median does not.
      Outcome tried;
      const double share = split(node.key, 0, local, labels.view(), sample, tried, true);
      if (share > largest_share) {
        largest_share = share;
        outcome = std::move(tried);
      }
    }
    outcome.is_split = largest_share > 0 && largest_share >= settings_.smallest_share;
    outcome.is_routed = sample.count == node.members.count();
    if (outcome.is_split && outcome.is_routed) route(node.key, sample, outcome.right.data(), outcome.sides);
    outcome.right = {};
  }

  // Finds a router, and returns the share of the mass that would go to the smaller side. The bias is the router's own,
  // or the median of the margins.
  double split(std::uint64_t key, int rank, const Local& local, const CsrView& Y, const NodeRows& sample,
               Outcome& outcome, bool at_median = false) const {
    const Matrix X = local.view();
    std::vector<float> router = find_router(key, rank, X, local.columns(), Y, sample, outcome);
    if (router.empty()) return 0;
    outcome.bias = router.back();
    router.pop_back();
    outcome.router = without_small(local.columns(), router);
    outcome.right.resize(static_cast<std::size_t>(sample.count));
    for (std::size_t i = 0; i < outcome.right.size(); ++i) {
      outcome.right[i] = row_dot(X, static_cast<std::int64_t>(i), router.data());
    }
    if (at_median) outcome.bias = median_split(outcome.right.data(), sample.weight, sample.count);
    double mass = 0, to_right = 0;
    for (std::size_t i = 0; i < outcome.right.size(); ++i) {
      outcome.right[i] = probability(outcome.right[i], outcome);
      mass += sample.weight[i];
      to_right += sample.weight[i] * outcome.right[i];
    }
    return std::min(to_right, mass - to_right) / mass;
  }

  // The weights of the node's columns and, as the last element, the bias; nothing where there is nothing to split by.
  std::vector<float> find_router(std::uint64_t start, int rank, const Matrix& X,
                                 const std::vector<std::int32_t>& columns, const CsrView& Y, const NodeRows& sample,
                                 Outcome& outcome) const {
    Matrix some_X = X;
    CsrView some_Y = Y;
    some_X.n_rows = some_Y.n_rows = std::min(X.n_rows, settings_.spectral_rows);
    Direction direction =
        settings_.sketch_steps > 0
            ? sketched_direction(some_X, some_Y, sample.weight, settings_.sketch_steps, start, rank)
            : spectral_direction(some_X, columns, some_Y, sample.weight, settings_.spectral, start + rank);
    if (!(direction.eigenvalue > 0)) return {};
    std::vector<float> margins(static_cast<std::size_t>(X.n_rows));
    for (std::int64_t i = 0; i < X.n_rows; ++i) {
      margins[static_cast<std::size_t>(i)] = row_dot(X, i, direction.weights.data());
    }
    if (settings_.refinement.rounds > 0) {
      outcome.noise = settings_.noise;
      outcome.growth_noise = settings_.growth_noise;
      return refined_router(X, Y, sample.weight, settings_.refinement, std::move(margins));
    }
    const float median = median_split(margins.data(), sample.weight, X.n_rows);
    const double mass = std::accumulate(sample.weight, sample.weight + some_X.n_rows, 0.0);
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

  // Sends examples to both sides, those of little weight by chance: expected counts stay what they are.
  void route(std::uint64_t key, const NodeRows& node, const float* right, Members* sides) const {
    for (std::int64_t i = 0; i < node.count; ++i) {
      for (int side = 0; side < 2; ++side) {
        float weight = node.weight[i] * (side == 1 ? right[i] : 1 - right[i]);
        if (weight < settings_.prune_below) {
          if (!(weight > 0)) continue;
          const std::uint64_t bits = scramble(key ^ scramble(2 * static_cast<std::uint64_t>(node.rows[i]) + side));
          if (uniform(bits) * settings_.prune_below >= weight) continue;
          weight = settings_.prune_below;
        }
        sides[side].rows.push_back(node.rows[i]);
        sides[side].weight.push_back(weight);
      }
    }
  }

  void route_large_nodes(const std::vector<GrowingNode>& level, std::vector<Outcome>& outcomes) {
    struct Piece {
      std::size_t node;
      std::int64_t first, count;
      Members sides[2];
    };
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < level.size(); ++i) {
      if (!outcomes[i].is_split || outcomes[i].is_routed) continue;
      const std::int64_t count = level[i].members.count();
      for (std::int64_t first = 0; first < count; first += kRowsPerTask) {
        pieces.push_back({i, first, std::min(kRowsPerTask, count - first), {}});
      }
    }
    parallel_for(static_cast<std::int64_t>(pieces.size()), n_threads_, [&](std::int64_t task) {
      Piece& piece = pieces[static_cast<std::size_t>(task)];
      const GrowingNode& node = level[piece.node];
      const NodeRows rows{node.members.rows.data() + piece.first, node.members.weight.data() + piece.first,
                          piece.count};
      rooms_.lend([&](GrowthRoom& room) {
        route(node.key, rows, all_right(rows, outcomes[piece.node], room).data(), piece.sides);
      });
    });
    for (const Piece& piece : pieces) {
      for (int side = 0; side < 2; ++side) outcomes[piece.node].sides[side].append(piece.sides[side]);
    }
  }

  // The probabilities to go right of rows of X, by a router spread out over all features.
  std::vector<float> all_right(const NodeRows& rows, const Outcome& outcome, GrowthRoom& room) const {
    prepare(room);
    for (const auto& [feature, weight] : outcome.router) room.spread[static_cast<std::size_t>(feature)] = weight;
    std::vector<float> right(static_cast<std::size_t>(rows.count));
    for (std::size_t i = 0; i < right.size(); ++i) {
      right[i] = probability(row_dot(X_, rows.rows[i], room.spread.data()), outcome);
    }
    for (const auto& [feature, weight] : outcome.router) room.spread[static_cast<std::size_t>(feature)] = 0;
    return right;
  }

  // Writes the nodes of a level down, and returns their children.
  std::vector<GrowingNode> next_level(std::vector<GrowingNode>& level, std::vector<Outcome>& outcomes) {
    std::vector<GrowingNode> children;
    const auto first_child = static_cast<std::int64_t>(forest_.child.size() + level.size());
    for (std::size_t i = 0; i < level.size(); ++i) {
      Outcome& outcome = outcomes[i];
      if (outcome.is_split && (outcome.sides[0].rows.empty() || outcome.sides[1].rows.empty())) {
        make_leaf(level[i].members, outcome);  // chance may leave a side empty
      }
      forest_.child.push(
          outcome.is_split ? static_cast<std::int32_t>(first_child + static_cast<std::int64_t>(children.size())) : -1);
      forest_.bias.push(outcome.bias);
      forest_.noise.push(outcome.noise);
      forest_.mass.push(outcome.mass);
      for (const auto& [feature, weight] : outcome.router) forest_.routers.push(feature, weight);
      for (const auto& [label, share] : outcome.leaf) forest_.leaves.push(label, share);
      forest_.routers.end_row();
      forest_.leaves.end_row();
      for (std::uint64_t side = 0; outcome.is_split && side < 2; ++side) {
        children.push_back({scramble(2 * level[i].key + side), std::move(outcome.sides[side])});
      }
      level[i].members = Members();
    }
    return children;
  }

  void make_leaf(const Members& members, Outcome& outcome) {
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
  const float* row_weight_;
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

void grow_forest(const CsrView& X, const CsrView& Y, const float* row_weight, const ForestSettings& settings,
                 int n_threads, Counter* counter, Forest& forest) {
  Grower<CsrView, LocalCsr>(X, Y, row_weight, settings, n_threads, counter, forest).grow();
}

void grow_forest(const DenseView& X, const CsrView& Y, const float* row_weight, const ForestSettings& settings,
                 int n_threads, Counter* counter, Forest& forest) {
  Grower<DenseView, LocalDense>(X, Y, row_weight, settings, n_threads, counter, forest).grow();
}

}  // namespace labelprism
