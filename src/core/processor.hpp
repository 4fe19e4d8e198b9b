// What the processor at hand can do, and the system lets programs use.
#pragma once

namespace labelprism {

// False on every processor that is no x86-64.
bool has_avx2();
bool has_avx512();       // with the byte, word, double-word and short-vector instructions that our kernels need
bool has_avx512_vnni();  // and with products of bytes that are added up in whole numbers of 32 bits

}  // namespace labelprism
