/* SPDX-License-Identifier: BSD-3-Clause */
/* weft.h: what Weft offers beyond the MPI standard. C and C++. */
#ifndef WEFT_H
#define WEFT_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 1 when this process can pass GPU memory to MPI calls: the CUDA driver is there and Weft has opened it. 0
   otherwise, also before MPI_Init. Known under this name to programs written for other MPI libraries. */
int MPIX_Query_cuda_support(void);

/* The message of the last error of an MPI call in this thread, "MPI_Send: dest = 7 (...): ...", cut to size -
   1 characters. *length, if not null, gets its whole length; 0 when there was no error. */
int MPIX_Last_error_message(char* message, int size, int* length);

/* All settings, a line each: variable, value, default, "environment" or "default", range, help, separated by
   tabs. Read from the environment as MPI_Init would; when that refuses one, MPI_ERR_ARG and its message
   instead. size and length as above. Before MPI_Init or at any time after it. */
int MPIX_Settings(char* text, int size, int* length);

/* The same under the names that profiling libraries call. */
int PMPIX_Query_cuda_support(void);
int PMPIX_Last_error_message(char* message, int size, int* length);
int PMPIX_Settings(char* text, int size, int* length);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_H */
