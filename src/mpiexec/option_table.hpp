// SPDX-License-Identifier: BSD-3-Clause
// Table of mpiexec's own options: names, help, and what each does to the state of the parser (options.cpp).
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "mpiexec/options.hpp"

namespace weft::mpiexec {

/// State of the parser, modified by the rows of the table.
struct State {
  Options options;
  Program program;                                             ///< program being parsed
  bool open = true;                                            ///< a program is still expected
  bool counted = false;                                        ///< some program has a number of processes
  std::vector<std::pair<std::string, std::string>> variables;  ///< of all programs
  std::vector<std::string> notes;                              ///< options of other MPIs without effect
};

/// One option. `value` is its placeholder in the help, nullptr for a switch. `names` have no dashes; the
/// command line accepts one or two.
struct Row {
  std::vector<std::string> names;
  const char* value;
  const char* help;
  std::function<Status(State&, const std::string& name, const std::string& value)> apply;
};

[[nodiscard]] Status set_ranks(State& state, const std::string& name, const std::string& value);
[[nodiscard]] const std::vector<Row>& option_table();

}  // namespace weft::mpiexec
