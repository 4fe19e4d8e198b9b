// An array that grows by realloc: the system moves pages of large arrays instead of copying them, and the finished
// array is handed to NumPy as it is, so what was read is never held twice. See also large_memory.hpp.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "large_memory.hpp"

namespace labelprism {

template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>, "Buffer moves its elements as bytes");

 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { large_free(data_); }

  void push(T value) {
    if (size_ == capacity_) reallocate(size_ < 1024 ? 1024 : size_ + size_ / 2);
    data_[size_++] = value;
  }
  void append(const T* values, std::size_t count) {
    if (size_ + count > capacity_) reallocate(size_ + count + size_ / 2);
    for (std::size_t i = 0; i < count; ++i) data_[size_ + i] = values[i];
    size_ += count;
  }
  void truncate(std::size_t size) { size_ = size; }
  // Makes room for just so many elements; those that are new are not set.
  void resize(std::size_t size) {
    if (size > capacity_) reallocate(size);
    size_ = size;
  }
  void clear() {
    large_free(data_);
    data_ = nullptr;
    size_ = capacity_ = 0;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data_[i]; }

  // Gives the array away, cut to its size; the receiver frees it with large_free.
  std::pair<T*, std::size_t> release() {
    reallocate(size_ ? size_ : 1);
    const std::pair<T*, std::size_t> result{data_, size_};
    data_ = nullptr;
    size_ = capacity_ = 0;
    return result;
  }

 private:
  void reallocate(std::size_t capacity) {
    data_ = static_cast<T*>(large_reallocate(data_, capacity * sizeof(T)));
    capacity_ = capacity;
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace labelprism
