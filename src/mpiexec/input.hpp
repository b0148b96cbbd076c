// SPDX-License-Identifier: BSD-3-Clause
// Input: forwards terminal input to a rank (0, or of --stdin) through a pipe, because the rank is not in the
// terminal's foreground process group. Any other standard input is inherited by the rank directly.
#pragma once
#include <string>

#include "mpiexec/plan.hpp"

namespace weft::mpiexec {

class TerminalInput {
 public:
  TerminalInput() = default;
  ~TerminalInput();
  TerminalInput(const TerminalInput&) = delete;
  TerminalInput& operator=(const TerminalInput&) = delete;

  /// Creates a pipe to the rank if standard input is a terminal; inactive otherwise. Call once.
  [[nodiscard]] Status open();
  [[nodiscard]] bool active() const { return writer_ >= 0; }
  /// Stores both ends of the pipe in the rank's channels. The supervisor and start_supervisor() close the
  /// ends that their process does not use.
  void connect(Channels& rank) const;
  /// Returns true if the terminal is to be polled: mpiexec is in the foreground and no input is pending.
  [[nodiscard]] bool wants_input() const;
  /// Reads from the terminal; call when it is readable.
  void read();
  /// Returns the descriptor to poll for POLLOUT while input is pending, else -1.
  [[nodiscard]] int blocked_fd() const { return pending_.empty() ? -1 : writer_; }
  void write();

 private:
  void stop();
  int reader_ = -1, writer_ = -1;
  bool ended_ = false;  // end of file was read from the terminal
  std::string pending_;
};

}  // namespace weft::mpiexec
