#define LABELPRISM_KERNELS avx512_vnni_kernels
#define LABELPRISM_NAME "avx512_vnni"
#include "block_kernels.inl"
