// SPDX-License-Identifier: BSD-3-Clause
#include "progress.hpp"

#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace jacobi {
namespace {

constexpr double seconds_between = 0.1;
constexpr int width = 30;

int open_terminal() {
  const char* kind = std::getenv("TERM");
  if (!kind || std::strcmp(kind, "dumb") == 0) return -1;
  const char* name =
      std::getenv("MPIEXEC_TERMINAL");  // Weft's mpiexec gives its ranks no controlling terminal
  return open(name ? name : "/dev/tty", O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}

}  // namespace

Progress::Progress(std::string label, int total, bool wanted) : label_(std::move(label)), total_(total) {
  if (wanted) terminal_ = open_terminal();
  begun_ = latest_ = MPI_Wtime();
}

Progress::~Progress() {
  clear();
  if (terminal_ >= 0) close(terminal_);
}

void Progress::clear() {
  constexpr char erase[] = "\r\033[K";
  if (drawn_ && write(terminal_, erase, sizeof erase - 1) < 0) terminal_ = -1;
  drawn_ = false;
}

void Progress::draw(int done, double norm) {
  const double now = MPI_Wtime();
  if (now - latest_ < seconds_between) return;
  latest_ = now;
  const double part = static_cast<double>(done) / total_;
  const int full = static_cast<int>(part * width);
  char bar[width + 1], text[160];
  for (int i = 0; i < width; ++i) bar[i] = i < full ? '#' : '.';
  bar[width] = '\0';
  const double left = done > 0 ? (now - begun_) * (total_ - done) / done : 0;
  const int length = std::snprintf(text, sizeof text, "\r%.20s [%s] %3.0f %%, norm %.6f, %.0f s left\033[K",
                                   label_.c_str(), bar, 100 * part, norm, left);
  if (write(terminal_, text, static_cast<size_t>(length)) < 0) {
    close(std::exchange(terminal_, -1));
    return;
  }
  drawn_ = true;
}

}  // namespace jacobi
