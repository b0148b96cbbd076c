// SPDX-License-Identifier: BSD-3-Clause
// Layout of MPI_Status. MPI_internal[0..1]: bytes received, 64 bits; [2]: cancelled.
#pragma once
#include <mpi.h>

#include <cstdint>
#include <cstring>

namespace weft::api {

inline uint64_t bytes_of(const MPI_Status& status) {
  uint64_t bytes;
  std::memcpy(&bytes, &status.MPI_internal[0], sizeof bytes);
  return bytes;
}
inline void set_bytes(MPI_Status& status, uint64_t bytes) {
  std::memcpy(&status.MPI_internal[0], &bytes, sizeof bytes);
}
inline bool cancelled(const MPI_Status& status) { return status.MPI_internal[2] != 0; }
inline void set_cancelled(MPI_Status& status, bool flag) { status.MPI_internal[2] = flag ? 1 : 0; }

}  // namespace weft::api
