// SPDX-License-Identifier: BSD-3-Clause
// A progress bar on the terminal from which the job was started; no output without a terminal.
#pragma once
#include <string>

namespace jacobi {

/// Writes to the controlling terminal, since launchers forward the output of a rank through pipes.
class Progress {
 public:
  /// `label`: name of the work; `total`: steps. Draws nothing if not `wanted`, or without a terminal.
  Progress(std::string label, int total, bool wanted);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Reports `done` steps and the latest `norm`; redraws a few times per second.
  void at(int done, double norm) {
    if (terminal_ >= 0) draw(done, norm);
  }
  /// Erases the bar before other output.
  void clear();

 private:
  void draw(int done, double norm);

  std::string label_;
  int total_;
  int terminal_ = -1;
  bool drawn_ = false;
  double begun_ = 0, latest_ = 0;  // seconds
};

}  // namespace jacobi
