// SPDX-License-Identifier: BSD-3-Clause
// A window of random flavor, info and displacement units, and this rank's memory in it.
#pragma once
#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "reference/draw.hpp"
#include "rma/oracle/memory.hpp"

namespace oracle {

class Window {
 public:
  struct Hints {
    bool no_locks, unordered, same_op;
    bool no_op;  ///< with same_op: the default, MPI_NO_OP beside one other operation
  };
  /// Collective. `bytes`: of each rank.
  Window(MPI_Comm comm, randomized::Draw& draw, const std::vector<size_t>& bytes, const Hints& hints);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  [[nodiscard]] MPI_Win handle() const { return win_; }
  [[nodiscard]] const char* flavor() const;
  /// Returns the argument of MPI calls for a byte of a rank's memory.
  [[nodiscard]] MPI_Aint displacement(int rank, size_t at) const;
  /// Access to this rank's memory, in a lock of its own window unless the window has no locks.
  void write(const std::vector<char>& bytes);
  std::vector<char> read();

 private:
  void create(MPI_Info info);
  void create_dynamic(MPI_Info info);

  MPI_Comm comm_;
  int rank_ = 0;
  bool locks_;
  int flavor_;
  MPI_Win win_ = MPI_WIN_NULL;
  size_t bytes_;
  std::vector<int> units_;
  std::vector<MPI_Aint> bases_;  ///< dynamic windows: addresses
  std::unique_ptr<Memory> own_;
  char* allocated_ = nullptr;
};

}  // namespace oracle
