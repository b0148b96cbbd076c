// SPDX-License-Identifier: BSD-3-Clause
// Devices and contexts. EMUCUDA_PEER=0: no peer access; EMUCUDA_NVLINK=0: peer access over PCIe;
// EMUCUDA_COMPUTE_MODE: CUcomputemode of the devices.
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "world.hpp"

namespace emucuda {
namespace {

/// Stack of current contexts of a thread. Trivially destructible: destructors of statics still use it.
class Stack {
 public:
  [[nodiscard]] bool empty() const { return depth_ == 0; }
  [[nodiscard]] ContextObject* back() const { return contexts_[depth_ - 1]; }
  void push_back(ContextObject* context) {
    if (depth_ == std::size(contexts_)) std::abort();  // unbalanced pushes
    contexts_[depth_++] = context;
  }
  void pop_back() { --depth_; }

 private:
  ContextObject* contexts_[256];
  size_t depth_;
};

thread_local Stack stack;

void add_device(World& world, int physical) {
  auto device = std::make_unique<Device>();
  device->physical = physical;
  device->primary.device = static_cast<int>(world.devices.size());
  device->primary.primary = true;
  void* region = ::mmap(nullptr, 2 * kRegion, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) {
    std::fprintf(stderr, "emucuda: no address space for a device\n");
    std::abort();
  }
  device->region = reinterpret_cast<uintptr_t>(region);
  device->mirror = device->region + kRegion;
  // Different start addresses per process, so that no address is valid in two processes by accident.
  device->bump = device->region + (static_cast<uintptr_t>(::getpid()) % 977) * (size_t{2} << 20);
  world.devices.push_back(std::move(device));
}

void activate(ContextObject& context) {
  context.alive = true;
  context.sticky = kSuccess;
  context.id = world().next_id++;
  context.legacy = new StreamObject{&context, true, false, 0, {}};
  world().streams.insert(context.legacy);
}

__attribute__((destructor)) void end_of_process() {
  const auto lock = lock_world();
  world().over = true;
}

bool known(ContextObject* context) {
  if (world().contexts.count(context) != 0) return true;
  return std::any_of(world().devices.begin(), world().devices.end(),
                     [&](const auto& device) { return &device->primary == context; });
}

}  // namespace

int driver_version() { return static_cast<int>(number("EMUCUDA_VERSION", 13000)); }
int ptx_driver_version() { return static_cast<int>(number("EMUCUDA_PTX_VERSION", 12080)); }
int capability() { return static_cast<int>(number("EMUCUDA_CAPABILITY", 90)); }

World& world() {
  static World& instance = *[] {
    auto* created = new World;
    created->delay = number("EMUCUDA_DELAY_US", 30) * 1000;
    created->polls = static_cast<unsigned>(number("EMUCUDA_POLLS", 3));
    created->peer = number("EMUCUDA_PEER", 1) != 0;
    created->nvlink = number("EMUCUDA_NVLINK", 1) != 0;
    created->kernels = static_cast<unsigned>(number("EMUCUDA_KERNELS", 128));
    created->connections = static_cast<unsigned>(number("CUDA_DEVICE_MAX_CONNECTIONS", 8));
    created->random = static_cast<uint32_t>(number("EMUCUDA_RESIDENT_KERNEL_EXITS", 0));
    const char* run = std::getenv("EMUCUDA_RUN");
    created->run_when_polled = run != nullptr && std::strcmp(run, "poll") == 0;
    return created;
  }();
  return instance;
}

uint64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time.tv_nsec);
}

Code ready() {
  if (world().over) return kDeinitialized;
  return world().initialised ? kSuccess : kNotInitialized;
}

Device* device_at(Ordinal ordinal) {
  const auto count = static_cast<Ordinal>(world().devices.size());
  return ordinal >= 0 && ordinal < count ? world().devices[static_cast<size_t>(ordinal)].get() : nullptr;
}

Code usable(ContextObject* context) {
  if (const Code code = ready(); code != kSuccess) return code;
  if (context == nullptr || !known(context)) return kInvalidContext;
  if (!context->alive) return kContextIsDestroyed;
  return context->sticky;
}

Code current(ContextObject** context) {
  *context = stack.empty() ? nullptr : stack.back();
  return usable(*context);
}

std::string uuid_of(int physical) {
  std::string uuid("emulated GPU    ", 16);
  uuid[15] = static_cast<char>('0' + physical);
  return uuid;
}

void release_context(ContextObject& context) {
  drain_context(context);
  for (auto at = world().streams.begin(); at != world().streams.end();) {
    StreamObject* stream = *at;
    if (stream->context != &context) {
      ++at;
      continue;
    }
    world().destroyed_streams.push_back(stream);
    at = world().streams.erase(at);
  }
  for (auto at = world().allocations.begin(); at != world().allocations.end();) {
    const auto next = std::next(at);
    if (at->second.context == &context) free_allocation(at);
    at = next;
  }
  context.alive = false;
}

#define EMUCUDA_READY()           \
  const auto lock = lock_world(); \
  if (const Code code = ready(); code != kSuccess) return code
#define EMUCUDA_DEVICE(ordinal)        \
  EMUCUDA_READY();                     \
  Device* device = device_at(ordinal); \
  if (device == nullptr) return kInvalidDevice

extern "C" {

Code cuInit(unsigned) {
  const auto lock = lock_world();
  forbid_weft("cuInit");
  if (world().over) return kDeinitialized;
  if (world().initialised) return kSuccess;
  const std::vector<int> visible = visible_devices();
  if (visible.empty()) return kNoDevice;
  for (const int physical : visible) add_device(world(), physical);
  world().initialised = true;
  return kSuccess;
}

Code cuDriverGetVersion(int* version) {
  *version = driver_version();
  return kSuccess;
}

Code cuGetErrorName(Code code, const char** name) {
  static const std::map<Code, const char*> names = {{0, "CUDA_SUCCESS"},
                                                    {1, "CUDA_ERROR_INVALID_VALUE"},
                                                    {2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                    {3, "CUDA_ERROR_NOT_INITIALIZED"},
                                                    {4, "CUDA_ERROR_DEINITIALIZED"},
                                                    {100, "CUDA_ERROR_NO_DEVICE"},
                                                    {101, "CUDA_ERROR_INVALID_DEVICE"},
                                                    {201, "CUDA_ERROR_INVALID_CONTEXT"},
                                                    {205, "CUDA_ERROR_MAP_FAILED"},
                                                    {208, "CUDA_ERROR_ALREADY_MAPPED"},
                                                    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"},
                                                    {400, "CUDA_ERROR_INVALID_HANDLE"},
                                                    {600, "CUDA_ERROR_NOT_READY"},
                                                    {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
                                                    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
                                                    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
                                                    {801, "CUDA_ERROR_NOT_SUPPORTED"}};
  const auto at = names.find(code);
  *name = at != names.end() ? at->second : "CUDA_ERROR_UNKNOWN";
  return kSuccess;
}

Code cuGetErrorString(Code, const char** text) {
  *text = "emulated driver";
  return kSuccess;
}

Code cuDeviceGetCount(int* count) {
  EMUCUDA_READY();
  *count = static_cast<int>(world().devices.size());
  return kSuccess;
}

Code cuDeviceGet(Ordinal* result, int ordinal) {
  EMUCUDA_DEVICE(ordinal);
  *result = ordinal;
  return kSuccess;
}

Code cuDeviceGetName(char* text, int size, Ordinal ordinal) {
  EMUCUDA_DEVICE(ordinal);
  std::snprintf(text, static_cast<size_t>(size), mig() ? "Emulated GPU MIG 1g.10gb" : "Emulated GPU");
  return kSuccess;
}

Code cuDeviceGetUuid(UuidBytes* uuid, Ordinal ordinal) { return cuDeviceGetUuid_v2(uuid, ordinal); }

Code cuDeviceGetUuid_v2(UuidBytes* uuid, Ordinal ordinal) {
  EMUCUDA_DEVICE(ordinal);
  std::memcpy(uuid->bytes, uuid_of(device->physical).data(), sizeof uuid->bytes);
  return kSuccess;
}

Code cuDeviceGetPCIBusId(char* text, int size, Ordinal ordinal) {
  EMUCUDA_DEVICE(ordinal);
  std::snprintf(text, static_cast<size_t>(size), "0000:%02X:00.0", 16 + device->physical);
  return kSuccess;
}

Code cuDeviceGetAttribute(int* value, int attribute, Ordinal ordinal) {
  EMUCUDA_DEVICE(ordinal);
  if (attribute == kDeviceMpsEnabled && driver_version() < 12030) return kInvalidValue;
  const std::map<int, int> values = {
      {kDeviceMaxPitch, 2147483647},
      {kDeviceMultiprocessors, multiprocessors()},
      {kDeviceComputeMode, static_cast<int>(number("EMUCUDA_COMPUTE_MODE", 0))},
      {kDeviceMpsEnabled, mps_clients() != 0 ? 1 : 0},
      {kDevicePciBus, 16 + device->physical},
      {41, 1},  // unified addressing
      {kDeviceCapabilityMajor, capability() / 10},
      {kDeviceCapabilityMinor, capability() % 10},
      {83, 1},  // managed memory
      {89, 1},
      {115, 1},
      {kDeviceGpuDirect, 1},
      {kDeviceRemoteWriteFlush, remote_write_flush()},
      {kDeviceRemoteWriteOrder, remote_write_order()},
      {125, 1},  // concurrent managed, pools, IPC
      {kDeviceStreamMemoryOperations, 1}};
  const auto at = values.find(attribute);
  *value = at != values.end() ? at->second : 0;
  return kSuccess;
}

Code cuDeviceTotalMem_v2(size_t* bytes, Ordinal ordinal) {
  EMUCUDA_DEVICE(ordinal);
  *bytes = kRegion / 2;
  return kSuccess;
}

Code cuDeviceCanAccessPeer(int* can, Ordinal ordinal, Ordinal peer) {
  EMUCUDA_DEVICE(ordinal);
  if (device_at(peer) == nullptr) return kInvalidDevice;
  *can = ordinal != peer && peer_access() ? 1 : 0;
  return kSuccess;
}

Code cuDeviceGetP2PAttribute(int* value, int attribute, Ordinal ordinal, Ordinal peer) {
  EMUCUDA_DEVICE(ordinal);
  constexpr int kNativeAtomics = 3;
  if (device_at(peer) == nullptr || ordinal == peer) return kInvalidDevice;
  if (attribute != kNativeAtomics) return kInvalidValue;
  *value = world().nvlink ? 1 : 0;
  return kSuccess;
}

Code cuDevicePrimaryCtxRetain(Context* context, Ordinal ordinal) {
  EMUCUDA_DEVICE(ordinal);
  if (device->primary.retains == 0) {
    forbid_weft("cuDevicePrimaryCtxRetain of an inactive context");
    activate(device->primary);
  }
  ++device->primary.retains;
  *context = &device->primary;
  return kSuccess;
}

Code cuDevicePrimaryCtxRelease_v2(Ordinal ordinal) {
  EMUCUDA_DEVICE(ordinal);
  if (device->primary.retains == 0) return kInvalidContext;
  if (--device->primary.retains == 0) release_context(device->primary);
  return kSuccess;
}

Code cuDevicePrimaryCtxReset_v2(Ordinal ordinal) {
  EMUCUDA_DEVICE(ordinal);
  forbid_weft("cuDevicePrimaryCtxReset");
  if (device->primary.retains != 0) release_context(device->primary);
  device->primary.retains = 0;
  return kSuccess;
}

Code cuDevicePrimaryCtxGetState(Ordinal ordinal, unsigned* flags, int* active) {
  EMUCUDA_DEVICE(ordinal);
  *flags = 0;
  *active = device->primary.retains != 0 ? 1 : 0;
  return kSuccess;
}

Code cuCtxCreate_v2(Context* context, unsigned, Ordinal ordinal) {
  EMUCUDA_DEVICE(ordinal);
  forbid_weft("cuCtxCreate");
  auto* created = new ContextObject;
  created->device = ordinal;
  activate(*created);
  world().contexts.insert(created);
  stack.push_back(created);
  *context = created;
  return kSuccess;
}

Code cuCtxDestroy_v2(Context handle) {
  EMUCUDA_READY();
  forbid_weft("cuCtxDestroy");
  auto* context = static_cast<ContextObject*>(handle);
  if (world().contexts.count(context) == 0) return kInvalidContext;
  if (!context->alive) return kContextIsDestroyed;
  release_context(*context);
  if (!stack.empty() && stack.back() == context) stack.pop_back();
  return kSuccess;
}

Code cuCtxPushCurrent_v2(Context handle) {
  EMUCUDA_READY();
  auto* context = static_cast<ContextObject*>(handle);
  if (context == nullptr || !known(context)) return kInvalidContext;
  if (!context->alive) return kContextIsDestroyed;
  stack.push_back(context);
  return kSuccess;
}

Code cuCtxPopCurrent_v2(Context* context) {
  EMUCUDA_READY();
  if (stack.empty()) return kInvalidContext;
  if (context != nullptr) *context = stack.back();
  stack.pop_back();
  return kSuccess;
}

Code cuCtxGetCurrent(Context* context) {
  EMUCUDA_READY();
  *context = stack.empty() ? nullptr : stack.back();
  return kSuccess;
}

Code cuCtxSetCurrent(Context handle) {
  EMUCUDA_READY();
  forbid_weft("cuCtxSetCurrent");
  if (!stack.empty()) stack.pop_back();
  return handle != nullptr ? cuCtxPushCurrent_v2(handle) : kSuccess;
}

Code cuCtxGetDevice(Ordinal* ordinal) {
  EMUCUDA_READY();
  if (stack.empty()) return kInvalidContext;
  *ordinal = stack.back()->device;
  return kSuccess;
}

Code cuCtxGetId(Context handle, unsigned long long* id) {
  EMUCUDA_READY();
  auto* context = handle != nullptr ? static_cast<ContextObject*>(handle)
                  : stack.empty()   ? nullptr
                                    : stack.back();
  if (context == nullptr || !known(context)) return kInvalidContext;
  if (!context->alive) return kContextIsDestroyed;
  *id = context->id;
  return kSuccess;
}

Code cuCtxEnablePeerAccess(Context handle, unsigned) {
  EMUCUDA_READY();
  forbid_weft("cuCtxEnablePeerAccess");
  ContextObject* context = nullptr;
  if (const Code code = current(&context); code != kSuccess) return code;
  auto* peer = static_cast<ContextObject*>(handle);
  if (const Code code = usable(peer); code != kSuccess) return code;
  if (!world().peer) return kPeerAccessUnsupported;
  return context->peers.insert(peer).second ? kSuccess : kPeerAccessAlreadyEnabled;
}

Code cuMemGetInfo_v2(size_t* available, size_t* total) {
  EMUCUDA_READY();
  *available = kRegion / 4;
  *total = kRegion / 2;
  return kSuccess;
}

}  // extern "C"
}  // namespace emucuda
