// Seven routers that are asked together, and the weights of eight side by side, a byte for each, found by feature.
#pragma once

#include <cstdint>
#include <type_traits>

namespace labelprism {

constexpr int kRouterLanes = 8;
constexpr int kBlockNodes = 7;

// Seven nodes, numbered as in a heap: those below node i are 2 i + 1 and 2 i + 2.
struct RouterBlock {
  static constexpr std::int32_t kInside = -1;

  float scale[kRouterLanes];  // what a step of each router's weights is worth
  float bias[kBlockNodes];
  float noise[kBlockNodes];
  // Where an example goes from node (i - 1) / 2: on in the block (kInside), to block n (n), or to leaf n (-2 - n).
  std::int32_t next[2 * kBlockNodes + 1];
};
static_assert(std::is_trivially_copyable_v<RouterBlock> && sizeof(RouterBlock) == 37 * 4, "a block is kept in files");

// A line of the cache: five features and their weights. What finds no place in its bucket goes to one that follows.
struct RouterBucket {
  static constexpr int kWays = 5;
  std::int32_t features[kWays] = {-1, -1, -1, -1, -1};
  std::int32_t is_overfull = 0;
  std::int8_t steps[kWays][kRouterLanes] = {};
};
static_assert(sizeof(RouterBucket) == 64, "a bucket should be a line of the cache");

// The bucket in which a feature is looked for first; the number of buckets need not be a power of 2. Static: the linker
// must not take the copy that was compiled for another instruction set.
static inline std::uint32_t first_bucket(std::int32_t feature, std::uint32_t n_buckets) {
  const std::uint64_t hash = static_cast<std::uint32_t>(feature) * std::uint64_t{0x9E3779B97F4A7C15u};
  return static_cast<std::uint32_t>(((hash >> 32) * n_buckets) >> 32);
}

}  // namespace labelprism
