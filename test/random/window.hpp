// SPDX-License-Identifier: BSD-3-Clause
// A window that lives for some steps, in which all ranks perform random epochs.
#pragma once
#include <memory>
#include <string>

#include "coll/random/team.hpp"
#include "rma/oracle/execute.hpp"

namespace mixed {

using randomized::Draw;

class Window {
 public:
  /// Collective on the team, whose communicator is duplicated.
  Window(const randomized::Team& team, Draw& draw);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  /// Runs one epoch and compares memory and results. `own`: of this rank; `where`: for messages.
  void epoch(Draw& draw, Draw& own, const std::string& where);

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int ranks_;
  oracle::Windows model_;
  oracle::Window::Hints hints_;
  std::unique_ptr<oracle::Window> window_;
};

}  // namespace mixed
