// SPDX-License-Identifier: BSD-3-Clause
// Client side of the NVTX injection protocol (interface of nvtx3): the profiler's library receives tables of
// function pointers and fills in the calls that it traces.
#include "base/nvtx.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/config.hpp"
#include "base/log.hpp"
#include "base/secure.hpp"

namespace weft::nvtx {
namespace {

config::Choice setting(
    "trace.nvtx", 0, {"auto", "on", "off"},
    "NVTX ranges for each MPI call and protocol step; auto: if NVTX_INJECTION64_PATH is set; on: MPI_Init "
    "fails without a profiler; off: no ranges.",
    "the ranges are wanted with another profiler (on) or disturb a profile (off)");

constexpr uint32_t kVersion = 3;
constexpr uint32_t kTableCallbacks = 1, kTableVersion = 3;  // NVTX_ETID_*
constexpr int kCore = 1, kCore2 = 5;                        // NVTX_CB_MODULE_*
constexpr unsigned kCalls = 16;                             // functions per module; 0 is unused
constexpr unsigned kRangePushA = 9, kRangePop = 11;         // module kCore
constexpr unsigned kDomainMarkEx = 1, kDomainRangePushEx = 4, kDomainRangePop = 5,
                   kDomainCreateA = 12;  // module kCore2

using Pointer = void (*)();
using Domain = void*;

constexpr int32_t kPayloadUnsigned64 = 1;  // NVTX_PAYLOAD_TYPE_UNSIGNED_INT64

/// nvtxEventAttributes_t
struct Attributes {
  uint16_t version = kVersion, size = sizeof(Attributes);
  uint32_t category = 0;
  int32_t color_type = 0;
  uint32_t color = 0;
  int32_t payload_type = 0, reserved = 0;
  uint64_t payload = 0;
  int32_t message_type = 1;  // ASCII string
  const char* message = nullptr;
};
static_assert(sizeof(Attributes) == 48);

Pointer calls[2][kCalls + 1];  // functions of the profiler, by module
Pointer* tables[2][kCalls + 1];
Domain domain = nullptr;
bool attached = false;

template <class F>
F call(size_t module, unsigned number) {
  return reinterpret_cast<F>(calls[module][number]);
}

int get_callback_table(int module, Pointer*** table, unsigned* size) {
  if (module != kCore && module != kCore2) return 0;
  if (table != nullptr) *table = tables[module == kCore ? 0 : 1];
  if (size != nullptr) *size = kCalls;
  return 1;
}
void set_client_version(uint32_t) {}

struct CallbackTable {
  size_t size = sizeof(CallbackTable);
  int (*get)(int, Pointer***, unsigned*) = get_callback_table;
};
struct VersionTable {
  size_t size = sizeof(VersionTable);
  uint32_t version = kVersion, reserved = 0;
  void (*set_client)(uint32_t) = set_client_version;
};

const void* get_export_table(uint32_t id) {
  static const CallbackTable callbacks;
  static const VersionTable version;
  if (id == kTableCallbacks) return &callbacks;
  return id == kTableVersion ? &version : nullptr;
}

Error no_profiler(const std::string& why) {
  return Error(Errc::unsupported, "no profiler receives NVTX ranges (" + why +
                                      "): unset WEFT_TRACE_NVTX, or start the program "
                                      "under a profiler that traces NVTX");
}

/// Loads the profiler's library, never unloads it, and lets it fill in the tables.
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
  if (initialise(get_export_table) == 0) return no_profiler(std::string(path) + " failed to initialise");
  return {};
}

}  // namespace

bool enabled() { return attached; }

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

void mark(const char* text, uint64_t bytes) {
  if (domain == nullptr || calls[1][kDomainMarkEx] == nullptr) return;
  Attributes attributes;
  attributes.message = text;
  attributes.payload_type = kPayloadUnsigned64;
  attributes.payload = bytes;
  call<void (*)(Domain, const Attributes*)>(1, kDomainMarkEx)(domain, &attributes);
}

Status open() {
  if (attached || setting.is("off")) return {};
  if (setting.is("auto") && ::secure_getenv("NVTX_INJECTION64_PATH") == nullptr) return {};
  Status loaded = attach();
  if (!loaded.ok()) {
    if (setting.is("on")) return loaded;
    log::write(log::Level::warn, "%s", loaded.error().message().c_str());
    return {};
  }
  const bool domains = calls[1][kDomainCreateA] != nullptr && calls[1][kDomainRangePushEx] != nullptr &&
                       calls[1][kDomainRangePop] != nullptr;
  if (domains) domain = call<Domain (*)(const char*)>(1, kDomainCreateA)("Weft");
  attached = domain != nullptr || (calls[0][kRangePushA] != nullptr && calls[0][kRangePop] != nullptr);
  return {};
}

}  // namespace weft::nvtx
