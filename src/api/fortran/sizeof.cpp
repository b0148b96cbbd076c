// SPDX-License-Identifier: BSD-3-Clause
// MPI_SIZEOF of module mpi: one procedure per type, any rank. The size is in the descriptor
// (ISO_Fortran_binding.h).
#include "api/fortran/convert.hpp"

namespace weft::fortran {

/// The first members of CFI_cdesc_t.
struct Descriptor {
  void* base;
  size_t element_bytes;
};

#define WEFT_FORTRAN_SIZEOF(type)                                                        \
  WEFT_FORTRAN_F90(void, sizeof_##type, (const Descriptor* x, int* size, int* ierror)) { \
    *size = static_cast<int>(x->element_bytes);                                          \
    set_error(ierror, MPI_SUCCESS);                                                      \
  }
WEFT_FORTRAN_SIZEOF(integer1)
WEFT_FORTRAN_SIZEOF(integer2)
WEFT_FORTRAN_SIZEOF(integer4)
WEFT_FORTRAN_SIZEOF(integer8)
WEFT_FORTRAN_SIZEOF(integer16)
WEFT_FORTRAN_SIZEOF(real4)
WEFT_FORTRAN_SIZEOF(real8)
WEFT_FORTRAN_SIZEOF(real10)
WEFT_FORTRAN_SIZEOF(real16)
WEFT_FORTRAN_SIZEOF(complex4)
WEFT_FORTRAN_SIZEOF(complex8)
WEFT_FORTRAN_SIZEOF(complex10)
WEFT_FORTRAN_SIZEOF(complex16)
WEFT_FORTRAN_SIZEOF(logical1)
WEFT_FORTRAN_SIZEOF(logical2)
WEFT_FORTRAN_SIZEOF(logical4)
WEFT_FORTRAN_SIZEOF(logical8)
WEFT_FORTRAN_SIZEOF(logical16)
WEFT_FORTRAN_SIZEOF(character1)
#undef WEFT_FORTRAN_SIZEOF

}  // namespace weft::fortran
