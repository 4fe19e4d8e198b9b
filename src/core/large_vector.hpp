// Vectors for arrays that are read in random order and may be far larger than the cache.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace labelprism {

// Asks for huge pages where they pay: with pages of 4 KiB nearly every access to a block of 50 MB misses the table of
// page addresses too. Elements are not set to zero when a vector grows; who needs zeros says so.
template <class T>
struct LargeAllocator {
  using value_type = T;

  LargeAllocator() = default;
  template <class U>
  LargeAllocator(const LargeAllocator<U>&) noexcept {}

  T* allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / 2 / sizeof(T)) throw std::bad_alloc();
    const std::size_t size = count * sizeof(T);
    void* memory = size < kLarge ? std::malloc(size) : std::aligned_alloc(kHugePage, rounded(size));
    if (memory == nullptr) throw std::bad_alloc();
#if defined(__linux__)
    if (size >= kLarge) madvise(memory, rounded(size), MADV_HUGEPAGE);  // a hint: it may fail without harm
#endif
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t) noexcept { std::free(memory); }

  template <class U>
  void construct(U* place) noexcept {
    ::new (static_cast<void*>(place)) U;
  }
  template <class U, class... Arguments>
  void construct(U* place, Arguments&&... arguments) {
    ::new (static_cast<void*>(place)) U(std::forward<Arguments>(arguments)...);
  }

  friend bool operator==(const LargeAllocator&, const LargeAllocator&) { return true; }
  friend bool operator!=(const LargeAllocator&, const LargeAllocator&) { return false; }

 private:
  static constexpr std::size_t kHugePage = std::size_t{1} << 21;
  static constexpr std::size_t kLarge = 2 * kHugePage;
  static std::size_t rounded(std::size_t size) { return (size + kHugePage - 1) / kHugePage * kHugePage; }
};

template <class T>
using LargeVector = std::vector<T, LargeAllocator<T>>;

}  // namespace labelprism
