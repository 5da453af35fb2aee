// The part of gemm.c that the device opens and closes.
#ifndef AV_GEMM_H
#define AV_GEMM_H

#include "device.h"

int av_gemm_open(av_cpu *d); // 0, or -1 without memory
void av_gemm_close(av_cpu *d);

#endif
