// SPDX-License-Identifier: BSD-3-Clause
// Runs in a signal handler of a process whose heap may be damaged: no allocation, no lock, no stdio.
#include "api/backtrace.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "api/entry_point.hpp"
#include "transport/shm/shm.hpp"

/// Of libstdc++, if linked statically: passes the parts of a name to `part` and allocates nothing.
extern "C" [[gnu::weak]] int __gcclibcxx_demangle_callback(const char* mangled,
                                                           void (*part)(const char*, size_t, void*),
                                                           void* state);

namespace weft::api {
namespace {

constexpr int kMaxFrames = 40;
constexpr int kHandlerFrames = 3;  // print_backtrace(), the handler, and the frame of the signal
constexpr int kNameBytes = 512, kPathBytes = 512;
constexpr int kReadTimeoutMs = 2'000;       // of a child process
constexpr useconds_t kLockPollUs = 10'000;  // another rank prints its backtrace
constexpr int kMaxLockPolls = 300;
constexpr char kAddr2line[] = "/usr/bin/addr2line";

bool has_addr2line;
const void* program_base;

struct Frame {
  uintptr_t address;
  uintptr_t offset;  // in the module, as addr2line wants it
  int module;        // index; negative: unknown
  char name[kNameBytes];
  char lines[kPathBytes];  // of source, one for each function that is inlined
};
/// A file with frames. `base`: where it is loaded.
struct Module {
  const void* base;
  char path[kPathBytes];
};
// Static: the stack of the handler is small. One thread at a time.
struct Trace {
  Frame frames[kMaxFrames];
  int count;
  Module modules[kMaxFrames];
  int module_count;
} trace;

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* /*unused*/) {
  int before = 0;
  const uintptr_t address = _Unwind_GetIPInfo(context, &before);
  if (address == 0 || trace.count == kMaxFrames) return _URC_END_OF_STACK;
  trace.frames[trace.count++] = {before != 0 ? address : address - 1, 0, -1, "", ""};  // inside the call
  return _URC_NO_REASON;
}

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

/// The index of the module of an address; negative: none.
int module_of(const Dl_info& info) {
  for (int i = 0; i < trace.module_count; ++i)
    if (trace.modules[i].base == info.dli_fbase) return i;
  Module& module = trace.modules[trace.module_count];
  module.base = info.dli_fbase;
  const char* path = info.dli_fname;
  if (info.dli_fbase == program_base && ::readlink("/proc/self/exe", module.path, sizeof module.path - 1) > 0)
    path = module.path;
  else
    std::snprintf(module.path, sizeof module.path, "%s", path);
  return trace.module_count++;
}

void find_symbol(Frame& frame) {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(frame.address), &info) == 0 || info.dli_fname == nullptr) return;
  frame.module = module_of(info);
  const SymbolTable symbols(trace.modules[frame.module].path);
  frame.offset = frame.address - (symbols.fixed_position() ? 0 : reinterpret_cast<uintptr_t>(info.dli_fbase));
  const char* name = symbols.find(frame.offset);
  if (name == nullptr) name = info.dli_sname;
  std::snprintf(frame.name, sizeof frame.name, "%s", name != nullptr ? name : "?");
}

/// The lines that a child process writes to its pipe.
class ChildLines {
 public:
  /// `child`: runs in a copy of this process (or, before exec, in its memory), and never returns. `to`: the
  /// end of the pipe to write to. The raw system call runs no handlers of pthread_atfork().
  template <class Child>
  explicit ChildLines(Child&& child) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    from_ = ends[0];
#ifdef SYS_fork
    pid_ = static_cast<pid_t>(::syscall(SYS_fork));
#else
    pid_ = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
#endif
    if (pid_ == 0) {
      child(ends[1]);
      ::_exit(127);
    }
    ::close(ends[1]);
  }
  ~ChildLines() {
    if (from_ >= 0) ::close(from_);
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ChildLines(const ChildLines&) = delete;
  ChildLines& operator=(const ChildLines&) = delete;
  /// Reads a line without its end. Returns false at the end, or if the child is stuck.
  bool next(char* line, size_t size) {
    for (size_t at = 0;; ++at) {
      pollfd ready{from_, POLLIN, 0};
      char byte;
      if (from_ < 0 || ::poll(&ready, 1, kReadTimeoutMs) <= 0 || ::read(from_, &byte, 1) != 1) return false;
      if (byte == '\n') return line[at < size ? at : size - 1] = '\0', true;
      if (at + 1 < size) line[at] = byte;
    }
  }

 private:
  int from_ = -1;
  pid_t pid_ = -1;
};

/// Writes a name of C++ as in the source, or a name of C as it is.
void write_name(const char* name, int to) {
  struct Text {
    char bytes[kNameBytes];
    size_t size;
  } text{};
  const auto append = [](const char* part, size_t size, void* state) {
    Text& so_far = *static_cast<Text*>(state);
    size = std::min(size, sizeof so_far.bytes - 1 - so_far.size);
    std::memcpy(so_far.bytes + so_far.size, part, size);
    so_far.size += size;
  };
  int failed = 1;
  if (&__gcclibcxx_demangle_callback != nullptr)
    failed = __gcclibcxx_demangle_callback(name, append, &text);
  else if (const char* known = abi::__cxa_demangle(name, nullptr, nullptr, &failed); known != nullptr)
    append(known, std::strlen(known), &text);
  (void)::dprintf(to, "%s\n", failed == 0 ? text.bytes : name);
}

/// Replaces the names of C++ functions. A child process does it, since the heap of this one may be damaged.
void demangle_all() {
  bool any = false;
  for (int i = 0; i < trace.count; ++i) any |= std::strncmp(trace.frames[i].name, "_Z", 2) == 0;
  if (!any) return;
  ChildLines lines([](int to) {
    for (int i = 0; i < trace.count; ++i) write_name(trace.frames[i].name, to);
  });
  char name[kNameBytes];
  for (int i = 0; i < trace.count && lines.next(name, sizeof name); ++i)
    std::memcpy(trace.frames[i].name, name, sizeof name);
}

/// Whether a frame is of this library, or of a library that translates other interfaces for it.
bool is_of_weft(const Frame& frame, const void* own_base) {
  if (frame.module < 0) return false;
  const Module& module = trace.modules[frame.module];
  return module.base == own_base || std::strstr(module.path, "/compat/libmpi") != nullptr ||
         std::strstr(module.path, "/libmpi_abi_fortran.") != nullptr;
}

void print(const char* prefix, const char* text) {
  char line[kNameBytes + kPathBytes + 64];
  const int length = std::snprintf(line, sizeof line, "%s%s\n", prefix, text);
  const auto bytes =
      static_cast<size_t>(length) < sizeof line ? static_cast<size_t>(length) : sizeof line - 1;
  if (::write(STDERR_FILENO, line, bytes) < 0) return;  // nobody reads it
}

void print_frame(const char* prefix, int number, const Frame& frame) {
  char text[kNameBytes + kPathBytes + 40];
  if (frame.module < 0)
    std::snprintf(text, sizeof text, "  #%-2d %#zx", number, static_cast<size_t>(frame.address));
  else
    std::snprintf(text, sizeof text, "  #%-2d %s (%s+%#zx)", number, frame.name,
                  trace.modules[frame.module].path, static_cast<size_t>(frame.offset));
  print(prefix, text);
}

/// Executes addr2line for the frames of a module from number `first` on.
[[noreturn]] void run_addr2line(int module, int first, int to) {
  char texts[kMaxFrames][20];
  const char* words[kMaxFrames + 4] = {kAddr2line, "-Cfpse", trace.modules[module].path};
  int count = 3;
  for (int i = first; i < trace.count; ++i) {
    if (trace.frames[i].module != module) continue;
    std::snprintf(texts[i], sizeof texts[i], "%#zx", static_cast<size_t>(trace.frames[i].offset));
    words[count++] = texts[i];
  }
  ::dup2(to, STDOUT_FILENO);
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null >= 0) ::dup2(null, STDERR_FILENO);
  static const char* const environment[] = {nullptr};
  ::execve(kAddr2line, const_cast<char* const*>(words), const_cast<char* const*>(environment));
  ::_exit(127);
}

/// Finds the source lines of frames from number `first` on whose module has debug information.
void find_lines(int first) {
  for (int module = 0; module < trace.module_count; ++module) {
    ChildLines lines([=](int to) { run_addr2line(module, first, to); });
    int at = first - 1;
    for (char line[kPathBytes]; lines.next(line, sizeof line);) {
      if (line[0] != ' ')  // the next frame of this module; else another function that is inlined
        while (++at < trace.count && trace.frames[at].module != module) {
        }
      if (at < first || at >= trace.count) break;
      char* const known = trace.frames[at].lines;
      const size_t size = std::strlen(known);
      if (std::strchr(line, '?') == nullptr)
        std::snprintf(known + size, kPathBytes - size, "%s%s", size != 0 ? "\n" : "", line);
    }
  }
}

void print_lines(const char* prefix, int first) {
  bool headed = false;
  for (int i = first; i < trace.count; ++i) {
    bool inlined = false;
    for (char *line = trace.frames[i].lines, *next = nullptr; line != nullptr && *line != '\0'; line = next) {
      next = std::strchr(line, '\n');
      if (next != nullptr) *next++ = '\0';
      char text[kPathBytes + 16];
      if (inlined)
        std::snprintf(text, sizeof text, "        %s", line);
      else
        std::snprintf(text, sizeof text, "    #%-2d %s", i - first, line);
      if (!headed) print(prefix, "  source lines:");
      headed = inlined = true;
      print(prefix, text);
    }
  }
}

/// Excludes other ranks of the host while it lives, so that their backtraces do not mix. Without shared
/// memory, or if a rank is stuck, it excludes nobody.
class Turn {
 public:
  Turn() {
    if (g_instance == nullptr || g_instance->shm == nullptr) return;
    char path[40];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", g_instance->shm->memory());
    file_ = ::open(path, O_RDONLY | O_CLOEXEC);  // a description of its own, which locks apply to
    for (int polls = 0; file_ >= 0 && polls < kMaxLockPolls && ::flock(file_, LOCK_EX | LOCK_NB) != 0;
         ++polls)
      ::usleep(kLockPollUs);
  }
  ~Turn() {
    if (file_ >= 0) ::close(file_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  int file_ = -1;
};

}  // namespace

void prepare_backtraces() {
  has_addr2line = ::access(kAddr2line, X_OK) == 0;
  Dl_info program{};
  if (::dladdr(reinterpret_cast<void*>(::getauxval(AT_ENTRY)), &program) != 0)
    program_base = program.dli_fbase;
}

void print_backtrace(const char* title, Begin begin) {
  const Turn turn;
  char prefix[24] = "weft: ";
  if (g_instance != nullptr)
    std::snprintf(prefix, sizeof prefix, "weft[%d]: ", static_cast<int>(g_instance->self));
  trace.count = trace.module_count = 0;
  _Unwind_Backtrace(add_frame, nullptr);
  Dl_info own{};
  (void)::dladdr(reinterpret_cast<void*>(&print_backtrace), &own);
  int first = 0;
  // Without this function, the handler and the frame of the signal.
  if (begin == Begin::signal) first = trace.count > kHandlerFrames ? kHandlerFrames : 0;
  for (int i = first; i < trace.count; ++i) find_symbol(trace.frames[i]);
  if (begin == Begin::caller)
    while (first < trace.count - 1 && is_of_weft(trace.frames[first], own.dli_fbase)) ++first;
  demangle_all();
  if (has_addr2line) find_lines(first);
  print(prefix, title);
  for (int i = first; i < trace.count; ++i) print_frame(prefix, i - first, trace.frames[i]);
  print_lines(prefix, first);
}

}  // namespace weft::api
