// SPDX-License-Identifier: BSD-3-Clause
// Symbols that only libmpi.so.12 has: data symbols, extensions.
#include "compat/cxx.hpp"
#include "compat/translate.hpp"

namespace weft::compat {

WEFT_COMPAT_DATA(int* const, MPI_UNWEIGHTED, unweighted)
WEFT_COMPAT_DATA(int* const, MPI_WEIGHTS_EMPTY, weights_empty)
WEFT_COMPAT_DATA(const MPI_T_pvar_handle, MPI_T_PVAR_ALL_HANDLES, MPI_T_PVAR_ALL_HANDLES)

/// MPI_DUP_FN and MPI_COMM_DUP_FN, MPI_TYPE_DUP_FN, MPI_WIN_DUP_FN of this interface.
extern "C" __attribute__((visibility("default"))) int weft_compat_dup_fn(Handle, int, void*, void* value,
                                                                         void* result,
                                                                         int* flag) __asm__("MPIR_Dup_fn");
int weft_compat_dup_fn(Handle /*object*/, int /*keyval*/, void* /*state*/, void* value, void* result,
                       int* flag) {
  return duplicate_attribute(value, result, flag);
}

/// MPICH's mpi_f08 reads the two addresses in variables that the MPI library fills: those of libmpichfort,
/// which comes before this library in the order of symbols.
WEFT_COMPAT_DATA(int*, MPIR_C_MPI_UNWEIGHTED, nullptr)
WEFT_COMPAT_DATA(int*, MPIR_C_MPI_WEIGHTS_EMPTY, nullptr)

void open_bindings() {
  weft_compat_data_MPIR_C_MPI_UNWEIGHTED = unweighted;
  weft_compat_data_MPIR_C_MPI_WEIGHTS_EMPTY = weights_empty;
}
bool creates_cxx_operation(void (* /*function*/)()) { return false; }
int create_cxx_operation(int /*commute*/, Handle* /*op*/) { return MPI_ERR_INTERN; }

// --- extensions ---
WEFT_COMPAT_NAMED(int, X_Query_hip_support, (void), "MPIX_Query_hip_support") { return 0; }
WEFT_COMPAT_NAMED(int, X_Query_ze_support, (void), "MPIX_Query_ze_support") { return 0; }
WEFT_COMPAT_NAMED(int, X_GPU_query_support, (int gpu, int* supported), "MPIX_GPU_query_support") {
  constexpr int kCuda = 0;
  *supported = gpu == kCuda ? extensions.Query_cuda_support() : 0;
  return MPI_SUCCESS;
}
/// Names of MPICH 4 for functions that MPI 4.1 has.
WEFT_COMPAT_NAMED(int, X_Delete_error_class, (int errorclass), "MPIX_Delete_error_class") {
  return out_error(native.Remove_error_class(in_error(errorclass)));
}
WEFT_COMPAT_NAMED(int, X_Delete_error_code, (int errorcode), "MPIX_Delete_error_code") {
  return out_error(native.Remove_error_code(in_error(errorcode)));
}
WEFT_COMPAT_NAMED(int, X_Delete_error_string, (int errorcode), "MPIX_Delete_error_string") {
  return out_error(native.Remove_error_string(in_error(errorcode)));
}

}  // namespace weft::compat
