// SPDX-License-Identifier: BSD-3-Clause
// The client side of NVTX's injection protocol (interface facts of nvtx3): the profiler's library is handed
// tables of function pointers and fills in those of the calls that it wants to see.
#include "base/trace.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/config.hpp"
#include "base/log.hpp"
#include "base/secure.hpp"

namespace weft::trace {
namespace detail {
bool on = false;
}  // namespace detail

namespace {

config::Choice setting(
    "trace.nvtx", 0, {"auto", "on", "off"},
    "Ranges for profilers, one for every MPI call and protocol step: when a profiler has set "
    "NVTX_INJECTION64_PATH; on: without one MPI does not start");

constexpr uint32_t kVersion = 3;
constexpr uint32_t kTableCallbacks = 1, kTableVersion = 3;  // NVTX_ETID_*
constexpr int kCore = 1, kCore2 = 5;                        // NVTX_CB_MODULE_*
constexpr unsigned kCalls = 16;                             // of both modules, number 0 is none
constexpr unsigned kRangePushA = 9, kRangePop = 11;         // of the first
constexpr unsigned kDomainRangePushEx = 4, kDomainRangePop = 5, kDomainCreateA = 12;  // of the second

using Pointer = void (*)();
using Domain = void*;

/// nvtxEventAttributes_t
struct Attributes {
  uint16_t version = kVersion, size = sizeof(Attributes);
  uint32_t category = 0;
  int32_t color_type = 0;
  uint32_t color = 0;
  int32_t payload_type = 0, reserved = 0;
  uint64_t payload = 0;
  int32_t message_type = 1;  // characters
  const char* message = nullptr;
};
static_assert(sizeof(Attributes) == 48);

Pointer calls[2][kCalls + 1];  // what the profiler wants called, by module
Pointer* tables[2][kCalls + 1];
Domain domain = nullptr;

template <class F>
F call(size_t module, unsigned number) {
  return reinterpret_cast<F>(calls[module][number]);
}

int give_table(int module, Pointer*** table, unsigned* size) {
  if (module != kCore && module != kCore2) return 0;
  if (table != nullptr) *table = tables[module == kCore ? 0 : 1];
  if (size != nullptr) *size = kCalls;
  return 1;
}
void take_version(uint32_t) {}

struct CallbackTable {
  size_t size = sizeof(CallbackTable);
  int (*get)(int, Pointer***, unsigned*) = give_table;
};
struct VersionTable {
  size_t size = sizeof(VersionTable);
  uint32_t version = kVersion, reserved = 0;
  void (*take)(uint32_t) = take_version;
};

const void* give_export(uint32_t id) {
  static const CallbackTable callbacks;
  static const VersionTable version;
  if (id == kTableCallbacks) return &callbacks;
  return id == kTableVersion ? &version : nullptr;
}

Error no_profiler(const std::string& why) {
  return Error(Errc::unsupported, "no profiler takes ranges (" + why +
                                      "): unset WEFT_TRACE_NVTX, or start the program "
                                      "under a profiler that traces NVTX");
}

/// Loads the profiler's library, which stays, and lets it choose its calls.
Status attach() {
  const char* path = ::secure_getenv("NVTX_INJECTION64_PATH");
  if (path == nullptr || *path == '\0') return no_profiler("NVTX_INJECTION64_PATH is not set");
  void* library = secure::open_library(path, RTLD_LAZY);
  if (library == nullptr) return no_profiler(secure::open_error());
  using Initialise = int (*)(const void* (*)(uint32_t));
  auto initialise = reinterpret_cast<Initialise>(::dlsym(library, "InitializeInjectionNvtx2"));
  if (initialise == nullptr) return no_profiler(std::string(path) + " has no InitializeInjectionNvtx2");
  for (size_t module = 0; module < 2; ++module)
    for (unsigned i = 1; i < kCalls; ++i) tables[module][i] = &calls[module][i];
  if (initialise(give_export) == 0) return no_profiler(std::string(path) + " refused");
  return {};
}

}  // namespace

namespace detail {

void push(const char* name) {
  if (domain != nullptr) {
    Attributes attributes;
    attributes.message = name;
    call<int (*)(Domain, const Attributes*)>(1, kDomainRangePushEx)(domain, &attributes);
  } else {
    call<int (*)(const char*)>(0, kRangePushA)(name);
  }
}

void pop() {
  if (domain != nullptr)
    call<int (*)(Domain)>(1, kDomainRangePop)(domain);
  else
    call<int (*)()>(0, kRangePop)();
}

}  // namespace detail

Status open() {
  if (detail::on || setting.is("off")) return {};
  if (setting.is("auto") && ::secure_getenv("NVTX_INJECTION64_PATH") == nullptr) return {};
  Status attached = attach();
  if (!attached.ok()) {
    if (setting.is("on")) return attached;
    log::write(log::Level::warn, "%s", attached.error().message().c_str());
    return {};
  }
  const bool domains = calls[1][kDomainCreateA] != nullptr && calls[1][kDomainRangePushEx] != nullptr &&
                       calls[1][kDomainRangePop] != nullptr;
  if (domains) domain = call<Domain (*)(const char*)>(1, kDomainCreateA)("Weft");
  detail::on = domain != nullptr || (calls[0][kRangePushA] != nullptr && calls[0][kRangePop] != nullptr);
  return {};
}

}  // namespace weft::trace
