// SPDX-License-Identifier: BSD-3-Clause
// Binary interface of MPICH, Intel MPI and MVAPICH (libmpi.so.12): types, special addresses, layout of a
// status.
#pragma once
#include <mpi.h>

#include <cstdint>

#include "api/status_layout.hpp"
#include "compat/mpich_values.hpp"

namespace weft::compat {

inline constexpr const char* kInterface = "MPICH";

using Handle = int;
using FileHandle = void*;

struct ForeignStatus {
  int count_low;                 ///< bits 0 to 31 of the number of bytes
  int count_high_and_cancelled;  ///< bit 0: cancelled; bits 1 to 31: the next bits of the number of bytes
  int MPI_SOURCE, MPI_TAG, MPI_ERROR;
};
static_assert(sizeof(ForeignStatus) == 20);

inline ForeignStatus* const kStatusIgnore = reinterpret_cast<ForeignStatus*>(1);
inline void* const kInPlace = reinterpret_cast<void*>(-1);
inline void* const kBufferAutomatic = reinterpret_cast<void*>(-2);
constexpr MPI_Offset kDisplacementCurrent = -54278278;

/// Values of the variables MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY, of which programs may have copies.
inline int* const unweighted = reinterpret_cast<int*>(2);
inline int* const weights_empty = reinterpret_cast<int*>(3);

/// MPI_T_PVAR_ALL_HANDLES is a variable of the library.
inline MPI_T_pvar_handle in_pvar(MPI_T_pvar_handle handle) { return handle; }

inline uint64_t foreign_bytes(const ForeignStatus& status) {
  return static_cast<uint32_t>(status.count_low) |
         static_cast<uint64_t>(static_cast<uint32_t>(status.count_high_and_cancelled) >> 1) << 32;
}
inline bool foreign_cancelled(const ForeignStatus& status) {
  return (status.count_high_and_cancelled & 1) != 0;
}
inline void set_foreign(ForeignStatus& status, uint64_t bytes, bool cancelled) {
  status.count_low = static_cast<int>(bytes);
  status.count_high_and_cancelled =
      static_cast<int>(static_cast<uint32_t>(bytes >> 32) << 1 | (cancelled ? 1u : 0u));
}

}  // namespace weft::compat
