#define LABELPRISM_KERNELS plain_kernels
#define LABELPRISM_NAME "plain"
#include "block_kernels.inl"
