#define LABELPRISM_KERNELS avx512_kernels
#define LABELPRISM_NAME "avx512"
#include "block_kernels.inl"
