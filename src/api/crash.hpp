// SPDX-License-Identifier: BSD-3-Clause
// Crash reports: a backtrace with symbols when a signal such as SIGSEGV ends the process.
#pragma once

namespace weft::api {

/// Handles SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT if errors.backtrace is on: prints a backtrace, then
/// lets the signal end the process as without a handler. A handler that the program has installed stays, and
/// a handler that it installs later replaces this handler. Called once.
void install_crash_handlers();
/// If errors.backtrace is `errors`: prints the caller of this library. Before an MPI error ends the process.
void print_caller();

}  // namespace weft::api
