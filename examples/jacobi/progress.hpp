// SPDX-License-Identifier: BSD-3-Clause
// A progress bar on the terminal that the job was started from; nothing where there is none.
#pragma once
#include <string>

namespace jacobi {

/// Launchers read what a rank prints through pipes, so the bar goes to the controlling terminal itself.
class Progress {
 public:
  /// `label`: what goes on; `total`: steps. Draws nothing if not `wanted`, or without a terminal.
  Progress(std::string label, int total, bool wanted);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` steps are over; draws some times a second. `norm`: the latest.
  void at(int done, double norm) {
    if (terminal_ >= 0) draw(done, norm);
  }
  /// Takes the bar away, before something else is printed.
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
