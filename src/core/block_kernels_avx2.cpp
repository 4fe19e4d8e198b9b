#define LABELPRISM_KERNELS avx2_kernels
#define LABELPRISM_NAME "avx2"
#include "block_kernels.inl"
