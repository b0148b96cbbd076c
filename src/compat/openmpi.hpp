// SPDX-License-Identifier: BSD-3-Clause
// Binary interface of Open MPI 4 and 5 (libmpi.so.40): types, special addresses, layout of a status.
#pragma once
#include <mpi.h>

#include <cstddef>
#include <cstdint>

#include "api/status_layout.hpp"
#include "compat/openmpi_values.hpp"

namespace weft::compat {

inline constexpr const char* kInterface = "Open MPI";

using Handle = void*;
using FileHandle = void*;

struct ForeignStatus {
  int MPI_SOURCE, MPI_TAG, MPI_ERROR;
  int cancelled;
  size_t bytes;
};
static_assert(sizeof(ForeignStatus) == 24);

inline ForeignStatus* const kStatusIgnore = nullptr;
inline void* const kInPlace = reinterpret_cast<void*>(1);
/// Open MPI 5.0 does not have MPI_BUFFER_AUTOMATIC: its programs pass the addresses of buffers only.
inline void* const kBufferAutomatic = MPI_BUFFER_AUTOMATIC;
constexpr MPI_Offset kDisplacementCurrent = -54278278;

/// MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY.
inline int* const unweighted = reinterpret_cast<int*>(2);
inline int* const weights_empty = reinterpret_cast<int*>(3);

inline MPI_T_pvar_handle in_pvar(MPI_T_pvar_handle handle) {
  return reinterpret_cast<intptr_t>(handle) == -1 ? MPI_T_PVAR_ALL_HANDLES : handle;
}

inline uint64_t foreign_bytes(const ForeignStatus& status) { return status.bytes; }
inline bool foreign_cancelled(const ForeignStatus& status) { return status.cancelled != 0; }
inline void set_foreign(ForeignStatus& status, uint64_t bytes, bool cancelled) {
  status.bytes = bytes;
  status.cancelled = cancelled ? 1 : 0;
}

}  // namespace weft::compat
