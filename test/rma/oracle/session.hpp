// SPDX-License-Identifier: BSD-3-Clause
// A window with its model, in which all ranks perform random epochs.
#pragma once
#include <string>

#include "rma/oracle/execute.hpp"

namespace oracle {

class Session {
 public:
  /// Collective on the communicator, which must outlive the session. All ranks draw the same.
  Session(MPI_Comm comm, Draw& draw);
  /// Runs one epoch and compares memory and results. `own`: of this rank; `where`: for messages. Returns the
  /// number of operations of this rank.
  long epoch(Draw& draw, Draw& own, int threads, const std::string& where);

 private:
  MPI_Comm comm_;
  int ranks_;
  Windows model_;
  Window::Hints hints_;
  Window window_;
};

}  // namespace oracle
