#include "forest_tables.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "forest_growth.hpp"
#include "thread_pool.hpp"
#include "weight_pairs.hpp"

namespace labelprism {
namespace {

// A block has an array by feature, of 8 bytes each, where at least one feature in so many has a weight; a place in a
// hash table takes 18.
constexpr std::size_t kFeaturesPerDenseEntry = 3;
constexpr std::int64_t kBlocksPerTask = 16;

// A block's nodes are known first, for all blocks; then how many features each has, which says where its table begins;
// then tables are written, in any order.
class TablesBuilder {
 public:
  TablesBuilder(const ForestView& forest, int n_threads)
      : forest_(forest), n_threads_(n_threads), n_features_(static_cast<std::size_t>(forest.routers.n_columns)) {}

  ForestTables build() {
    add_leaves();
    for (std::int32_t tree = 0; tree < forest_.n_trees; ++tree) tops_.push_back(tree);
    for (std::size_t block = 0; block < tops_.size(); ++block) add_block(tops_[block]);
    std::vector<std::size_t> sizes(blocks_.size());
    for_blocks([&](std::size_t block) { sizes[block] = count_features(nodes_[block]); });
    for (const std::size_t size : sizes) tables_.push_back(new_table(size));
    buckets_.resize(n_buckets_);
    dense_.resize(n_dense_);
    for_blocks([&](std::size_t block) { write_routers(nodes_[block], tables_[block], blocks_[block]); });
    ForestTables made;
    made.n_labels = forest_.leaves.n_columns;
    made.n_features = forest_.routers.n_columns;
    made.n_trees = forest_.n_trees;
    made.blocks = Stored(std::move(blocks_));
    made.tables = Stored(std::move(tables_));
    made.buckets = Stored(std::move(buckets_));
    made.dense = Stored(std::move(dense_));
    made.leaf_begin = Stored(std::move(leaf_begin_));
    made.leaf_label = Stored(std::move(leaf_label_));
    made.leaf_share = Stored(std::move(leaf_share_));
    return made;
  }

 private:
  using BlockNodes = std::array<std::int32_t, kBlockNodes>;  // -1: none

  template <class Use>
  void for_blocks(const Use& use) const {
    parallel_ranges(static_cast<std::int64_t>(nodes_.size()), kBlocksPerTask, n_threads_,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t block = begin; block < end; ++block) use(static_cast<std::size_t>(block));
                    });
  }

  void add_leaves() {
    leaf_of_node_.assign(static_cast<std::size_t>(forest_.leaves.n_rows), -1);
    leaf_begin_.push_back(0);
    for (std::int64_t node = 0; node < forest_.leaves.n_rows; ++node) {
      if (forest_.child[node] >= 0) continue;
      leaf_of_node_[static_cast<std::size_t>(node)] = static_cast<std::int32_t>(leaf_begin_.size()) - 1;
      for (std::int64_t t = forest_.leaves.indptr[node]; t < forest_.leaves.indptr[node + 1]; ++t) {
        leaf_label_.push_back(forest_.leaves.indices[t]);
        const float share = forest_.leaves.data[t] / static_cast<float>(forest_.n_trees);
        leaf_share_.push_back(static_cast<std::uint16_t>(to_half(share)));
      }
      leaf_begin_.push_back(static_cast<std::int64_t>(leaf_label_.size()));
    }
  }

  void add_block(std::int32_t top) {
    RouterBlock block{};
    BlockNodes nodes;
    nodes.fill(-1);
    for (int i = 0; i < 2 * kBlockNodes + 1; ++i) {
      const std::int32_t above = i == 0 ? top : nodes[static_cast<std::size_t>((i - 1) / 2)];
      block.next[i] = RouterBlock::kInside;
      if (above < 0) continue;
      const std::int32_t node = i == 0 ? top : forest_.child[above] + (i % 2 == 0 ? 1 : 0);
      if (forest_.child[node] < 0) {
        block.next[i] = -2 - leaf_of_node_[static_cast<std::size_t>(node)];
      } else if (i >= kBlockNodes) {
        block.next[i] = static_cast<std::int32_t>(tops_.size());
        tops_.push_back(node);
      } else {
        nodes[static_cast<std::size_t>(i)] = node;
        block.bias[i] = forest_.bias[node];
        block.noise[i] = forest_.noise[node];
      }
    }
    nodes_.push_back(nodes);
    blocks_.push_back(block);
  }

  // How many features the routers of a block have.
  std::size_t count_features(const BlockNodes& nodes) const {
    const CsrView& routers = forest_.routers;
    std::vector<std::int32_t> features;
    for (const std::int32_t node : nodes) {
      if (node < 0) continue;
      const std::int32_t* row = routers.indices;
      features.insert(features.end(), row + routers.indptr[node], row + routers.indptr[node + 1]);
    }
    std::sort(features.begin(), features.end());
    return static_cast<std::size_t>(std::unique(features.begin(), features.end()) - features.begin());
  }

  RouterTable new_table(std::size_t count) {
    if (kFeaturesPerDenseEntry * count >= n_features_ && count > 0) {
      const RouterTable table{static_cast<std::int64_t>(n_dense_), 0, 1};
      n_dense_ += kRouterLanes * n_features_;
      return table;
    }
    const RouterTable table{static_cast<std::int64_t>(n_buckets_), static_cast<std::uint32_t>((2 * count + 6) / 7), 0};
    n_buckets_ += table.n_buckets;
    return table;
  }

  void write_routers(const BlockNodes& nodes, const RouterTable& table, RouterBlock& block) {
    if (table.is_dense) std::fill_n(dense_.data() + table.first, kRouterLanes * n_features_, std::int8_t{0});
    std::fill_n(buckets_.data() + table.first, table.n_buckets, RouterBucket());  // a dense table has none
    const CsrView& routers = forest_.routers;
    for (int i = 0; i < kBlockNodes; ++i) {
      const std::int32_t node = nodes[static_cast<std::size_t>(i)];
      if (node < 0) continue;
      const std::int64_t begin = routers.indptr[node], end = routers.indptr[node + 1];
      float largest = 0;
      for (std::int64_t t = begin; t < end; ++t) largest = std::max(largest, std::abs(routers.data[t]));
      block.scale[i] = largest / kRouterSteps;
      for (std::int64_t t = begin; t < end && largest > 0; ++t) {
        const float steps = std::nearbyint(routers.data[t] / block.scale[i]);
        steps_of(table, routers.indices[t])[i] = static_cast<std::int8_t>(steps);
      }
    }
  }

  // The steps of a feature, for which a place is made if there is none.
  std::int8_t* steps_of(const RouterTable& table, std::int32_t feature) {
    if (table.is_dense) return dense_.data() + table.first + std::int64_t{kRouterLanes} * feature;
    std::uint32_t i = first_bucket(feature, table.n_buckets);
    while (true) {
      RouterBucket& bucket = buckets_[static_cast<std::size_t>(table.first) + i];
      for (int way = 0; way < RouterBucket::kWays; ++way) {
        if (bucket.features[way] >= 0 && bucket.features[way] != feature) continue;
        bucket.features[way] = feature;
        return bucket.steps[way];
      }
      bucket.is_overfull = 1;
      i = i + 1 < table.n_buckets ? i + 1 : 0;
    }
  }

  const ForestView& forest_;
  int n_threads_;
  std::size_t n_features_;
  std::vector<std::int32_t> tops_;  // the top node of every block,
  std::vector<BlockNodes> nodes_;   // and all of them
  std::vector<std::int32_t> leaf_of_node_;
  std::size_t n_buckets_ = 0, n_dense_ = 0;
  LargeVector<RouterBlock> blocks_;
  LargeVector<RouterTable> tables_;
  LargeVector<RouterBucket> buckets_;
  LargeVector<std::int8_t> dense_;
  LargeVector<std::int64_t> leaf_begin_;
  LargeVector<std::int32_t> leaf_label_;
  LargeVector<std::uint16_t> leaf_share_;
};

void require_table(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

bool all_finite(const float* values, int count) {
  return std::all_of(values, values + count, [](float value) { return std::isfinite(value); });
}

void check_block(const ForestTables& forest, std::size_t number, std::vector<bool>& is_led_to) {
  const RouterBlock& block = forest.blocks[number];
  require_table(all_finite(block.scale, kRouterLanes) && all_finite(block.bias, kBlockNodes) &&
                    all_finite(block.noise, kBlockNodes),
                "a router holds NaN or infinity");
  bool is_reached[2 * kBlockNodes + 1];
  for (int i = 0; i < 2 * kBlockNodes + 1; ++i) {
    const int above = (i - 1) / 2;
    is_reached[i] = i == 0 || (is_reached[above] && block.next[above] == RouterBlock::kInside);
    const std::int64_t next = block.next[i];
    require_table(is_reached[i] || next == RouterBlock::kInside, "a way through the forest begins nowhere");
    if (!is_reached[i]) continue;
    if (next == RouterBlock::kInside) {
      require_table(i < kBlockNodes, "a way through the forest leads nowhere");
    } else if (next >= 0) {
      const auto block_below = static_cast<std::size_t>(next);
      require_table(block_below > number && block_below < is_led_to.size() && !is_led_to[block_below],
                    "a block of the forest leads to a wrong one");
      is_led_to[block_below] = true;
    } else {
      require_table(-2 - next < forest.n_leaves(), "a block of the forest leads to no leaf");
    }
  }
}

}  // namespace

ForestTables forest_tables(const ForestView& forest, int n_threads) { return TablesBuilder(forest, n_threads).build(); }

void check_tables(const ForestTables& forest) {
  require_table(forest.n_trees >= 1 && static_cast<std::size_t>(forest.n_trees) <= forest.blocks.size() &&
                    forest.blocks.size() == forest.tables.size(),
                "a forest needs a block and a table for every tree");
  const auto dense_size = std::int64_t{kRouterLanes} * forest.n_features;
  for (std::size_t i = 0; i < forest.tables.size(); ++i) {
    const RouterTable& table = forest.tables[i];
    const std::int64_t length = table.is_dense ? dense_size : table.n_buckets;
    const auto size = static_cast<std::int64_t>(table.is_dense ? forest.dense.size() : forest.buckets.size());
    require_table(table.first >= 0 && length <= size && table.first <= size - length, "a table of routers is cut off");
  }
  std::vector<bool> is_led_to(forest.blocks.size(), false);
  std::fill(is_led_to.begin(), is_led_to.begin() + forest.n_trees, true);
  require_table(forest.leaf_begin.size() >= 1 && forest.leaf_begin[0] == 0, "the leaves do not begin with 0");
  for (std::size_t i = 0; i + 1 < forest.leaf_begin.size(); ++i) {
    require_table(forest.leaf_begin[i] <= forest.leaf_begin[i + 1], "the leaves descend");
  }
  require_table(
      forest.leaf_label.size() == forest.leaf_share.size() &&
          forest.leaf_begin[forest.leaf_begin.size() - 1] == static_cast<std::int64_t>(forest.leaf_label.size()),
      "the labels of the leaves are cut off");
  for (std::size_t i = 0; i < forest.blocks.size(); ++i) check_block(forest, i, is_led_to);
}

void router_weights(const ForestTables& forest, GrowingCsr& weights) {
  weights.indptr.push(0);
  std::vector<std::pair<std::int32_t, const std::int8_t*>> entries;
  for (std::size_t b = 0; b < forest.blocks.size(); ++b) {
    const RouterTable& table = forest.tables[b];
    entries.clear();
    for (std::int64_t j = 0; table.is_dense && j < forest.n_features; ++j) {
      entries.emplace_back(static_cast<std::int32_t>(j), forest.dense.data() + table.first + kRouterLanes * j);
    }
    for (std::uint32_t i = 0; i < table.n_buckets; ++i) {
      const RouterBucket& bucket = forest.buckets[static_cast<std::size_t>(table.first) + i];
      for (int way = 0; way < RouterBucket::kWays; ++way) {
        const std::int32_t feature = bucket.features[way];
        if (feature >= 0 && feature < forest.n_features) entries.emplace_back(feature, bucket.steps[way]);
      }
    }
    std::sort(entries.begin(), entries.end());
    for (int i = 0; i < kBlockNodes; ++i) {
      for (const auto& [feature, steps] : entries) {
        if (steps[i] != 0) weights.push(feature, static_cast<float>(steps[i]) * forest.blocks[b].scale[i]);
      }
      weights.end_row();
    }
  }
}

}  // namespace labelprism
