// SPDX-License-Identifier: BSD-3-Clause
// Client side of the NVTX injection protocol (interface of nvtx3): the profiler's library receives tables of
// function pointers and fills in the calls that it traces. Payloads of several fields are an extension of it.
#include "base/nvtx.hpp"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
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

constexpr int32_t kPayloadUnsigned64 = 1;                            // NVTX_PAYLOAD_TYPE_UNSIGNED_INT64
constexpr auto kPayloadExtended = static_cast<int32_t>(0xDFBD0009);  // NVTX_PAYLOAD_TYPE_EXT

/// nvtxEventAttributes_t
struct Attributes {
  uint16_t version = kVersion, size = sizeof(Attributes);
  uint32_t category = 0;
  int32_t color_type = 0;
  uint32_t color = 0;
  int32_t payload_type = 0;
  int32_t extended_payloads = 0;  // their number, with kPayloadExtended
  uint64_t payload = 0;
  int32_t message_type = 1;  // ASCII string
  const char* message = nullptr;
};
static_assert(sizeof(Attributes) == 48);

Pointer calls[2][kCalls + 1];  // functions of the profiler, by module
Pointer* tables[2][kCalls + 1];
void* library = nullptr;  // of the profiler, never unloaded
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

// The payload extension (nvToolsExtPayload.h).
constexpr uint16_t kPayloadModule = 2, kPayloadCompatibility = 0x0103;
constexpr uint64_t kInt32 = 15, kUnsigned64 = 18;  // NVTX_PAYLOAD_ENTRY_TYPE_*
constexpr unsigned kRegisterSchema = 0, kPayloadCalls = 2;

struct ModuleSegment {
  size_t id, calls;
  intptr_t* slots;
};
struct ModuleInfo {
  uint16_t version = kVersion, size = sizeof(ModuleInfo);
  uint16_t module = kPayloadModule, compatibility = kPayloadCompatibility;
  size_t segment_count = 1;
  ModuleSegment* segments;
  intptr_t (*get_export)(uint32_t) = nullptr;
  const void* type_info;
};
struct SchemaEntry {
  uint64_t flags, type;
  const char *name, *description;
  uint64_t array_length, offset;
  const void *semantics = nullptr, *reserved = nullptr;
};
struct Schema {
  uint64_t valid_fields;
  const char* name;
  uint64_t type, flags;
  const SchemaEntry* entries;
  size_t entry_count, size, pack_alignment;
  uint64_t id;
};
struct PayloadData {
  uint64_t schema;
  size_t size;
  const void* data;
};

uint64_t schema = 0;  // of Payload; 0: the profiler does not support the extension

/// Sizes and alignments of the types of entries, in the order of their numbers. The first is that of the
/// table.
struct TypeInfo {
  uint16_t size, alignment;
};
template <class T>
constexpr TypeInfo info_of = {sizeof(T), alignof(T)};
constexpr TypeInfo kTypeInfo[] = {
    {28, sizeof(TypeInfo)},
    info_of<char>,
    info_of<unsigned char>,
    info_of<short>,
    info_of<unsigned short>,
    info_of<int>,
    info_of<unsigned>,
    info_of<long>,
    info_of<unsigned long>,
    info_of<long long>,
    info_of<unsigned long long>,
    info_of<int8_t>,
    info_of<uint8_t>,
    info_of<int16_t>,
    info_of<uint16_t>,
    info_of<int32_t>,
    info_of<uint32_t>,
    info_of<int64_t>,
    info_of<uint64_t>,
    info_of<float>,
    info_of<double>,
    info_of<long double>,
    info_of<size_t>,
    info_of<void*>,
    info_of<wchar_t>,
    info_of<char8_t>,
    info_of<char16_t>,
    info_of<char32_t>,
};
static_assert(std::size(kTypeInfo) == 28);

/// Declares the layout of Payload to the profiler.
void register_schema() {
  using Initialise = int (*)(ModuleInfo*);
  auto initialise = reinterpret_cast<Initialise>(::dlsym(library, "InitializeInjectionNvtxExtension"));
  if (initialise == nullptr) return;
  static intptr_t slots[kPayloadCalls];
  static ModuleSegment segment{0, kPayloadCalls, slots};
  static ModuleInfo module{.segments = &segment, .type_info = kTypeInfo};
  constexpr intptr_t kDisabled = -1;
  if (initialise(&module) == 0 || slots[kRegisterSchema] == 0 || slots[kRegisterSchema] == kDisabled) return;
  static const SchemaEntry entries[] = {
      {0, kUnsigned64, "bytes", "Size of the message or collective in bytes", 0, offsetof(Payload, bytes)},
      {0, kInt32, "peer", "Rank in the communicator; -1: none", 0, offsetof(Payload, peer)},
      {0, kInt32, "tag", "Tag; -1: none", 0, offsetof(Payload, tag)},
      {0, kUnsigned64, "communicator", "Number of the communicator; 1: MPI_COMM_WORLD", 0,
       offsetof(Payload, communicator)},
  };
  constexpr uint64_t kName = 1 << 1, kType = 1 << 2, kEntries = 1 << 4, kEntryCount = 1 << 5, kSize = 1 << 6;
  constexpr uint64_t kStatic = 1;
  static const Schema layout{kName | kType | kEntries | kEntryCount | kSize,
                             "MPI",
                             kStatic,
                             0,
                             entries,
                             std::size(entries),
                             sizeof(Payload),
                             0,
                             0};
  using Register = uint64_t (*)(Domain, const Schema*);
  const uint64_t id = reinterpret_cast<Register>(slots[kRegisterSchema])(domain, &layout);
  if (id != UINT64_MAX) schema = id;
}

/// Loads the profiler's library and lets it fill in the tables.
Status attach() {
  const char* path = ::secure_getenv("NVTX_INJECTION64_PATH");
  if (path == nullptr || *path == '\0') return no_profiler("NVTX_INJECTION64_PATH is not set");
  library = secure::open_library(path, RTLD_LAZY);
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

void mark(const char* text, const Payload& payload) {
  if (domain == nullptr || calls[1][kDomainMarkEx] == nullptr) return;
  const PayloadData extended{schema, sizeof payload, &payload};
  Attributes attributes;
  attributes.message = text;
  if (schema != 0) {
    attributes.payload_type = kPayloadExtended;
    attributes.extended_payloads = 1;
    attributes.payload = reinterpret_cast<uintptr_t>(&extended);
  } else {
    attributes.payload_type = kPayloadUnsigned64;
    attributes.payload = payload.bytes;
  }
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
  // Nsight Systems drops the domain "MPI" unless its own wrappers of MPI are in use.
  if (domains) domain = call<Domain (*)(const char*)>(1, kDomainCreateA)("Weft");
  if (domain != nullptr) register_schema();
  attached = domain != nullptr || (calls[0][kRangePushA] != nullptr && calls[0][kRangePop] != nullptr);
  return {};
}

}  // namespace weft::nvtx
