// The weights of eight routers side by side, a byte for each router, found by feature.
#pragma once

#include <cstdint>

namespace labelprism {

constexpr int kRouterLanes = 8;

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
