// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/input.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "mpiexec/report.hpp"

namespace weft::mpiexec {

Status TerminalInput::open() {
  int ends[2];
  if (::isatty(STDIN_FILENO) == 0) return {};
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_call_error("open a pipe for the input of a rank", errno);
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  reader_ = ends[0];
  writer_ = ends[1];
  return {};
}

void TerminalInput::connect(Channels& rank) const {
  if (!active()) return;
  rank.input = writer_;
  rank.child_input = reader_;
}

TerminalInput::~TerminalInput() { stop(); }

bool TerminalInput::wants_input() const {
  // A read in the background raises SIGTTIN; the input belongs to the foreground process group.
  return active() && !ended_ && pending_.empty() && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
}

void TerminalInput::read() {
  char bytes[4096];
  const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof bytes);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n > 0)
    pending_.append(bytes, static_cast<size_t>(n));
  else
    ended_ = true;
  write();
}

void TerminalInput::write() {
  if (!active()) return;
  const ssize_t n = pending_.empty() ? 0 : ::write(writer_, pending_.data(), pending_.size());
  if (n > 0) pending_.erase(0, static_cast<size_t>(n));
  const bool refused = n < 0 && errno != EAGAIN && errno != EINTR;  // the rank has closed its input
  if (refused || (ended_ && pending_.empty())) stop();
}

void TerminalInput::stop() {
  if (writer_ >= 0) ::close(writer_);
  writer_ = -1;
  pending_.clear();
}

}  // namespace weft::mpiexec
