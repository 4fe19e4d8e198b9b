#include "block_kernels.hpp"

#include <atomic>
#include <stdexcept>

#include "processor.hpp"

namespace labelprism {
namespace {

std::vector<const BlockKernels*> available() {
  std::vector<const BlockKernels*> sets{&plain_kernels};
#ifdef LABELPRISM_X86
  if (has_avx2()) sets.push_back(&avx2_kernels);
  if (has_avx512()) sets.push_back(&avx512_kernels);
  if (has_avx512_vnni()) sets.push_back(&avx512_vnni_kernels);
#endif
  return sets;
}

std::atomic<const BlockKernels*> chosen{nullptr};

}  // namespace

const BlockKernels& block_kernels() {
  const BlockKernels* set = chosen.load(std::memory_order_relaxed);
  if (set == nullptr) {
    set = available().back();
    chosen.store(set);  // should two threads come here at once, both store the same
  }
  return *set;
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const BlockKernels* set : available()) names.emplace_back(set->name);
  return names;
}

void use_instruction_set(const std::string& name) {
  for (const BlockKernels* set : available()) {
    if (name == set->name) {
      chosen.store(set);
      return;
    }
  }
  throw std::invalid_argument("instruction set '" + name + "' is unknown or this processor does not have it");
}

}  // namespace labelprism
