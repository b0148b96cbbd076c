// SPDX-License-Identifier: BSD-3-Clause
#include "api/crash.hpp"

#include <signal.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>

#include "api/backtrace.hpp"
#include "api/entry_point.hpp"
#include "base/config.hpp"
#include "base/version.hpp"

namespace weft::api {
namespace {

config::Choice backtrace{
    "errors.backtrace",
    0,
    {"on", "off", "errors"},
    "Whether a process that ends by SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT prints a backtrace first; "
    "errors: also a process that an MPI error ends.",
    "the program has a tool of its own for crashes, which reads standard error (off), or you look for the "
    "line "
    "of the call that failed (errors)"};

struct Signal {
  int number;
  const char* name;
};
constexpr Signal kSignals[] = {
    {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGFPE, "SIGFPE"}, {SIGILL, "SIGILL"}, {SIGABRT, "SIGABRT"}};
constexpr size_t kStackBytes = 64 * 1024;
constexpr unsigned kTimeoutSeconds = 10;

alignas(16) char handler_stack[kStackBytes];  // of the main thread: its own may have overflowed

// No allocation, no lock, no stdio: the heap may be damaged.
void on_crash(int signal, siginfo_t* info, void* /*context*/) {
  const char* signal_name = "a signal";
  for (const Signal& handled : kSignals) {
    ::signal(handled.number, SIG_DFL);  // also of a fault in this handler
    if (handled.number == signal) signal_name = handled.name;
  }
  ::signal(SIGALRM, SIG_DFL);
  ::alarm(kTimeoutSeconds);
  const core::MpiCall call = g_instance != nullptr ? g_instance->waits.current() : core::MpiCall{};
  const auto* name = reinterpret_cast<const char*>(call.name & ~wait_table::kReturned);
  const bool inside = name != nullptr && (call.name & wait_table::kReturned) == 0;
  char at[40] = "", title[256];
  if (signal == SIGSEGV || signal == SIGBUS) std::snprintf(at, sizeof at, " at address %p", info->si_addr);
  std::snprintf(title, sizeof title, "rank %d (pid %d) got %s%s %s%s, Weft %s:",
                g_instance != nullptr ? static_cast<int>(g_instance->self) : 0, ::getpid(), signal_name, at,
                inside            ? "in "
                : name != nullptr ? "outside MPI, after "
                                  : "outside MPI",
                name != nullptr ? name : "", kBuildVersion);
  print_backtrace(title, Begin::signal);
  ::alarm(0);
  ::raise(signal);  // pending until this handler returns; a fault occurs again
}

}  // namespace

void print_caller() {
  if (!backtrace.is("errors")) return;
  prepare_backtraces();
  print_backtrace("called by:", Begin::caller);
}

void install_crash_handlers() {
  if (backtrace.is("off")) return;
  prepare_backtraces();
  stack_t stack{};
  if (::sigaltstack(nullptr, &stack) == 0 && (stack.ss_flags & SS_DISABLE) != 0) {
    stack = {};
    stack.ss_sp = handler_stack;
    stack.ss_size = sizeof handler_stack;
    ::sigaltstack(&stack, nullptr);
  }
  for (const auto& [signal, name] : kSignals) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0 || (action.sa_flags & SA_SIGINFO) != 0 ||
        action.sa_handler != SIG_DFL)
      continue;
    action = {};
    action.sa_sigaction = on_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGTERM);  // another rank has ended: mpiexec leaves time for the backtrace
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace weft::api
