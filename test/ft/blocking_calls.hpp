// SPDX-License-Identifier: BSD-3-Clause
// The calls of blocking_calls.cpp, and what they are made on.
#pragma once
#include <mpi-ext.h>
#include <mpi.h>

#include <memory>
#include <vector>

#include "device/cuda_test_support.hpp"

namespace weft::test {

enum class Flavor { comm, file, create, alloc_mem, allocate, shared, dynamic };

/// A communicator of all ranks, and by flavor a window or file on it.
struct Scene {
  Scene(MPI_Comm base, Flavor flavor);
  void free();
  static constexpr int kBytes = 1 << 20;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Win win = MPI_WIN_NULL;
  MPI_File file = MPI_FILE_NULL;
  MPI_Aint disp = 0;  ///< of the last rank's window memory
  int rank = 0, size = 0, last = 0;
  char* send = nullptr;
  char* receive = nullptr;

 private:
  void make_window(Flavor flavor);
  std::unique_ptr<Buffer> memory_, send_, receive_;
  char* allocated_ = nullptr;
};

struct Case {
  const char* name;
  Flavor flavor;
  /// Returns the error of one call of rank 0.
  int (*call)(Scene& scene);
  /// Called by all ranks before. `last`: in the rank that revokes or is killed.
  void (*prepare)(Scene& scene, bool last) = nullptr;
  bool of_failures = true;  ///< also ends when the last rank is killed
};

[[nodiscard]] const std::vector<Case>& cases();
/// Calls again and again until one fails, for at most `limit` seconds.
[[nodiscard]] int until_error(const Case& of, Scene& scene, double limit);

}  // namespace weft::test
