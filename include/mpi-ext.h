/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi-ext.h: the header that programs include to ask whether MPI calls take GPU memory. */
#ifndef WEFT_MPI_EXT_H
#define WEFT_MPI_EXT_H

#include <mpi.h>

#include "weft.h"

/* The library was built with support for GPU memory; MPIX_Query_cuda_support() says whether it works here. */
#define MPIX_CUDA_AWARE_SUPPORT 1

#endif /* WEFT_MPI_EXT_H */
