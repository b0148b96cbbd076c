// SPDX-License-Identifier: BSD-3-Clause
// Backtraces on standard error: functions, modules and, where debug information is there, source lines; each
// line with the rank, the ranks of a host one at a time. Safe in a signal handler.
#pragma once

namespace weft::api {

/// The first frame shown: that of a signal, or that of the caller of this library.
enum class Begin { signal, caller };
/// Looks for what print_backtrace() uses. Not in a signal handler.
void prepare_backtraces();
/// Prints `title` and the frames of this thread. With Begin::signal called by a signal handler.
void print_backtrace(const char* title, Begin begin);

}  // namespace weft::api
