// SPDX-License-Identifier: BSD-3-Clause
// Random calls of all MPI functions, with those of the tool interface, with valid, freed, null and wrong
// handles, extreme integers and memory that ends at a guard page. No call may crash, corrupt memory (run it
// with sanitizers) or hang. A fault in the memory that a call was given is an error of the program and ends
// the sequence; so does a call that may block. usage: api [--ranks N] [--seconds S] [--calls N] [--seed N]
// [--workers N] [--mpiexec PATH]
//        api sequence MODE SEED LENGTH   repeats a sequence with a trace of its calls; several ranks: by
//        mpiexec
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>

#include "fuzz/values.hpp"

// The handlers below distinguish faults of the program from those of the library. The runtime of the
// sanitizers finds these functions only if the program exports them.
#define WEFT_FOR_SANITIZER extern "C" __attribute__((visibility("default")))
WEFT_FOR_SANITIZER const char* __asan_default_options() {
  return "exitcode=99:handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigfpe=0:handle_sigill=0:"
         "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=1024";
}
WEFT_FOR_SANITIZER const char* __ubsan_default_options() {
  return "halt_on_error=1:exitcode=99:print_stacktrace=1";
}
#ifdef __SANITIZE_ADDRESS__
extern "C" const char* __asan_get_report_description();
extern "C" void __ubsan_get_current_report_data(const char** kind, const char** message, const char** file,
                                                unsigned* line, unsigned* column, char** memory);
#pragma weak __ubsan_get_current_report_data
#endif

namespace weft::fuzz {
namespace {

enum Mode : int { kNormal, kBeforeInit, kAfterFinalize, kForkedChild, kModes };
constexpr const char* kModeNames[] = {"normal", "before", "after", "child"};
enum Outcome : int {
  kDone = 0,
  kNotFinalized = 1,
  kSkipped = 76,
  kOwnFault = 77,
  kBlocked = 78,
  kFinding = 99
};
constexpr int kLength = 400;                 // calls of a sequence
constexpr int kBlockMicroseconds = 200'000;  // a call that may block is given up after this time
constexpr int kHangCpuSeconds = 10;          // no other call may take so long
constexpr int kHangSeconds = 200;
constexpr int kSequenceSeconds = 300;
constexpr rlim_t kMemory = rlim_t{2} << 30;

struct Counts {
  std::atomic<uint64_t> next_seed, calls, sequences, findings, outcomes[128];
};
Counts* counts;

// State of the sequence, for the signal handlers.
Values* values;
const Call* current;
int mode_now, ranks = 1, index_now;
uint64_t seed_now;
bool tracing;

void report(const char* what) {
  char line[300];
  const int length =
      std::snprintf(line, sizeof line, "FINDING: %s in call %d (%s), %d ranks: sequence %s %llu %d\n", what,
                    index_now, current != nullptr ? current->name : "none", ranks, kModeNames[mode_now],
                    static_cast<unsigned long long>(seed_now), index_now + 1);
  static_cast<void>(!::write(2, line, static_cast<size_t>(length)));
}

void on_fault(int signal, siginfo_t* info, void*) {
  if ((signal == SIGSEGV || signal == SIGBUS) &&
      values->is_own_fault(info->si_addr, info->si_code == SI_KERNEL))
    ::_exit(kOwnFault);
  char what[80];
  std::snprintf(what, sizeof what, "%s at address %p", strsignal(signal), info->si_addr);
  report(what);
  if (std::getenv("FUZZ_CORE") != nullptr) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
  ::_exit(kFinding);
}

#ifdef __SANITIZE_ADDRESS__
/// Copies of more memory than the program has: its buffers overlap or end beyond all addresses.
void on_sanitizer_error() {
  const std::string_view error = __asan_get_report_description();
  if (values->is_huge() &&
      (error == "memcpy-param-overlap" || error == "negative-size-param" || error == "unknown-crash"))
    ::_exit(kOwnFault);
  report("report of the sanitizer");
}

/// UndefinedBehaviorSanitizer reports an access at null before the processor does: the type map of a null
/// buffer, or of MPI_IN_PLACE where it is no constant, may lead there.
void on_undefined_behavior() {
  const char *kind = "", *text = nullptr, *file = nullptr;
  unsigned line = 0, column = 0;
  char* memory = nullptr;
  __ubsan_get_current_report_data(&kind, &text, &file, &line, &column, &memory);
  if (std::string_view(kind) == "null-pointer-use" && values->is_own_fault(nullptr, false))
    ::_exit(kOwnFault);
}
#endif

void on_alarm(int) {
  const bool may_block = current != nullptr && (current->blocks == Call::Blocks::alone ||
                                                (current->blocks == Call::Blocks::together && ranks > 1));
  if (may_block) ::_exit(kBlocked);
#ifdef __SANITIZE_ADDRESS__
  if (values->is_huge()) ::_exit(kOwnFault);  // its check of a copy of a terabyte takes longer than the limit
#endif
  report("no end");
  if (std::getenv("FUZZ_CORE") != nullptr) ::abort();
  ::_exit(kFinding);
}

/// Elapsed time for a call that may block; for others CPU time, too, which does not depend on the load.
void set_timers(timeval limit, int cpu_seconds) {
  const itimerval elapsed{{0, 0}, limit}, cpu{{0, 0}, {cpu_seconds, 0}};
  ::setitimer(ITIMER_REAL, &elapsed, nullptr);
  ::setitimer(ITIMER_PROF, &cpu, nullptr);
}

void install_handlers() {
  static char stack[65536];
  const stack_t alternate{stack, 0, sizeof stack};
  ::sigaltstack(&alternate, nullptr);
  struct sigaction fault {};
  fault.sa_sigaction = on_fault;
  fault.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::sigaction(signal, &fault, nullptr);
  struct sigaction alarm {};
  alarm.sa_handler = on_alarm;
  alarm.sa_flags = SA_ONSTACK;
  for (const int signal : {SIGALRM, SIGPROF}) ::sigaction(signal, &alarm, nullptr);
}

void make_call() {
  current = &calls()[values->draw(calls().size())];
  const bool may_block =
      current->blocks != Call::Blocks::never && (ranks > 1 || current->blocks == Call::Blocks::alone);
  if (may_block)
    set_timers({0, kBlockMicroseconds}, 0);
  else
    set_timers({kHangSeconds, 0}, kHangCpuSeconds);
  values->begin_call(current->keeps);
  if (tracing) std::fprintf(stderr, "call %d: %s\n", index_now, current->name);
  const int code = current->make(*values);
  if (tracing) std::fprintf(stderr, "  = %d\n", code);
  set_timers({0, 0}, 0);
  if (counts != nullptr) ++counts->calls;
}

/// Ends the process.
[[noreturn]] void run_sequence(int mode, uint64_t seed, int length) {
  mode_now = mode;
  seed_now = seed;
  const rlimit memory{kMemory, kMemory}, none{0, 0};
#ifndef __SANITIZE_ADDRESS__
  ::setrlimit(RLIMIT_DATA, &memory);
#endif
  if (std::getenv("FUZZ_CORE") == nullptr) ::setrlimit(RLIMIT_CORE, &none);
  static_cast<void>(memory);
  install_handlers();
  values->seed(seed);
  set_timers({kHangSeconds, 0}, 0);
  int level = 0;
  MPI_T_init_thread(MPI_THREAD_MULTIPLE, &level);
  if (mode != kBeforeInit) {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    install_handlers();  // libraries may have replaced them
  }
  if (mode == kAfterFinalize) MPI_Finalize();
  if (mode == kForkedChild) {
    const pid_t child = ::fork();
    if (child > 0) {
      int status = 0;
      ::waitpid(child, &status, 0);
      ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : kFinding);
    }
  }
  for (index_now = 0; index_now < length; ++index_now) make_call();
  ::_exit(kDone);
}

/// Runs a sequence in a process, or in a job of several ranks. Returns its outcome.
int start_sequence(const std::string& mpiexec, const char* self, int mode, uint64_t seed, int length,
                   int log) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ftruncate(log, 0) != 0 || ::lseek(log, 0, SEEK_SET) != 0 || ::dup2(log, 2) != 2) ::_exit(kSkipped);
    if (ranks == 1) run_sequence(mode, seed, length);
    ::dup2(2, 1);
    const std::string number = std::to_string(ranks), text = std::to_string(seed),
                      calls = std::to_string(length);
    ::execl(mpiexec.c_str(), mpiexec.c_str(), "--timeout", "250", "-n", number.c_str(), self, "sequence",
            kModeNames[mode], text.c_str(), calls.c_str(), "quiet", nullptr);
    ::_exit(kSkipped);
  }
  for (int waited = 0; waited < kSequenceSeconds * 1000; ++waited) {
    int status = 0;
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status) % 27;
    ::usleep(1000);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return kFinding;
}

bool is_finding(int mode, int outcome) {
  if (outcome == (ranks > 1 ? kNotFinalized : kDone) || outcome == kDone || outcome == kOwnFault ||
      outcome == kBlocked)
    return false;
  // Outside of MPI an error ends the process with its class as exit code.
  return outcome >= kFinding || mode == kNormal;
}

void work(const std::string& mpiexec, const char* self, double deadline, uint64_t max_calls) {
  char name[] = "/tmp/weft-fuzz-XXXXXX";
  const int log = ::mkstemp(name);
  ::unlink(name);
  while (static_cast<double>(std::time(nullptr)) < deadline && counts->calls < max_calls) {
    const uint64_t seed = counts->next_seed++;
    const int mode = seed % 8 < 5 ? kNormal : static_cast<int>(seed % 8 - 4);
    const int outcome = start_sequence(mpiexec, self, mode, seed, mode == kNormal ? kLength : 1, log);
    if (ranks > 1 && outcome == kNotFinalized)
      counts->calls += static_cast<uint64_t>((mode == kNormal ? kLength : 1) * ranks);
    ++counts->sequences;
    ++counts->outcomes[outcome & 127];
    if (!is_finding(mode, outcome)) continue;
    ++counts->findings;
    char text[6000];
    const ssize_t n = ::pread(log, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    std::printf("outcome %d of sequence %s %llu\n%s\n", outcome, kModeNames[mode],
                static_cast<unsigned long long>(seed), text);
    std::fflush(stdout);
  }
  ::_exit(0);
}

int drive(int argc, char** argv) {
  double seconds = 5;
  uint64_t seed = 1, max_calls = UINT64_MAX;
  int workers = 1;
  std::string mpiexec = "mpiexec";
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--ranks") ranks = std::atoi(argv[i + 1]);
    if (option == "--seconds") seconds = std::atof(argv[i + 1]);
    if (option == "--calls") max_calls = std::strtoull(argv[i + 1], nullptr, 10);
    if (option == "--seed") seed = std::strtoull(argv[i + 1], nullptr, 10);
    if (option == "--workers") workers = std::atoi(argv[i + 1]);
    if (option == "--mpiexec") mpiexec = argv[i + 1];
  }
  void* shared = ::mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  counts = static_cast<Counts*>(shared);
  counts->next_seed = seed;
  const double deadline = static_cast<double>(std::time(nullptr)) + seconds;
  for (int i = 0; i < workers; ++i)
    if (::fork() == 0) work(mpiexec, argv[0], deadline, max_calls);
  while (::wait(nullptr) > 0 || errno == EINTR) {
  }
  const auto number = [](const std::atomic<uint64_t>& value) {
    return static_cast<unsigned long long>(value.load());
  };
  std::printf(
      "%llu calls of %zu functions in %llu sequences with %d ranks: %llu ended by the program's own fault, "
      "%llu "
      "blocked, %llu findings\n",
      number(counts->calls), calls().size(), number(counts->sequences), ranks,
      number(counts->outcomes[kOwnFault]), number(counts->outcomes[kBlocked]), number(counts->findings));
  return counts->findings == 0 && counts->calls > 100 ? 0 : 1;
}

int main_of(int argc, char** argv) {
  values = new Values;
  if (argc < 5 || std::strcmp(argv[1], "sequence") != 0) return drive(argc, argv);
  tracing = argc == 5;
  for (int mode = 0; mode < kModes; ++mode)
    if (std::strcmp(argv[2], kModeNames[mode]) == 0)
      run_sequence(mode, std::strtoull(argv[3], nullptr, 10), std::atoi(argv[4]));
  return 2;
}

}  // namespace
#ifdef __SANITIZE_ADDRESS__
void sanitizer_error() { on_sanitizer_error(); }
void undefined_behavior() { on_undefined_behavior(); }
#endif
}  // namespace weft::fuzz

#ifdef __SANITIZE_ADDRESS__
WEFT_FOR_SANITIZER void __asan_on_error() { weft::fuzz::sanitizer_error(); }
WEFT_FOR_SANITIZER void __ubsan_on_report() { weft::fuzz::undefined_behavior(); }
#endif

int main(int argc, char** argv) { return weft::fuzz::main_of(argc, argv); }
