// SPDX-License-Identifier: BSD-3-Clause
// Input: carries what is typed at a terminal to rank 0. Any other standard input is handed to rank 0 as it
// is; a terminal cannot be, as rank 0 is not in its foreground process group.
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

  /// Nothing to do unless standard input is a terminal: then rank 0 gets a pipe.
  [[nodiscard]] Status open();
  [[nodiscard]] bool active() const { return writer_ >= 0; }
  /// Puts the two ends of the pipe into rank 0's channels; the sentinel and start_sentinel() close theirs.
  void connect(Channels& rank0) const;
  /// True while the terminal should be watched: we are in the foreground and rank 0 keeps up.
  [[nodiscard]] bool wants_input() const;
  /// The terminal is readable.
  void read();
  /// Descriptor to watch for POLLOUT while there is unsent input, else -1.
  [[nodiscard]] int blocked_fd() const { return pending_.empty() ? -1 : writer_; }
  void write();

 private:
  void stop();
  int reader_ = -1, writer_ = -1;
  bool ended_ = false;  // end of file was typed
  std::string pending_;
};

}  // namespace weft::mpiexec
