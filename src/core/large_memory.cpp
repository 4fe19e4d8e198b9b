#include "large_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>
#include <stdexcept>
#include <unordered_map>

#if defined(__linux__)
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace labelprism {
namespace {

#if defined(__linux__)
constexpr std::size_t kHugePage = std::size_t{1} << 21;
constexpr std::size_t kLarge = 2 * kHugePage;
constexpr std::size_t kLine = 64;  // of the cache: registers of that size should not be read from two
constexpr std::size_t kManyLines = 64 * kLine;

std::size_t rounded(std::size_t size, std::size_t unit) { return (size + unit - 1) / unit * unit; }
#endif

// Asks for huge pages where they pay: with pages of 4 KiB nearly every access to a block of 50 MB misses the table of
// page addresses too.
void* in_memory(std::size_t size) {
#if defined(__linux__)
  if (size >= kLarge) {
    void* aligned = std::aligned_alloc(kHugePage, rounded(size, kHugePage));
    if (aligned == nullptr) throw std::bad_alloc();
    madvise(aligned, rounded(size, kHugePage), MADV_HUGEPAGE);  // a hint: it may fail without harm
    return aligned;
  }
  if (size >= kManyLines) {
    void* aligned = std::aligned_alloc(kLine, rounded(size, kLine));
    if (aligned == nullptr) throw std::bad_alloc();
    return aligned;
  }
#endif
  void* memory = std::malloc(std::max<std::size_t>(size, 1));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// The files that arrays lie in.
class Scratch {
 public:
  Scratch() {
#if defined(__linux__)
    // A child of a fork must not find the lock held by a thread that it does not have.
    pthread_atfork([] { lock_for_fork(); }, [] { unlock_after_fork(); }, [] { unlock_after_fork(); });
#endif
  }

  void use(const std::string& folder) {
    const std::lock_guard<std::mutex> lock(mutex_);
    folder_ = folder;
    is_used_ = !folder.empty();
  }

  bool takes(std::size_t size) const { return size >= kScratchBytes && is_used_; }

  void* allocate(std::size_t size) {
#if defined(__linux__)
    const int file = unnamed_file();
    if (file < 0) fail(errno);
    const int refused = posix_fallocate(file, 0, static_cast<off_t>(size));
    void* memory = refused ? MAP_FAILED : mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    const int why = refused ? refused : errno;
    close(file);
    if (memory == MAP_FAILED) fail(why);
    const std::lock_guard<std::mutex> lock(mutex_);
    sizes_[memory] = size;
    ++n_files_;
    bytes_ += size;
    return memory;
#else
    return in_memory(size);
#endif
  }

  // How large an array is that lies in a file; 0 for others.
  std::size_t size_of(void* memory) const {
    if (n_files_ == 0) return 0;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = sizes_.find(memory);
    return found == sizes_.end() ? 0 : found->second;
  }

  void release(void* memory, std::size_t size) noexcept {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      sizes_.erase(memory);
      --n_files_;
      bytes_ -= size;
    }
#if defined(__linux__)
    munmap(memory, size);
#endif
  }

  int taken_error() { return error_.exchange(0); }

  std::size_t bytes() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return bytes_;
  }

 private:
#if defined(__linux__)
  int unnamed_file() {
    std::string name;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      name = folder_ + "/labelprism-XXXXXX";
    }
    const int file = mkostemp(name.data(), O_CLOEXEC);
    if (file >= 0) unlink(name.c_str());
    return file;
  }
#endif

  [[noreturn]] void fail(int why) {
    error_ = why;
    throw std::bad_alloc();
  }

  static void lock_for_fork();
  static void unlock_after_fork();

  mutable std::mutex mutex_;
  std::string folder_;
  std::atomic<bool> is_used_{false};
  std::atomic<int> error_{0};
  std::atomic<std::size_t> n_files_{0};
  std::unordered_map<void*, std::size_t> sizes_;
  std::size_t bytes_ = 0;
};

// Made when the library is loaded, not when it is first used: a process that forks just then would never see it made.
// Never destroyed: arrays may outlive all else.
Scratch& the_scratch = *new Scratch;
Scratch& scratch() { return the_scratch; }

void Scratch::lock_for_fork() { the_scratch.mutex_.lock(); }
void Scratch::unlock_after_fork() { the_scratch.mutex_.unlock(); }

}  // namespace

void use_scratch(const std::string& folder) {
#if !defined(__linux__)
  if (!folder.empty()) throw std::runtime_error("arrays can lie in files on Linux only");
#endif
  scratch().use(folder);
}

bool uses_scratch(std::size_t size) { return scratch().takes(size); }

void* large_allocate(std::size_t size) {
  if (size > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / 2) throw std::bad_alloc();
  return scratch().takes(size) ? scratch().allocate(size) : in_memory(size);
}

void* large_reallocate(void* memory, std::size_t size) {
  const std::size_t in_file = memory ? scratch().size_of(memory) : 0;
  if (!in_file && !scratch().takes(size)) {
    void* moved = std::realloc(memory, std::max<std::size_t>(size, 1));
    if (moved == nullptr) throw std::bad_alloc();
    return moved;
  }
  if (size <= in_file && size > in_file / 2) return memory;  // not worth another file
  if (!in_file && memory != nullptr) {
    // How large it was is not known; realloc knows, and there is room for it in memory as it has just been there.
    memory = std::realloc(memory, size);
    if (memory == nullptr) throw std::bad_alloc();
  }
  void* moved = large_allocate(size);
  if (memory != nullptr) std::memcpy(moved, memory, in_file ? std::min(in_file, size) : size);
  large_free(memory);
  return moved;
}

void large_free(void* memory) noexcept {
  const std::size_t in_file = memory ? scratch().size_of(memory) : 0;
  if (in_file) {
    scratch().release(memory, in_file);
  } else {
    std::free(memory);
  }
}

int taken_scratch_error() { return scratch().taken_error(); }
std::size_t scratch_bytes() { return scratch().bytes(); }

}  // namespace labelprism
