// SPDX-License-Identifier: BSD-3-Clause
// The tables of the options and variables of other MPIs, which other_options.cpp applies.
#pragma once
#include <vector>

namespace weft::mpiexec {

/// Rule::values of an option that has a value only as "--name=value".
inline constexpr int kJoined = -2;

/// Treatment of one option, or of one value of it.
struct Rule {
  const char* names;  ///< without dashes, separated by blanks
  int values;         ///< number of words that follow, or kJoined
  const char* when;   ///< the last value to which the rule applies; nullptr: all
  const char* own;    ///< options of Weft, %1 and %2: the values; nullptr: refused; "": no effect
  const char* text;   ///< refused: how to say it here; no effect: why it is not needed
};
/// The first rule with the name and value applies. "mca NAME" is the rule of an MCA parameter.
[[nodiscard]] const std::vector<Rule>& other_rules();

/// A variable of another MPI, the value to which it applies (nullptr: numbers), and options of Weft.
struct Variable {
  const char *name, *value, *own;
};
[[nodiscard]] const std::vector<Variable>& other_variables();

}  // namespace weft::mpiexec
