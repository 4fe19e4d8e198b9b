// How far a long computation has come, for others to watch while it runs.
#pragma once

#include <atomic>
#include <cstdint>

namespace labelprism {

struct Counter {
  std::atomic<std::int64_t> done{0};
};

inline void advance(Counter* counter, std::int64_t amount) {
  if (counter) counter->done.fetch_add(amount, std::memory_order_relaxed);
}

}  // namespace labelprism
