// SPDX-License-Identifier: BSD-3-Clause
// Modules, launches and running kernels: limit of concurrent kernels, clock, and waits.
#include "kernel.hpp"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "world.hpp"

namespace emucuda {
namespace {

constexpr uint64_t kMaxTickNs = 1'000;            // ns
constexpr uint64_t kDeadlockNs = 30'000'000'000;  // ns
constexpr unsigned kYieldRounds = 1'000;          // yields before sleeping
constexpr Code kNotFound = 500, kLaunchTooBig = 701, kNoBinary = 209, kUnsupportedPtx = 222;
constexpr uint32_t kFatBinary = 0xba55ed50;

struct FatBinary {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;  // of all entries
};

/// One image in a fat binary. Further fields follow.
struct FatBinaryEntry {
  enum Kind : uint16_t { ptx = 1, machine_code = 2 } kind;
  uint16_t version;
  uint32_t header_bytes;
  uint64_t bytes;  // of the image, behind the header
  uint32_t unused[3];
  uint32_t generation;
};

struct ModuleObject;

struct FunctionObject {
  const KernelEntry* entry;
  ModuleObject* module;
  bool loaded = false;  // set by the first launch
};

struct ModuleObject {
  ContextObject* context;
  std::vector<std::unique_ptr<FunctionObject>> functions;
};

std::map<ModuleObject*, std::unique_ptr<ModuleObject>>& modules() {
  static auto& instance = *new std::map<ModuleObject*, std::unique_ptr<ModuleObject>>;
  return instance;
}

FunctionObject* find_function(Function handle) {
  for (const auto& [key, module] : modules())
    for (const auto& function : module->functions)
      if (function.get() == handle) return function.get();
  return nullptr;
}

size_t running_on(int device) {
  return static_cast<size_t>(std::count_if(
      world().streams.begin(), world().streams.end(),
      [&](const StreamObject* stream) { return stream->context->device == device && running(*stream); }));
}

/// Checks a fat binary against driver version and devices: machine code of the device's major generation
/// comes first, then PTX. Other images are accepted, for tests.
Code accept(const void* image) {
  FatBinary fat{};
  std::memcpy(&fat.magic, image, sizeof fat.magic);
  if (fat.magic != kFatBinary) return kSuccess;
  std::memcpy(&fat, image, sizeof fat);
  const char* at = static_cast<const char*>(image) + fat.header_bytes;
  const char* const end = at + fat.bytes;
  bool has_ptx = false;
  for (FatBinaryEntry entry; at < end; at += entry.header_bytes + entry.bytes) {
    std::memcpy(&entry, at, sizeof entry);
    const int generation = static_cast<int>(entry.generation);
    if (entry.kind == FatBinaryEntry::ptx) {
      has_ptx = has_ptx || generation <= capability();
    } else if (generation / 10 == capability() / 10 && generation <= capability()) {
      ++world().machine_code;
      return kSuccess;
    }
  }
  if (!has_ptx) return kNoBinary;
  if (driver_version() < ptx_driver_version()) return kUnsupportedPtx;
  ++world().ptx;
  return kSuccess;
}

/// Under MPS the kernels that wait for other ranks must run at the same time on all clients of a device: each
/// client has its share of the multiprocessors, one per block.
void check_share(const char* name, unsigned blocks) {
  const bool waits =
      std::strncmp(name, "weft_collective", 15) == 0 || std::strcmp(name, "weft_resident_kernel") == 0;
  if (mps_clients() < 2 || !waits || !strict() || !called_by_weft()) return;
  if (blocks > std::max(1u, static_cast<unsigned>(multiprocessors()) / mps_clients()))
    abort_weft("more blocks than this client's share of the GPU under MPS", name);
}

bool fits(unsigned x, unsigned y, unsigned z, unsigned most) {
  return x != 0 && y != 0 && z != 0 && uint64_t{x} * y * z <= most;
}

}  // namespace

uint64_t tick() {
  const uint64_t time = now();
  world().clock += std::min(time - world().clock_read, kMaxTickNs);
  world().clock_read = time;
  return world().clock;
}

bool can_start_kernel(const StreamObject& stream) {
  return running_on(stream.context->device) < world().kernels;
}

bool any_running() {
  return std::any_of(world().streams.begin(), world().streams.end(),
                     [](const StreamObject* stream) { return running(*stream); });
}

void wait_for_kernels(int device) {
  const WaitMeter meter;
  WaitBackoff backoff(nullptr);
  while (running_on(device) != 0)
    if (!give_turns()) backoff.wait();
}

void sleep_for(const char* variable) {
  const char* const us = std::getenv(variable);
  if (us != nullptr) ::usleep(static_cast<useconds_t>(std::strtoul(us, nullptr, 10)));
}

WaitMeter::WaitMeter()
    : resident_(std::any_of(world().streams.begin(), world().streams.end(),
                            [](const StreamObject* stream) {
                              return running(*stream) && stream->queue.front().kernel->is_resident();
                            })),
      begin_(world().clock) {}

WaitMeter::~WaitMeter() {
  if (!resident_) return;
  ResidentKernelWaits& waits = world().waits[called_by_weft() ? 1 : 0];
  ++waits.count;
  waits.longest = std::max<unsigned long>(waits.longest, world().clock - begin_);
}

void WaitBackoff::wait() {
  if (begin_ == 0) begin_ = now();
  if (now() - begin_ > kDeadlockNs) {
    std::fprintf(stderr, "emucuda: deadlock: a driver call has waited half a minute for a kernel to end\n");
    std::abort();
  }
  if (released_ != nullptr) released_->unlock();
  if (++rounds_ < kYieldRounds) {
    ::sched_yield();
  } else {
    const timespec pause{0, 50'000};
    ::nanosleep(&pause, nullptr);
  }
  if (released_ != nullptr) released_->lock();
}

Code make_launch(const KernelNode& node, const ContextObject* context, Operation& operation) {
  FunctionObject* function = find_function(node.function);
  if (function == nullptr || (context != nullptr && function->module->context != context))
    return kInvalidHandle;
  if (node.parameters == nullptr || node.extra != nullptr) return kInvalidValue;
  if (!fits(node.grid[0], node.grid[1], node.grid[2], 1u << 31) ||
      !fits(node.block[0], node.block[1], node.block[2], 1024))
    return kLaunchTooBig;
  check_share(function->entry->name, node.grid[0]);
  ContextObject& own = *function->module->context;
  if (!function->loaded) {  // modules load lazily
    forbid_unsafe("the first launch of a kernel outside relaxed capture mode");
    wait_for_kernels(own.device);
    function->loaded = true;
  }
  operation.kernel = function->entry->create(own, node.parameters);
  return kSuccess;
}

extern "C" {

// The emulated GPU runs host functions: every image contains all kernels.
Code emucudaKernelImage(const void** image) {
  static const uint32_t any = 0;
  *image = &any;
  return kSuccess;
}

Code cuModuleLoadData(Module* handle, const void* image) {
  const auto lock = lock_world();
  ContextObject* context = nullptr;
  if (const Code code = current(&context); code != kSuccess) return code;
  forbid_unsafe("cuModuleLoadData outside relaxed capture mode");
  if (image == nullptr) return kInvalidValue;
  if (const Code code = accept(image); code != kSuccess) return code;
  sleep_for("EMUCUDA_MODULE_LOAD_US");
  wait_for_kernels(context->device);
  auto module = std::make_unique<ModuleObject>();
  module->context = context;
  *handle = module.get();
  modules().emplace(module.get(), std::move(module));
  return kSuccess;
}

Code cuModuleUnload(Module handle) {
  const auto lock = lock_world();
  ContextObject* context = nullptr;
  if (const Code code = current(&context); code != kSuccess) return code;
  forbid_unsafe("cuModuleUnload outside relaxed capture mode");
  const auto at = modules().find(static_cast<ModuleObject*>(handle));
  if (at == modules().end()) return kInvalidHandle;
  wait_for_kernels(at->second->context->device);
  modules().erase(at);
  return kSuccess;
}

Code cuModuleGetFunction(Function* handle, Module module_handle, const char* name) {
  const auto lock = lock_world();
  if (const Code code = ready(); code != kSuccess) return code;
  const auto at = modules().find(static_cast<ModuleObject*>(module_handle));
  if (at == modules().end()) return kInvalidHandle;
  const KernelEntry* entry = find_kernel(name);
  if (entry == nullptr) return kNotFound;
  auto& functions = at->second->functions;
  auto known = std::find_if(functions.begin(), functions.end(),
                            [&](const auto& function) { return function->entry == entry; });
  if (known == functions.end())
    known =
        functions.insert(known, std::make_unique<FunctionObject>(FunctionObject{entry, at->second.get()}));
  *handle = known->get();
  return kSuccess;
}

Code cuFuncLoad(Function handle) {
  const auto lock = lock_world();
  FunctionObject* function = find_function(handle);
  if (function == nullptr) return kInvalidHandle;
  if (function->loaded) return kSuccess;
  forbid_unsafe("cuFuncLoad outside relaxed capture mode");
  wait_for_kernels(function->module->context->device);
  function->loaded = true;
  return kSuccess;
}

Code cuLaunchKernel(Function handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                    unsigned block_y, unsigned block_z, unsigned, Stream stream_handle, void** parameters,
                    void** extra) {
  const auto lock = lock_world();
  StreamObject* stream = nullptr;
  if (const Code code = stream_of(stream_handle, &stream); code != kSuccess) return code;
  const KernelNode node{
      handle, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, 0, parameters, extra, nullptr, nullptr};
  Operation operation{Operation::Type::kernel};
  if (const Code code = make_launch(node, stream->context, operation); code != kSuccess) return code;
  enqueue(*stream, std::move(operation));
  return stream->context->sticky;
}

}  // extern "C"
}  // namespace emucuda
