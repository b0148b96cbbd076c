// SPDX-License-Identifier: BSD-3-Clause
// Error classes of one-sided communication that Errc lacks (MPI 5.0 section 12.6).
#pragma once
#include <string>
#include <utility>

#include "base/result.hpp"

namespace weft::rma {

/// The values are those of MPI_ERR_* in the ABI.
enum class ErrorClass : int {
  assertion = 22,
  base = 24,
  disp = 26,
  lock_type = 37,
  attach = 46,
  range = 48,
  shared = 49,
  sync = 50,
  size = 52,
  flavor = 57
};

[[nodiscard]] inline Error error(ErrorClass code, std::string message) {
  return {Errc::window, std::move(message), static_cast<int>(code)};
}

/// An error of kernels with weft_device.cuh. error_class 0: none.
struct DeviceStatus {
  int error_class = 0;
  int rank = -1;  ///< that the failed call was about; -1: this one
  int notification = 0;
};
inline constexpr int kPending = 18;        ///< MPI_ERR_PENDING of the ABI: a wait of a kernel timed out
inline constexpr int kOther = 16;          ///< MPI_ERR_OTHER: an operation on another host has failed
inline constexpr int kProcFailed = 16001;  ///< MPIX_ERR_PROC_FAILED
inline constexpr int kProcAborted = 58;    ///< MPI_ERR_PROC_ABORTED of the ABI

}  // namespace weft::rma
