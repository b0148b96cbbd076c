// SPDX-License-Identifier: BSD-3-Clause
// Symbols that only libmpi.so.40 has: predefined objects, functions for attributes, extensions.
#include "compat/translate.hpp"

namespace weft::compat {

// Initialised by the linker: a copy of an object in a program is made before any code runs.
#define WEFT_COMPAT_DEFINE(name, bytes, value) \
  constinit PredefinedObject<bytes> name{kPredefinedMark, (value) == 0 ? kInvalidNative : (value), {}};
WEFT_COMPAT_OBJECTS(WEFT_COMPAT_DEFINE)
#define WEFT_COMPAT_DEFINE_ADDRESS(name) WEFT_COMPAT_DATA(void*, name##_addr, &(name))
WEFT_COMPAT_ADDRESSES(WEFT_COMPAT_DEFINE_ADDRESS)
WEFT_COMPAT_DATA(void*, ompi_mpi_status_ignore_addr, kStatusIgnore)
WEFT_COMPAT_DATA(void*, ompi_mpi_statuses_ignore_addr, kStatusIgnore)

constinit const ForeignTable foreign_table;

/// MPI_COMM_DUP_FN, MPI_COMM_NULL_COPY_FN and MPI_COMM_NULL_DELETE_FN of this interface, and of other kinds.
#define WEFT_COMPAT_ATTRIBUTE(prefix)                                                                       \
  extern "C" __attribute__((visibility("default"))) int OMPI_C_MPI_##prefix##DUP_FN(                        \
      Handle, int, void*, void* value, void* result, int* flag) {                                           \
    return duplicate_attribute(value, result, flag);                                                        \
  }                                                                                                         \
  extern "C" __attribute__((visibility("default"))) int OMPI_C_MPI_##prefix##NULL_COPY_FN(                  \
      Handle, int, void*, void*, void*, int* flag) {                                                        \
    *flag = 0;                                                                                              \
    return MPI_SUCCESS;                                                                                     \
  }                                                                                                         \
  extern "C" __attribute__((visibility("default"))) int OMPI_C_MPI_##prefix##NULL_DELETE_FN(Handle, int,    \
                                                                                            void*, void*) { \
    return MPI_SUCCESS;                                                                                     \
  }
WEFT_COMPAT_ATTRIBUTE()
WEFT_COMPAT_ATTRIBUTE(COMM_)
WEFT_COMPAT_ATTRIBUTE(TYPE_)
WEFT_COMPAT_ATTRIBUTE(WIN_)

/// Start of MPI inside of Open MPI. Programs that open the library with dlopen, such as NEURON, look for it
/// to tell whose library it is.
extern "C" __attribute__((visibility("default"))) int ompi_mpi_init(int /*argc*/, char** /*argv*/,
                                                                    int required, int* provided,
                                                                    bool /*again*/) {
  const int code = native.Init_thread(nullptr, nullptr, in_thread_level(required), provided);
  if (code == MPI_SUCCESS) *provided = out_thread_level(*provided);
  return out_error(code);
}

// --- extensions ---
WEFT_COMPAT_NAMED(int, X_Query_rocm_support, (void), "MPIX_Query_rocm_support") { return 0; }

}  // namespace weft::compat
