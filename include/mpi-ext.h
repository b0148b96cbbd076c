/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi-ext.h: lets programs query CUDA support, as in Open MPI. */
#ifndef WEFT_MPI_EXT_H
#define WEFT_MPI_EXT_H

#include <mpi.h>

#include "weft.h"

/* The library is built with CUDA support; MPIX_Query_cuda_support() tests whether it is available at run
 * time. */
#define MPIX_CUDA_AWARE_SUPPORT 1

#endif /* WEFT_MPI_EXT_H */
