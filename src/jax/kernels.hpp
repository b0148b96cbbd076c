// SPDX-License-Identifier: BSD-3-Clause
// Kernels: a duplicate of a communicator, whose collectives are kernels in the streams that XLA passes.
// Threading: under the lock of the object, which a handler holds.
#pragma once
#include <mpi.h>
#include <weft.h>

#include <mutex>
#include <string>

namespace weft::jax {

/// Returns the message of the last failed MPI call of this thread.
std::string last_error();

class Kernels {
 public:
  Kernels() = default;
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  /// Makes on GPU number `device` what open() needs. Local. Returns what is wrong; empty: nothing.
  [[nodiscard]] std::string prepare(int device);
  /// Collective over `comm`, once prepare() has succeeded on all ranks. Returns MPI_SUCCESS, or the code of
  /// MPI; of the class MPI_ERR_UNSUPPORTED_OPERATION, on all ranks, if kernels cannot execute its
  /// collectives.
  [[nodiscard]] int open(MPI_Comm comm);
  /// Puts later collectives into `stream`, in order behind the earlier ones. Returns false if CUDA or MPI
  /// refuses.
  [[nodiscard]] bool enter(void* stream);
  /// Frees the communicator, and what prepare() has made. Collective if open() has succeeded.
  void close();

  [[nodiscard]] MPI_Comm comm() const { return comm_; }
  [[nodiscard]] std::mutex& mutex() { return mutex_; }

 private:
  std::mutex mutex_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPIX_Stream object_ = MPIX_STREAM_NULL;
  void* context_ = nullptr;  ///< of the GPU
  void* own_ = nullptr;      ///< the stream with which the communicator is made and freed
  void* target_ = nullptr;   ///< where the communicator puts collectives
  void* last_ = nullptr;     ///< the stream of the latest collective outside of captures
  void* event_ = nullptr;
};

}  // namespace weft::jax
