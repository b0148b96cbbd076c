// SPDX-License-Identifier: BSD-3-Clause
#include "launch/slurm_step.hpp"

#include <charconv>
#include <climits>
#include <cstdio>
#include <fstream>
#include <string>

namespace weft::launch {

namespace {

/// Ids from here on are no steps of programs: batch script, interactive shell of salloc (slurm.h).
constexpr unsigned long kMaxStepOfProgram = 0xfffffff0;

bool is_step_of_program(const char* step) {
  const std::string_view text(step);
  unsigned long id = 0;
  return std::from_chars(text.data(), text.data() + text.size(), id).ec != std::errc() ||
         id < kMaxStepOfProgram;
}

struct Process {
  std::string name;
  int parent = 0, terminal = 0;
};

/// Reads /proc/PID/stat: "pid (name) state ppid pgrp session tty ...". Zeros if the process is not to be
/// seen.
Process read_process(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t begin = text.find('('), end = text.rfind(')');
  Process process;
  if (begin == text.npos || end == text.npos || end < begin) return process;
  process.name = text.substr(begin + 1, end - begin - 1);
  if (std::sscanf(text.c_str() + end + 1, " %*c %d %*d %*d %d", &process.parent, &process.terminal) != 2)
    return {};
  return process;
}

}  // namespace

bool in_slurm_shell(const Lookup& lookup, pid_t self) {
  const char* const step = lookup("SLURM_STEP_ID");
  if (step != nullptr && !is_step_of_program(step)) return true;
  // srun --pty: task 0 has the terminal.
  const char* const rank = lookup("SLURM_PROCID");
  const char* const task_text = lookup("SLURM_TASK_PID");
  if (lookup("SLURM_PTY_PORT") == nullptr || rank == nullptr || task_text == nullptr) return false;
  const auto task = parse_int(task_text, 1, INT_MAX);
  if (std::string_view(rank) != "0" || !task || *task == self) return false;
  // srun in such a shell passes the variable on to the tasks of a further step, which have no terminal.
  const Process shell = read_process(*task);
  return shell.terminal != 0 || read_process(shell.parent).name != "slurmstepd";
}

}  // namespace weft::launch
