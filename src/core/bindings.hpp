// What the bindings share: arrays as Python gives them, and the checks that every kernel relies on.
//
// Every function checks the arrays it is given (a forged model or file must not read outside its arrays), then releases
// the GIL. Inputs may be read-only.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "buffer.hpp"
#include "csr.hpp"
#include "growing_csr.hpp"
#include "large_memory.hpp"
#include "stored.hpp"
#include "text_hash.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace labelprism {

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using NewArray = nb::ndarray<nb::numpy, T, nb::c_contig>;

// An argument that must be an array of just the right kind: a silent conversion could wrap numbers that are too large.
inline auto array(const char* name) { return nb::arg(name).noconvert(); }

inline void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

// Whether all numbers lie between two bounds, and none is NaN.
template <class T>
bool all_within(const Vector<T>& values, T lowest, T largest) {
  bool within = true;
  for (std::size_t t = 0; t < values.size(); ++t) within &= values.data()[t] >= lowest && values.data()[t] <= largest;
  return within;
}

template <class T>
bool all_finite(const Vector<T>& values) {
  return all_within(values, std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max());
}

// Whether all of some whole numbers are from 0 to bound - 1. A number has its highest bit set if it is negative, and
// bound - 1 - number if it is too large: without jumps, and for four numbers at once.
inline bool all_below(const std::int32_t* numbers, std::size_t count, std::int64_t bound) {
  const auto last = static_cast<std::uint32_t>(bound - 1);
  std::uint32_t bits = 0;
  for (std::size_t t = 0; t < count; ++t) {
    const auto number = static_cast<std::uint32_t>(numbers[t]);
    bits |= number | (last - number);
  }
  return bits >> 31 == 0;
}

// The memory of an array, writable if T is: a fifth of the time that `Vector` takes, for calls of microseconds.
template <class T>
class BufferOf {
 public:
  explicit BufferOf(nb::handle array) {
    const int flags = PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | (std::is_const_v<T> ? 0 : PyBUF_WRITABLE);
    if (PyObject_GetBuffer(array.ptr(), &view_, flags) != 0) throw nb::python_error();
    const char* const codes = std::is_integral_v<T> ? "il" : "f";  // "l" is what Windows calls 32 bits
    if (view_.itemsize == sizeof(T) && view_.format && view_.format[0] && !view_.format[1] &&
        std::strchr(codes, view_.format[0]) != nullptr) {
      return;
    }
    PyBuffer_Release(&view_);
    throw std::invalid_argument("an array is of the wrong type");
  }
  BufferOf(const BufferOf&) = delete;
  BufferOf& operator=(const BufferOf&) = delete;
  ~BufferOf() { PyBuffer_Release(&view_); }

  T* data() const { return static_cast<T*>(view_.buf); }
  std::size_t size() const { return static_cast<std::size_t>(view_.len) / sizeof(T); }

 private:
  Py_buffer view_;
};

// A new uninitialised array; `data` points into it.
template <class T>
NewArray<T> new_array(std::initializer_list<std::size_t> shape, T** data) {
  std::size_t size = 1;
  for (const std::size_t extent : shape) {
    if (extent != 0 && size > PTRDIFF_MAX / sizeof(T) / extent) throw std::bad_alloc();
    size *= extent;
  }
  *data = static_cast<T*>(large_allocate(size * sizeof(T)));
  nb::capsule owner(*data, [](void* p) noexcept { large_free(p); });
  return NewArray<T>(*data, shape, owner);
}

// A buffer's array, without a copy.
template <class T>
NewArray<T> take(Buffer<T>& buffer) {
  const auto [data, size] = buffer.release();
  nb::capsule owner(data, [](void* p) noexcept { large_free(p); });
  return NewArray<T>(data, {size}, owner);
}

inline std::tuple<NewArray<std::int64_t>, NewArray<std::int32_t>, NewArray<float>> take(GrowingCsr& matrix) {
  return {take(matrix.indptr), take(matrix.indices), take(matrix.data)};
}

// A stored array as NumPy sees it, without a copy: rows of `width` numbers, or numbers if there is no width. `owner`
// keeps the array.
template <class T, class U>
nb::ndarray<nb::numpy, const T, nb::c_contig> view_of(const Stored<U>& stored, nb::handle owner) {
  static const T nothing{};  // an empty array may have no address
  const auto* data = stored.size() ? reinterpret_cast<const T*>(stored.data()) : &nothing;
  constexpr std::size_t width = sizeof(U) / sizeof(T);
  if constexpr (width == 1) {
    return {data, {stored.size()}, owner};
  } else {
    return {data, {stored.size(), width}, owner};
  }
}

// The other way round: the array must outlive what is returned.
template <class U, class T>
Stored<U> stored(const Vector<T>& array) {
  static_assert(sizeof(U) == sizeof(T));
  return {reinterpret_cast<const U*>(array.data()), array.size()};
}

template <class U, class T>
Stored<U> stored(const Matrix<T>& array) {
  require(array.shape(1) * sizeof(T) == sizeof(U), "a table has rows of the wrong width");
  return {reinterpret_cast<const U*>(array.data()), array.shape(0)};
}

// Checks all that kernels rely on; costs one pass over the indices, which a kernel reads anyway.
inline CsrView checked_csr(const Vector<std::int64_t>& indptr, const Vector<std::int32_t>& indices, const float* data,
                           std::size_t data_size, std::int64_t n_columns) {
  require(0 <= n_columns && n_columns <= INT32_MAX, "there must be 0 to 2147483647 columns");
  require(indptr.size() > 0 && indptr.data()[0] == 0, "indptr must begin with 0");
  const std::int64_t n_rows = static_cast<std::int64_t>(indptr.size()) - 1;
  const std::int64_t* pointers = indptr.data();
  bool ascending = true;
  for (std::int64_t r = 0; r < n_rows; ++r) ascending &= pointers[r] <= pointers[r + 1];
  require(ascending, "indptr must not descend");
  require(pointers[n_rows] == static_cast<std::int64_t>(indices.size()), "indptr must end with the number of indices");
  require(data == nullptr || data_size == indices.size(), "data and indices must be of the same length");
  const std::int32_t* columns = indices.data();
  require(all_below(columns, indices.size(), n_columns), "an index is out of range");
  return {n_rows, n_columns, pointers, columns, data};
}

inline CsrView checked_csr(const Vector<std::int64_t>& indptr, const Vector<std::int32_t>& indices,
                           const Vector<float>& data, std::int64_t n_columns) {
  // An empty array may have a null pointer, which would stand for "all ones".
  static const float nothing = 0;
  return checked_csr(indptr, indices, data.size() ? data.data() : &nothing, data.size(), n_columns);
}

inline void require_sorted(const CsrView& matrix) {
  bool sorted = true;
  for (std::int64_t row = 0; row < matrix.n_rows; ++row) {
    for (std::int64_t t = matrix.indptr[row] + 1; t < matrix.indptr[row + 1]; ++t) {
      sorted &= matrix.indices[t - 1] < matrix.indices[t];
    }
  }
  require(sorted, "the columns of every row must ascend");
}

inline CsrView checked_labels(const Vector<std::int64_t>& indptr, const Vector<std::int32_t>& indices,
                              std::int64_t n_columns) {
  return checked_csr(indptr, indices, nullptr, 0, n_columns);
}

// A positive weight for each of n_rows; null if the array is empty, which stands for ones.
inline const float* checked_weights(const Vector<float>& weights, std::int64_t n_rows) {
  if (weights.size() == 0) return nullptr;
  require(static_cast<std::int64_t>(weights.size()) == n_rows, "there must be a weight for every row, or none at all");
  require(all_within(weights, std::numeric_limits<float>::min(), std::numeric_limits<float>::max()),
          "the weights of rows must be above 0 and finite");
  return weights.data();
}

inline DenseView checked_dense(const Matrix<float>& X) {
  return {static_cast<std::int64_t>(X.shape(0)), static_cast<std::int64_t>(X.shape(1)), X.data()};
}

// Texts of Python as one run of UTF-8.
class JoinedTexts {
 public:
  // `is_valid` is false afterwards if a text is no valid Unicode.
  explicit JoinedTexts(const nb::list& texts) {
    offsets_.reserve(texts.size() + 1);
    offsets_.push_back(0);
    for (const nb::handle text : texts) {
      Py_ssize_t size = 0;
      require(PyUnicode_Check(text.ptr()), "texts must be a list of str");
      const char* const first = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
      if (!first) {
        PyErr_Clear();
        is_valid = false;
        return;
      }
      utf8_.append(first, static_cast<std::size_t>(size));
      offsets_.push_back(static_cast<std::int64_t>(utf8_.size()));
    }
  }

  // Lives as long as this does.
  Texts view() const { return {utf8_.data(), offsets_.data(), static_cast<std::int64_t>(offsets_.size()) - 1}; }

  bool is_valid = true;

 private:
  std::string utf8_;
  std::vector<std::int64_t> offsets_;
};

void bind_descend(nb::module_& m);
void bind_heads(nb::module_& m);
void bind_large_memory(nb::module_& m);
void bind_head_scores(nb::module_& m);
void bind_rows(nb::module_& m);
void bind_products(nb::module_& m);
void bind_spread(nb::module_& m);
void bind_text(nb::module_& m);
void bind_tree(nb::module_& m);
void bind_one_vs_rest(nb::module_& m);
void bind_forest(nb::module_& m);
void bind_growth(nb::module_& m);
void bind_predictor(nb::module_& m);
void bind_centroids(nb::module_& m);
void bind_clusters(nb::module_& m);
void bind_near_examples(nb::module_& m);
void bind_label_space(nb::module_& m);
void bind_blend(nb::module_& m);

}  // namespace labelprism
