// SPDX-License-Identifier: BSD-3-Clause
// The functions of libmpi_abi.so.1, opened beside this library, and the macro that defines a translated
// function.
#pragma once
#include <mpi.h>
#include <weft.h>

#include "api/inner_entry.hpp"
#include "compat/native_functions.hpp"

namespace weft::compat {

/// Filled when the library is loaded, before any other code of the program runs. Constant afterwards. Hidden:
/// a member is one load, not two.
extern Native native __attribute__((visibility("hidden")));
/// Functions of libmpi_abi.so.1 that are not in the standard, for X(name).
#define WEFT_COMPAT_EXTENSIONS(X) \
  X(Query_cuda_support)           \
  X(Comm_revoke)                  \
  X(Comm_is_revoked)              \
  X(Comm_get_failed)              \
  X(Comm_ack_failed)              \
  X(Comm_failure_ack)             \
  X(Comm_failure_get_acked)       \
  X(Comm_agree)                   \
  X(Comm_iagree)                  \
  X(Comm_shrink)
struct Extensions {
#define WEFT_COMPAT_MEMBER(name) decltype(&::MPIX_##name) name;
  WEFT_COMPAT_EXTENSIONS(WEFT_COMPAT_MEMBER)
#undef WEFT_COMPAT_MEMBER
};
extern Extensions extensions;

}  // namespace weft::compat

/// Defines PMPI_NAME and its weak alias MPI_NAME. The symbols are assembler names: mpi.h declares functions
/// of these names with other types.
#define WEFT_COMPAT(result, name, parameters) WEFT_COMPAT_NAMED(result, name, parameters, "MPI_" #name)
#define WEFT_COMPAT_NAMED(result, name, parameters, symbol)                   \
  extern "C" __attribute__((visibility("default")))                           \
  WEFT_INNER_ENTRY result weft_compat_P##name parameters __asm__("P" symbol); \
  extern "C" __attribute__((visibility("default"), weak, alias("P" symbol)))  \
  result weft_compat_##name parameters __asm__(symbol);                       \
  extern "C" result weft_compat_P##name parameters

/// Defines a data symbol. The symbol is an assembler name: mpi.h defines macros of these names.
#define WEFT_COMPAT_DATA(type, name, value)                                                      \
  extern "C" __attribute__((visibility("default"))) type weft_compat_data_##name __asm__(#name); \
  type weft_compat_data_##name = value;
