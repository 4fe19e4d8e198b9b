// Arrays in files, those of NumPy too; see large_memory.hpp.
//
// NumPy lets a program bring its own memory for arrays (NEP 49). The handler and the place of its function in the
// table of its C interface are part of its binary interface since version 1.22; to write them down here spares us a
// build for every version of NumPy and of Python.
#include <cstdlib>

#include "bindings.hpp"

namespace labelprism {
namespace {

struct ArrayMemory {  // PyDataMem_Handler
  char name[127];
  std::uint8_t version;
  struct {
    void* context;
    void* (*malloc)(void*, std::size_t);
    void* (*calloc)(void*, std::size_t, std::size_t);
    void* (*realloc)(void*, void*, std::size_t);
    void (*free)(void*, void*, std::size_t);
  } functions;
};
constexpr int kSetHandler = 304;

void* allocate(void*, std::size_t size) noexcept {
  try {
    return large_allocate(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void* allocate_zeros(void*, std::size_t count, std::size_t size) noexcept {
  // Small arrays, and large ones in memory, are best left to calloc, which need not touch fresh pages.
  if (!uses_scratch(count * size)) return std::calloc(count, size);
  return allocate(nullptr, count * size);  // a fresh file holds zeros
}

void* reallocate(void*, void* memory, std::size_t size) noexcept {
  try {
    return large_reallocate(memory, size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void release(void*, void* memory, std::size_t) noexcept { large_free(memory); }

ArrayMemory kArrayMemory{"labelprism", 1, {nullptr, allocate, allocate_zeros, reallocate, release}};

void** numpy_interface() {
  const nb::object table = nb::module_::import_("numpy._core._multiarray_umath").attr("_ARRAY_API");
  auto** functions = static_cast<void**>(PyCapsule_GetPointer(table.ptr(), nullptr));
  if (functions == nullptr) throw nb::python_error();
  return functions;
}

nb::object set_handler(nb::handle handler) {
  const auto set = reinterpret_cast<PyObject* (*)(PyObject*)>(numpy_interface()[kSetHandler]);
  PyObject* before = set(handler.ptr());
  if (before == nullptr) throw nb::python_error();
  return nb::steal(before);
}

}  // namespace

void bind_large_memory(nb::module_& m) {
  m.def("use_scratch", &use_scratch, "folder"_a,
        "Let large arrays of the native code lie in files in a folder; an empty name: in memory again.");
  m.def(
      "use_array_memory", [] { return set_handler(nb::steal(PyCapsule_New(&kArrayMemory, "mem_handler", nullptr))); },
      "Let NumPy take memory for arrays from here, in this context; returns what it used before.");
  m.def(
      "restore_array_memory", [](nb::handle before) { set_handler(before); }, "before"_a,
      "Undo `use_array_memory`; arrays that were made stay what they are.");
  m.def("taken_scratch_error", &taken_scratch_error,
        "The number of the system's error when the last file could not be made, or 0; and forget it.");
  m.def("scratch_bytes", &scratch_bytes, "How many bytes of arrays lie in files.");
}

}  // namespace labelprism
