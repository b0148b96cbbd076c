// SPDX-License-Identifier: BSD-3-Clause
// Tool: runs a program of the system, such as nvidia-smi, with an input, a time limit and its output as text.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace weft::mpiexec {

/// Result of a tool.
struct ToolResult {
  enum Kind {
    exited,   ///< with `exit_code`
    failed,   ///< it could not be started, or was killed by a signal
    expired,  ///< the time limit has passed, and it was killed
    stopped   ///< the stop descriptor was closed by its peer, and the tool was killed
  };
  Kind kind = failed;
  int exit_code = 0;
  std::string output{};  ///< of standard output and error, at most kMaxToolOutput bytes

  [[nodiscard]] bool success() const { return kind == exited && exit_code == 0; }
};

/// Bytes of output that are kept; later ones are read and dropped.
inline constexpr size_t kMaxToolOutput = 65536;

struct Tool {
  std::vector<std::string> argv;         ///< argv[0] is a path
  std::vector<std::string> environment;  ///< "NAME=VALUE"
  std::string input{};                   ///< standard input, less than a pipe holds (4096 bytes)
  double timeout = 0;                    ///< seconds
  int stop = -1;  ///< the tool is killed when this socket or pipe has no peer any more; negative: none
};

/// Runs the tool and returns after its own process has exited, also if its child processes hold its output
/// open. It gets the default signal dispositions and only descriptors 0, 1 and 2, and ends with the caller.
[[nodiscard]] ToolResult run_tool(const Tool& tool);

/// Returns the last line of a text that has other characters than blanks; empty: none.
[[nodiscard]] std::string last_line(const std::string& text);

}  // namespace weft::mpiexec
