// Memory for arrays that may be larger than what there is of it.
//
// Normally that is plain memory, with huge pages for large arrays. After `use_scratch` every array from `kScratchBytes`
// on lies in a file of its own instead, which has no name any more and vanishes with the array: the system writes its
// pages to the disk when memory is short, and reads them again when they are needed. Nothing else changes, so results
// have the same bits. A file is reserved on the disk when it is made, so that a full disk is an error here and not a
// fault in the middle of a kernel.
#pragma once

#include <cstddef>
#include <string>

namespace labelprism {

constexpr std::size_t kScratchBytes = std::size_t{1} << 20;

// From now on large arrays lie in files in a folder; an empty name: in memory again. For the whole process; arrays stay
// where they were made. Throws std::runtime_error where the system cannot do it.
void use_scratch(const std::string& folder);

// Whether an array of this size would lie in a file now.
bool uses_scratch(std::size_t size);

// Not set to zero. Throws std::bad_alloc if there is no room.
void* large_allocate(std::size_t size);
void* large_reallocate(void* memory, std::size_t size);  // as realloc
void large_free(void* memory) noexcept;

// The error of the system when the last file could not be made, or 0; and forgets it.
int taken_scratch_error();

// How many bytes lie in files now.
std::size_t scratch_bytes();

}  // namespace labelprism
