// SPDX-License-Identifier: BSD-3-Clause
// Symbols of the modules of Open MPI 4 beside the routines, as gfortran names them: operators of handles and
// MPI_SIZEOF for each type and rank.
#ifdef WEFT_FORTRAN_OPENMPI
#include "fortran/convert.hpp"

#define WEFT_MODULE(result, module, name, parameters)               \
  extern "C" __attribute__((visibility("default")))                 \
  result weft_##name parameters __asm__("__" module "_MOD_" #name); \
  extern "C" result weft_##name parameters

// Handles are structures of one INTEGER.
#define WEFT_OPERATORS(kind)                                                             \
  WEFT_MODULE(int, "mpi_f08_types", ompi_##kind##_op_eq, (const int* a, const int* b)) { \
    return *a == *b ? 1 : 0;                                                             \
  }                                                                                      \
  WEFT_MODULE(int, "mpi_f08_types", ompi_##kind##_op_ne, (const int* a, const int* b)) { \
    return *a != *b ? 1 : 0;                                                             \
  }
WEFT_OPERATORS(comm)
WEFT_OPERATORS(datatype)
WEFT_OPERATORS(errhandler)
WEFT_OPERATORS(file)
WEFT_OPERATORS(group)
WEFT_OPERATORS(info)
WEFT_OPERATORS(message)
WEFT_OPERATORS(op)
WEFT_OPERATORS(request)
WEFT_OPERATORS(win)
#undef WEFT_OPERATORS

#define WEFT_SIZEOF(type, rank, bytes)                                                    \
  WEFT_FORTRAN_F90(void, sizeof_##type##_##rank, (const void*, int* size, int* ierror)) { \
    *size = bytes;                                                                        \
    set_error(ierror, MPI_SUCCESS);                                                       \
  }
#define WEFT_SIZEOF_RANKS(type, bytes) \
  WEFT_SIZEOF(type, scalar, bytes)     \
  WEFT_SIZEOF(type, r1, bytes)         \
  WEFT_SIZEOF(type, r2, bytes)         \
  WEFT_SIZEOF(type, r3, bytes)         \
  WEFT_SIZEOF(type, r4, bytes)         \
  WEFT_SIZEOF(type, r5, bytes)         \
  WEFT_SIZEOF(type, r6, bytes)         \
  WEFT_SIZEOF(type, r7, bytes)         \
  WEFT_SIZEOF(type, r8, bytes)         \
  WEFT_SIZEOF(type, r9, bytes)         \
  WEFT_SIZEOF(type, r10, bytes)        \
  WEFT_SIZEOF(type, r11, bytes)        \
  WEFT_SIZEOF(type, r12, bytes)        \
  WEFT_SIZEOF(type, r13, bytes)        \
  WEFT_SIZEOF(type, r14, bytes)        \
  WEFT_SIZEOF(type, r15, bytes)
namespace weft::fortran {
WEFT_SIZEOF_RANKS(character, 1)
WEFT_SIZEOF_RANKS(complex32, 8)
WEFT_SIZEOF_RANKS(complex64, 16)
WEFT_SIZEOF_RANKS(complex128, 32)
WEFT_SIZEOF_RANKS(int8, 1)
WEFT_SIZEOF_RANKS(int16, 2)
WEFT_SIZEOF_RANKS(int32, 4)
WEFT_SIZEOF_RANKS(int64, 8)
WEFT_SIZEOF_RANKS(logical, 4)
WEFT_SIZEOF_RANKS(real32, 4)
WEFT_SIZEOF_RANKS(real64, 8)
WEFT_SIZEOF_RANKS(real128, 16)
}  // namespace weft::fortran
#endif
