// Compilers have __builtin_cpu_supports, but on Windows it needs a library of Clang's that nothing links by itself. So
// the processor is asked here, in the same way on all systems; nothing of the standard library is needed for it.
#include "processor.hpp"

#ifdef LABELPRISM_X86
#include <cpuid.h>
#endif

namespace labelprism {

#ifdef LABELPRISM_X86
namespace {

constexpr unsigned kOsxsave = 1u << 27, kAvx = 1u << 28;  // leaf 1, ecx
constexpr unsigned kAvx2 = 1u << 5, kAvx512f = 1u << 16, kAvx512dq = 1u << 17, kAvx512bw = 1u << 30,
                   kAvx512vl = 1u << 31;    // leaf 7, ebx
constexpr unsigned kAvx512vnni = 1u << 11;  // leaf 7, ecx
constexpr unsigned kAllOfAvx512 = kAvx2 | kAvx512f | kAvx512dq | kAvx512bw | kAvx512vl;
constexpr unsigned kSavesAvx = 0x6, kSavesAvx512 = kSavesAvx | 0xe0;  // of XCR0: registers that the system saves

bool has(unsigned wanted_features, unsigned wanted_registers, unsigned further_features = 0) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & (kOsxsave | kAvx)) != (kOsxsave | kAvx)) return false;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & wanted_features) != wanted_features) return false;
  if ((c & further_features) != further_features) return false;
  unsigned saved = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  return (saved & wanted_registers) == wanted_registers;
}

}  // namespace

bool has_avx2() { return has(kAvx2, kSavesAvx); }
bool has_avx512() { return has(kAllOfAvx512, kSavesAvx512); }
bool has_avx512_vnni() { return has(kAllOfAvx512, kSavesAvx512, kAvx512vnni); }
#else
bool has_avx2() { return false; }
bool has_avx512() { return false; }
bool has_avx512_vnni() { return false; }
#endif

}  // namespace labelprism
