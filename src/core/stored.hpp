// An array of a model: made here, or in memory that someone else keeps, such as a mapped file.
#pragma once

#include <cstddef>
#include <utility>

#include "large_vector.hpp"

namespace labelprism {

template <class T>
class Stored {
 public:
  Stored() = default;
  Stored(const T* data, std::size_t size) : data_(data), size_(size) {}
  explicit Stored(LargeVector<T>&& made) : own_(std::move(made)) {
    own_.shrink_to_fit();
    data_ = own_.data();
    size_ = own_.size();
  }
  Stored(Stored&&) = default;
  Stored& operator=(Stored&&) = default;

  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  const T& operator[](std::size_t i) const { return data_[i]; }

 private:
  LargeVector<T> own_;  // its elements stay where they are when it is moved
  const T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace labelprism
