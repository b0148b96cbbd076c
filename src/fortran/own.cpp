// SPDX-License-Identifier: BSD-3-Clause
// Routines that C lacks, or whose interfaces differ: attached buffers, statuses, MPI_SIZEOF, comparison of
// handles.
#include <cstring>

#include "fortran/convert.hpp"
#include "fortran/descriptor.hpp"

namespace weft::fortran {

// mpif.h and module mpi cannot return the address of the buffer (MPI 5.0 section 3.6).
WEFT_FORTRAN_F90(void, buffer_detach, (void*, int* size, int* ierror)) {
  void* address = nullptr;
  set_error(ierror, PMPI_Buffer_detach(static_cast<void*>(&address), size));
}
WEFT_FORTRAN_F90(void, comm_detach_buffer, (const int* comm, void*, int* size, int* ierror)) {
  void* address = nullptr;
  set_error(ierror, PMPI_Comm_detach_buffer(in<Comm>(*comm), static_cast<void*>(&address), size));
}
WEFT_FORTRAN_F90(void, session_detach_buffer, (const int* session, void*, int* size, int* ierror)) {
  void* address = nullptr;
  set_error(ierror, PMPI_Session_detach_buffer(in<Session>(*session), static_cast<void*>(&address), size));
}
#define WEFT_FORTRAN_DETACH(suffix, c_suffix, Count)                                                  \
  WEFT_FORTRAN_F08(void, buffer_detach##suffix, (void** address, Count* size, int* ierror)) {         \
    set_error(ierror, PMPI_Buffer_detach##c_suffix(static_cast<void*>(address), size));               \
  }                                                                                                   \
  WEFT_FORTRAN_F08(void, comm_detach_buffer##suffix,                                                  \
                   (const int* comm, void** address, Count* size, int* ierror)) {                     \
    set_error(ierror,                                                                                 \
              PMPI_Comm_detach_buffer##c_suffix(in<Comm>(*comm), static_cast<void*>(address), size)); \
  }                                                                                                   \
  WEFT_FORTRAN_F08(void, session_detach_buffer##suffix,                                               \
                   (const int* session, void** address, Count* size, int* ierror)) {                  \
    set_error(ierror, PMPI_Session_detach_buffer##c_suffix(in<Session>(*session),                     \
                                                           static_cast<void*>(address), size));       \
  }
WEFT_FORTRAN_DETACH(, , int)
WEFT_FORTRAN_DETACH(_c, _c, MPI_Count)
#undef WEFT_FORTRAN_DETACH

// The call itself keeps the compiler from reordering.
WEFT_FORTRAN_CHOICE(void, f_sync_reg, (void*)) {}
WEFT_FORTRAN_F90(void, f_sync_reg_f08ts, (const Descriptor*)) {}

// A status has one layout in C and in all interfaces of Fortran.
WEFT_FORTRAN(void, status_f2f08, (const int* from, int* to, int* ierror)) {
  std::memcpy(to, from, sizeof(MPI_Status));
  set_error(ierror, MPI_SUCCESS);
}
WEFT_FORTRAN(void, status_f082f, (const int* from, int* to, int* ierror)) {
  std::memcpy(to, from, sizeof(MPI_Status));
  set_error(ierror, MPI_SUCCESS);
}

#define WEFT_FORTRAN_SIZEOF(type)                                                        \
  WEFT_FORTRAN_F90(void, sizeof_##type, (const Descriptor* x, int* size, int* ierror)) { \
    *size = static_cast<int>(x->element_bytes);                                          \
    set_error(ierror, MPI_SUCCESS);                                                      \
  }
WEFT_FORTRAN_SIZEOF(f08ts)  // any type; module mpi has one procedure per type
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
WEFT_FORTRAN_SIZEOF(character1)
#undef WEFT_FORTRAN_SIZEOF
// Not bind(C) in the module: the descriptor is the compiler's own.
#define WEFT_FORTRAN_SIZEOF_LOGICAL(bytes)                                                     \
  WEFT_FORTRAN_F90(void, sizeof_logical##bytes, (const void* /*x*/, int* size, int* ierror)) { \
    *size = bytes;                                                                             \
    set_error(ierror, MPI_SUCCESS);                                                            \
  }
WEFT_FORTRAN_SIZEOF_LOGICAL(1)
WEFT_FORTRAN_SIZEOF_LOGICAL(2)
WEFT_FORTRAN_SIZEOF_LOGICAL(4)
WEFT_FORTRAN_SIZEOF_LOGICAL(8)
WEFT_FORTRAN_SIZEOF_LOGICAL(16)
#undef WEFT_FORTRAN_SIZEOF_LOGICAL

// Operators of handles: LOGICAL functions.
#define WEFT_FORTRAN_COMPARE(type)                                                                     \
  extern "C" __attribute__((visibility("default"))) int mpi_##type##_eq_(const int* a, const int* b) { \
    return *a == *b ? 1 : 0;                                                                           \
  }                                                                                                    \
  extern "C" __attribute__((visibility("default"))) int mpi_##type##_ne_(const int* a, const int* b) { \
    return *a != *b ? 1 : 0;                                                                           \
  }
WEFT_FORTRAN_COMPARE(comm)
WEFT_FORTRAN_COMPARE(datatype)
WEFT_FORTRAN_COMPARE(errhandler)
WEFT_FORTRAN_COMPARE(file)
WEFT_FORTRAN_COMPARE(group)
WEFT_FORTRAN_COMPARE(info)
WEFT_FORTRAN_COMPARE(message)
WEFT_FORTRAN_COMPARE(op)
WEFT_FORTRAN_COMPARE(request)
WEFT_FORTRAN_COMPARE(session)
WEFT_FORTRAN_COMPARE(win)
#undef WEFT_FORTRAN_COMPARE

}  // namespace weft::fortran
