// SPDX-License-Identifier: BSD-3-Clause
// Entry points: cuGetProcAddress returns instrumented functions for Weft, which count calls and inject
// faults. The exported functions, for the application, are not instrumented.
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#include "emucuda.h"
#include "world.hpp"

namespace emucuda {
namespace {

struct Fault {
  std::string name;
  unsigned long at;  // number of the failing call, from 1
  Code code;
  unsigned long seen = 0;
};

struct CallLog {
  std::map<std::string, unsigned long> calls;
  std::vector<Fault> faults;
  unsigned long forbidden = 0;
  std::string last_forbidden;
  bool strict = false;
  std::FILE* file = nullptr;  // EMUCUDA_LOG
  std::string held;           // function whose calls wait
  unsigned long waiting = 0;  // calls of it
};

thread_local int weft_depth = 0;
thread_local int capture_mode = 0;  // CU_STREAM_CAPTURE_MODE_GLOBAL

bool parse_faults(const char* list, std::vector<Fault>& faults) {
  for (const char* at = list; *at != 0;) {
    const char* end = std::strchr(at, ',');
    const std::string entry = end != nullptr ? std::string(at, end) : std::string(at);
    char name[64];
    unsigned long count = 0;
    int code = 0;
    if (std::sscanf(entry.c_str(), "%63[^:]:%lu:%d", name, &count, &code) != 3 || count == 0) return false;
    faults.push_back({name, count, code});
    at = end != nullptr ? end + 1 : at + entry.size();
  }
  return true;
}

CallLog& call_log() {
  static CallLog& instance = *[] {
    auto* created = new CallLog;
    const char* strict = std::getenv("EMUCUDA_STRICT");
    created->strict = strict != nullptr && *strict == '1';
    if (const char* log = std::getenv("EMUCUDA_LOG"); log != nullptr)
      created->file = std::fopen((std::string(log) + "." + std::to_string(::getpid())).c_str(), "w");
    if (created->file != nullptr) std::setvbuf(created->file, nullptr, _IOLBF, 0);
    const char* list = std::getenv("EMUCUDA_FAIL");
    if (list != nullptr && !parse_faults(list, created->faults)) {
      std::fprintf(stderr, "emucuda: EMUCUDA_FAIL=%s (not call:count:code,...)\n", list);
      std::abort();
    }
    return created;
  }();
  return instance;
}

Code injected(const char* name) {
  for (Fault& fault : call_log().faults)
    if (fault.name == name && ++fault.seen == fault.at) return fault.code;
  return kSuccess;
}

/// Keeps a call from its effect while emucuda_hold() names its function.
void wait_while_held(const char* name) {
  for (bool counted = false;; ::sched_yield()) {
    const auto lock = lock_world();
    CallLog& log = call_log();
    if (const bool held = log.held == name; held != counted) {
      log.waiting += held ? 1 : -1UL;
      counted = held;
    }
    if (!counted) return;
  }
}

/// Writes numbers that are no addresses: sizes, values, flags.
template <class T>
void log_argument(std::FILE* file, T argument) {
  constexpr uint64_t kLeastAddress = uint64_t{1} << 32;
  if constexpr (std::is_integral_v<T>)
    if (static_cast<uint64_t>(argument) < kLeastAddress)
      std::fprintf(file, " %llu", static_cast<unsigned long long>(argument));
}

/// A function as returned to Weft.
template <auto Function, class Name>
struct Instrumented;
template <class... A, Code (*Function)(A...), class Name>
struct Instrumented<Function, Name> {
  static Code call(A... arguments) {
    {
      const auto lock = lock_world();
      ++call_log().calls[Name::text];
      if (std::FILE* const file = call_log().file; file != nullptr) {
        std::fputs(Name::text, file);
        (log_argument(file, arguments), ...);
        std::fputc('\n', file);
      }
      if (const Code code = injected(Name::text); code != kSuccess) return code;
    }
    wait_while_held(Name::text);
    ++weft_depth;
    const Code code = Function(arguments...);
    --weft_depth;
    return code;
  }
};

struct Entry {
  const char* symbol;
  const char* exported;
  void* function;
};

/// First interface version with which cuGetProcAddress returns a function.
int available_since(const char* exported) {
  if (std::strcmp(exported, "cuFuncLoad") == 0) return 12040;
  if (std::strcmp(exported, "cuCtxRecordEvent") == 0) return 12050;
  if (std::strcmp(exported, "cuMemcpyBatchAsync") == 0) return 12080;
  return std::strcmp(exported, "cuMemcpyBatchAsync_v2") == 0 ? 13000 : 11030;
}

#define EMUCUDA_NAME(name, symbol, parameters)   \
  struct Name_##name {                           \
    static constexpr const char* text = #symbol; \
  };
EMUCUDA_FUNCTIONS(EMUCUDA_NAME)
#undef EMUCUDA_NAME

const Entry* find_entry(const char* symbol, int version) {
#define EMUCUDA_ENTRY(name, symbol, parameters) \
  {#symbol, #name, reinterpret_cast<void*>(&Instrumented<&name, Name_##name>::call)},
  static const Entry entries[] = {EMUCUDA_FUNCTIONS(EMUCUDA_ENTRY)};
  const Entry* newest = nullptr;
  for (const Entry& entry : entries)
    if (std::strcmp(entry.symbol, symbol) == 0 && available_since(entry.exported) <= version &&
        (newest == nullptr || available_since(entry.exported) > available_since(newest->exported)))
      newest = &entry;
  return newest;
}

}  // namespace

bool called_by_weft() { return weft_depth > 0; }
bool capture_relaxed() { return capture_mode == kCaptureModeRelaxed; }

bool strict() { return call_log().strict; }

void abort_weft(const char* rule, const char* what) {
  std::fprintf(stderr, "emucuda: %s by Weft: %s\n", rule, what);
  std::abort();
}

void forbid_weft(const char* what) {
  if (!called_by_weft()) return;
  ++call_log().forbidden;
  call_log().last_forbidden = what;
  if (strict()) abort_weft("forbidden call", what);
}

void forbid_unsafe(const char* what) {
  if (called_by_weft() && !capture_relaxed()) forbid_weft(what);
}

Code injected_operation_fault() { return injected("op"); }

extern "C" {

Code cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return kSuccess;
}

__attribute__((visibility("default"))) Code cuGetProcAddress_v2(const char* symbol, void** function,
                                                                int version, uint64_t, int* status) {
  int driver = 0;
  cuDriverGetVersion(&driver);
  const Entry* entry = version <= driver ? find_entry(symbol, version) : nullptr;
  *function = entry != nullptr ? entry->function : nullptr;
  if (status != nullptr) *status = entry != nullptr ? 0 : 1;
  return entry != nullptr ? kSuccess : 500;
}

__attribute__((visibility("default"))) Code cuGetProcAddress(const char* symbol, void** function, int version,
                                                             uint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}

#define EMUCUDA_CONTROL __attribute__((visibility("default")))
EMUCUDA_CONTROL unsigned long emucuda_calls(const char* symbol) {
  const auto lock = lock_world();
  const auto at = call_log().calls.find(symbol);
  return at == call_log().calls.end() ? 0 : at->second;
}
EMUCUDA_CONTROL unsigned long emucuda_forbidden(void) { return call_log().forbidden; }
EMUCUDA_CONTROL const char* emucuda_last_forbidden(void) { return call_log().last_forbidden.c_str(); }
EMUCUDA_CONTROL int emucuda_fail(const char* list) {
  const auto lock = lock_world();
  call_log().faults.clear();
  return parse_faults(list, call_log().faults) ? 0 : -1;
}
EMUCUDA_CONTROL unsigned long emucuda_hold(const char* symbol) {
  const auto lock = lock_world();
  if (symbol != nullptr) call_log().held = symbol;
  return call_log().waiting;
}
EMUCUDA_CONTROL void emucuda_delay(unsigned microseconds) {
  const auto lock = lock_world();
  world().delay = uint64_t{microseconds} * 1000;
}
EMUCUDA_CONTROL void emucuda_peer(int access) {
  const auto lock = lock_world();
  world().peer = access != 0;
}
EMUCUDA_CONTROL unsigned long emucuda_resident_kernel_waits(int weft, unsigned long* longest) {
  const auto lock = lock_world();
  ResidentKernelWaits& waits = world().waits[weft != 0 ? 1 : 0];
  if (longest != nullptr) *longest = std::exchange(waits.longest, 0);
  return waits.count;
}
EMUCUDA_CONTROL unsigned long emucuda_resident_kernel_commands(void) {
  const auto lock = lock_world();
  return world().resident_kernel_commands;
}
EMUCUDA_CONTROL unsigned long emucuda_resident_kernel_calls(void) {
  const auto lock = lock_world();
  return world().resident_kernel_calls;
}
EMUCUDA_CONTROL unsigned long emucuda_ll128_collectives(void) {
  const auto lock = lock_world();
  return world().ll128_collectives;
}
EMUCUDA_CONTROL unsigned long emucuda_direct_collectives(void) {
  const auto lock = lock_world();
  return world().direct_collectives;
}
EMUCUDA_CONTROL unsigned long emucuda_block_collectives(void) {
  const auto lock = lock_world();
  return world().block_collectives;
}
EMUCUDA_CONTROL unsigned long emucuda_pair_collectives(void) {
  const auto lock = lock_world();
  return world().pair_collectives;
}
EMUCUDA_CONTROL unsigned long emucuda_collectives(unsigned long* late) {
  const auto lock = lock_world();
  *late = world().timed_out_collectives;
  return world().collectives;
}
EMUCUDA_CONTROL unsigned long emucuda_batch_copies(void) {
  const auto lock = lock_world();
  return world().batch_copies;
}
EMUCUDA_CONTROL void emucuda_resident_kernel_exits(unsigned seed) {
  const auto lock = lock_world();
  world().random = seed;
}
EMUCUDA_CONTROL void emucuda_kernels(unsigned count) {
  const auto lock = lock_world();
  world().kernels = count;
}
EMUCUDA_CONTROL unsigned long emucuda_images(unsigned long* ptx) {
  const auto lock = lock_world();
  *ptx = world().ptx;
  return world().machine_code;
}
EMUCUDA_CONTROL void* emucuda_alias(unsigned long address, unsigned long size, unsigned long* buffer_id) {
  const auto lock = lock_world();
  const Allocation* allocation = find_allocation(address);
  if (allocation == nullptr || allocation->kind != Kind::device) return nullptr;
  *buffer_id = allocation->id;
  return translate(address, size);
}
EMUCUDA_CONTROL void* emucuda_translate(unsigned long address, unsigned long size) {
  const auto lock = lock_world();
  return translate(address, size);
}
EMUCUDA_CONTROL unsigned long emucuda_live(void) {
  const auto lock = lock_world();
  return world().allocations.size() + world().reservations.size() + open_handles();
}
EMUCUDA_CONTROL unsigned long emucuda_live_bytes(void) {
  const auto lock = lock_world();
  unsigned long bytes = 0;
  for (const auto& [address, allocation] : world().allocations) bytes += allocation.size;
  return bytes;
}

}  // extern "C"
}  // namespace emucuda
