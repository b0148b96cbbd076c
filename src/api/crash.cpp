// SPDX-License-Identifier: BSD-3-Clause
// Runs in a signal handler of a process whose heap may be damaged: no allocation, no lock, no stdio.
#include "api/crash.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "api/entry_point.hpp"
#include "base/config.hpp"

namespace weft::api {
namespace {

config::Choice backtrace{
    "errors.backtrace",
    0,
    {"on", "off"},
    "Whether a process that ends by SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT prints a backtrace first.",
    "the program has a tool of its own for crashes, which reads standard error (off)"};

struct Signal {
  int number;
  const char* name;
};
constexpr Signal kSignals[] = {
    {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGFPE, "SIGFPE"}, {SIGILL, "SIGILL"}, {SIGABRT, "SIGABRT"}};
constexpr size_t kStackBytes = 64 * 1024;
constexpr int kMaxFrames = 40;
constexpr unsigned kTimeoutSeconds = 10;
constexpr char kAddr2line[] = "/usr/bin/addr2line";

bool has_addr2line;
const void* program_base;
alignas(16) char handler_stack[kStackBytes];  // of the main thread: its own may have overflowed

struct Frames {
  uintptr_t addresses[kMaxFrames];
  int count;
};

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* frames) {
  auto& found = *static_cast<Frames*>(frames);
  int before = 0;
  const uintptr_t address = _Unwind_GetIPInfo(context, &before);
  if (address == 0 || found.count == kMaxFrames) return _URC_END_OF_STACK;
  found.addresses[found.count++] = before != 0 ? address : address - 1;  // inside the call
  return _URC_NO_REASON;
}

void print(const char* text) { (void)!::write(STDERR_FILENO, text, std::strlen(text)); }

/// A mapped ELF file and the best symbol for an address in it.
class SymbolTable {
 public:
  explicit SymbolTable(const char* path) {
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (fd < 0) return;
    if (::fstat(fd, &status) == 0) size_ = static_cast<size_t>(status.st_size);
    void* file = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    ::close(fd);
    file_ = file != MAP_FAILED ? static_cast<const char*>(file) : nullptr;
  }
  ~SymbolTable() {
    if (file_ != nullptr) ::munmap(const_cast<char*>(file_), size_);
  }
  SymbolTable(const SymbolTable&) = delete;
  SymbolTable& operator=(const SymbolTable&) = delete;

  /// `address`: relative to the module's base, or absolute in a program of fixed position.
  [[nodiscard]] const char* find(uintptr_t address) const {
    const auto* header = at<ElfW(Ehdr)>(0);
    if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return nullptr;
    for (unsigned i = 0; i < header->e_shnum; ++i) {
      const auto* section = at<ElfW(Shdr)>(header->e_shoff + i * sizeof(ElfW(Shdr)));
      if (section == nullptr || section->sh_type != SHT_SYMTAB) continue;
      const auto* names = at<ElfW(Shdr)>(header->e_shoff + section->sh_link * sizeof(ElfW(Shdr)));
      for (uint64_t offset = 0; offset < section->sh_size; offset += sizeof(ElfW(Sym))) {
        const auto* symbol = at<ElfW(Sym)>(section->sh_offset + offset);
        if (symbol == nullptr || names == nullptr) return nullptr;
        if ((symbol->st_info & 0xf) != STT_FUNC || address < symbol->st_value ||
            address >= symbol->st_value + symbol->st_size)
          continue;
        return at<char>(names->sh_offset + symbol->st_name);
      }
    }
    return nullptr;
  }
  [[nodiscard]] bool fixed_position() const {
    const auto* header = at<ElfW(Ehdr)>(0);
    return header != nullptr && header->e_type == ET_EXEC;
  }

 private:
  template <class T>
  [[nodiscard]] const T* at(uint64_t offset) const {
    if (file_ == nullptr || offset + sizeof(T) > size_) return nullptr;
    return reinterpret_cast<const T*>(file_ + offset);
  }
  const char* file_ = nullptr;
  size_t size_ = 0;
};

/// Prints one frame. Returns the address as addr2line wants it if the frame belongs to the program, else 0.
uintptr_t print_frame(int number, uintptr_t address, const char* program) {
  char line[512];
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(address), &info) == 0 || info.dli_fname == nullptr) {
    std::snprintf(line, sizeof line, "  #%-2d %#zx\n", number, static_cast<size_t>(address));
    print(line);
    return 0;
  }
  const bool in_program = info.dli_fbase == program_base;
  const char* path = in_program ? program : info.dli_fname;
  const SymbolTable symbols(path);
  const uintptr_t base = symbols.fixed_position() ? 0 : reinterpret_cast<uintptr_t>(info.dli_fbase);
  const char* name = symbols.find(address - base);
  if (name == nullptr) name = info.dli_sname;
  std::snprintf(line, sizeof line, "  #%-2d %s (%s+%#zx)\n", number, name != nullptr ? name : "?", path,
                static_cast<size_t>(address - base));
  print(line);
  return in_program ? address - base : 0;
}

/// Prints the source lines of frames of the program, if it has debug information.
void print_lines(const char* program, const uintptr_t* addresses, int count) {
  if (!has_addr2line || count == 0) return;
  char texts[kMaxFrames][20];
  const char* words[kMaxFrames + 4] = {kAddr2line, "-Cfpse", program};
  for (int i = 0; i < count; ++i) {
    std::snprintf(texts[i], sizeof texts[i], "%#zx", static_cast<size_t>(addresses[i]));
    words[3 + i] = texts[i];
  }
  print("  source lines:\n");
  const pid_t child = ::vfork();  // runs no handlers of pthread_atfork()
  if (child == 0) {
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    static const char* const environment[] = {nullptr};
    ::execve(kAddr2line, const_cast<char* const*>(words), const_cast<char* const*>(environment));
    ::_exit(127);
  }
  if (child > 0) ::waitpid(child, nullptr, 0);
}

void on_crash(int signal, siginfo_t* info, void* /*context*/) {
  const char* signal_name = "a signal";
  for (const Signal& handled : kSignals) {
    ::signal(handled.number, SIG_DFL);  // also of a fault in this handler
    if (handled.number == signal) signal_name = handled.name;
  }
  ::signal(SIGALRM, SIG_DFL);
  ::alarm(kTimeoutSeconds);
  char line[256], program[512] = {};
  if (::readlink("/proc/self/exe", program, sizeof program - 1) <= 0) program[0] = '\0';
  const core::MpiCall call = g_instance != nullptr ? g_instance->waits.current() : core::MpiCall{};
  const auto* name = reinterpret_cast<const char*>(call.name & ~wait_table::kReturned);
  const bool inside = name != nullptr && (call.name & wait_table::kReturned) == 0;
  char at[40] = "";
  if (signal == SIGSEGV || signal == SIGBUS) std::snprintf(at, sizeof at, " at address %p", info->si_addr);
  std::snprintf(line, sizeof line, "weft: rank %d (pid %d) got %s%s %s%s:\n",
                g_instance != nullptr ? static_cast<int>(g_instance->self) : 0, ::getpid(), signal_name, at,
                inside            ? "in "
                : name != nullptr ? "outside MPI, after "
                                  : "outside MPI",
                name != nullptr ? name : "");
  print(line);
  static Frames frames;
  frames.count = 0;
  _Unwind_Backtrace(add_frame, &frames);
  uintptr_t in_program[kMaxFrames];
  int count = 0, first = frames.count > 2 ? 2 : 0;  // without this function and the signal's frame
  for (int i = first; i < frames.count; ++i)
    if (const uintptr_t address = print_frame(i - first, frames.addresses[i], program); address != 0)
      in_program[count++] = address;
  print_lines(program, in_program, count);
  ::alarm(0);
  ::raise(signal);  // pending until this handler returns; a fault occurs again
}

}  // namespace

void install_crash_handlers() {
  if (!backtrace.is("on")) return;
  has_addr2line = ::access(kAddr2line, X_OK) == 0;
  Dl_info program{};
  if (::dladdr(reinterpret_cast<void*>(::getauxval(AT_ENTRY)), &program) != 0)
    program_base = program.dli_fbase;
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
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace weft::api
