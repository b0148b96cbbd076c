// SPDX-License-Identifier: BSD-3-Clause
#include "device/collective.hpp"

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "device/cuda/context.hpp"
#include "device/cuda/image.hpp"

namespace weft::device {
namespace cuda {
namespace {

constexpr size_t kShapes = 3;  // of a kernel's launches, in use at a time

Error no_port(const std::string& reason) {
  return Error(Errc::unsupported, "collectives cannot run as GPU kernels (" + reason + ")");
}

}  // namespace

Status Ports::load() {
  Code code = load_module(Source::collective, module_);
  if (code == kSuccess) code = find_function(module_, "weft_collective_packets", kernels_[packets]);
  if (code == kSuccess) code = find_function(module_, "weft_collective_lines", kernels_[lines]);
  if (code == kSuccess) code = find_function(module_, "weft_collective_blocks", kernels_[blocks]);
  if (code == kSuccess) code = find_function(module_, "weft_collective_direct", kernels_[direct]);
  if (code == kSuccess) code = find_function(module_, "weft_collective_stream_packets", stream_by_packets_);
  if (code == kSuccess) code = find_function(module_, "weft_collective_stream_blocks", stream_by_blocks_);
  if (code == kSuccess) return {};
  return no_port(why_not_loaded(code));
}

Status Ports::make() {
  WEFT_TRY(load());
  constexpr size_t kPlaces = kPorts * sizeof(kernel::Collective::Places);
  constexpr size_t kHomes = kPorts * kLine, kZeros = kHomes + kPorts * sizeof(kernel::Collective),
                   kPinned = kZeros + kPlaces;
  void* page = nullptr;
  WEFT_CUDA_TRY(mem_host_alloc, "pinned memory for collectives cannot be allocated", &page, kPinned,
                kHostAllocPortable | kHostAllocDeviceMap);
  std::memset(page, 0, kPinned);
  status_ = static_cast<uint64_t*>(page);
  WEFT_CUDA_TRY(mem_host_get_device_pointer, "pinned memory is not mapped for the GPU", &status_address_,
                page, 0);
  WEFT_CUDA_TRY(mem_alloc, "GPU memory for collectives cannot be allocated", &places_, kPlaces);
  Stream stream = nullptr;
  WEFT_CUDA_TRY(stream_create_with_priority, "a stream for collectives cannot be created", &stream,
                kStreamNonBlocking, kHighestPriority);
  // Zero, before the first launch: the end of the page stays zero, and the stream keeps order.
  const Code code = driver().memcpy_async(places_, status_address_ + kZeros, kPlaces, stream);
  if (code != kSuccess) {
    driver().stream_destroy(stream);
    return failure(code, "cuMemcpyAsync", "GPU memory for collectives cannot be cleared");
  }
  stream_ = stream;
  for (size_t i = 0; i < kKernels; ++i)
    launchers_[i].open(kernels_[i], i == direct ? sizeof(kernel::Direct) : sizeof(kernel::Collective),
                       kShapes, stream);
  homes_ = reinterpret_cast<kernel::Collective*>(static_cast<std::byte*>(page) + kHomes);
  homes_address_.store(status_address_ + kHomes, std::memory_order_release);
  return {};
}

Status Ports::prepare() {
  const std::lock_guard lock(mutex_);
  return prepare_locked();
}

Status Ports::prepare_locked() {
  if (stream_ != nullptr) return {};
  const RelaxedCapture relaxed;
  Status made = make();
  if (!made) close();
  return made;
}

Result<uint32_t> Ports::take() {
  const std::lock_guard lock(mutex_);
  WEFT_TRY(prepare_locked());
  const auto at = std::find(taken_.begin(), taken_.end(), false);
  if (at == taken_.end())
    return Error(Errc::again,
                 "all places for collectives of a GPU are taken (" + std::to_string(kPorts) + ")");
  *at = true;
  const auto number = static_cast<uint32_t>(at - taken_.begin());
  __atomic_store_n(status_ + number * kLine / 8, 0, __ATOMIC_RELEASE);  // what an owner before has left
  ++versions_[number];
  return number;
}

void Ports::give(uint32_t number) {
  const std::lock_guard lock(mutex_);
  taken_[number] = false;
}

Code Ports::launch(Kernel kernel, unsigned blocks, unsigned threads, void* parameter) {
  const std::lock_guard lock(mutex_);
  return launchers_[kernel].launch(stream_, blocks, threads, parameter);
}

void Ports::close() {
  homes_address_.store(0, std::memory_order_release);
  for (Launcher& launcher : launchers_) launcher.close();
  if (stream_ != nullptr) driver().stream_destroy(stream_);
  if (module_ != nullptr) driver().module_unload(module_);
  if (places_ != 0) driver().mem_free(places_);
  if (status_ != nullptr) driver().mem_free_host(status_);
  stream_ = nullptr;
  module_ = nullptr;
  places_ = 0;
  status_ = nullptr;
}

}  // namespace cuda

namespace {

constexpr uint64_t kFaultCheckInterval = 1'000'000;  // ns; gpu.md, trap 10

cuda::State& as_state(void* state) { return *static_cast<cuda::State*>(state); }

}  // namespace

CollectivePort::~CollectivePort() {
  if (state_ != nullptr) as_state(state_).ports.give(number_);
}

Result<CollectivePort> CollectivePort::open(const Memory& near) {
  if (!cuda::launches_return())
    return cuda::no_port("CUDA_LAUNCH_BLOCKING=1 or CUDA_DEVICE_MAX_CONNECTIONS=1 is set");
  auto found = cuda::state_of(near);
  if (!found) return std::move(found).error();
  cuda::State& state = **found;
  const cuda::CurrentContext current(state.context);
  if (current.code() != cuda::kSuccess)
    return cuda::failure(current.code(), "cuCtxPushCurrent", "the GPU buffer's context cannot be used");
  auto number = state.ports.take();
  if (!number) return std::move(number).error();
  CollectivePort port;
  port.state_ = &state;
  port.number_ = *number;
  return port;
}

void CollectivePort::settle(const kernel::Collective& home) {
  cuda::Ports& ports = as_state(state_).ports;
  kernel::Collective& kept = ports.home(number_);
  kept = home;
  kept.status = ports.status_address(number_);
}

bool CollectivePort::ring(const kernel::Regular& call, Wire wire, uint32_t epoch, uint32_t blocks) {
  cuda::State& state = as_state(state_);
  const kernel::CallWord word{number_, state.ports.version(number_), call.shape, call.root, call.reduction};
  uint32_t words[8] = {
      static_cast<uint32_t>(call.out),
      static_cast<uint32_t>(call.out >> 32),
      static_cast<uint32_t>(call.in),
      static_cast<uint32_t>(call.in >> 32),
      static_cast<uint32_t>(call.bytes) | (wire == Wire::lines ? kernel::CallWord::Bytes::kLines : 0),
      blocks,
      word.packed(),
      epoch};
  rung_ = state.copier.ring_call(words);
  if (rung_ == 0) return false;
  expected_ = kernel::Collective::outcome(epoch, 0, false);
  check_at_ = 0;
  return true;
}

void CollectivePort::want_copier(uint32_t blocks) { as_state(state_).copier.want(blocks); }

bool CollectivePort::awake() const { return as_state(state_).copier.awake(); }

void CollectivePort::wake_copier() {
  cuda::State& state = as_state(state_);
  const cuda::CurrentContext current(state.context);
  if (current.code() == cuda::kSuccess) state.copier.consider_start();
}

Status CollectivePort::launch(kernel::Collective& call, Wire wire, uint32_t blocks, uint32_t threads) {
  using cuda::Ports;
  const auto kernel = wire == Wire::packets ? Ports::packets
                      : wire == Wire::lines ? Ports::lines
                                            : Ports::blocks;
  return start(call, kernel, &call, blocks, threads);
}

Status CollectivePort::launch(kernel::Direct& call, uint32_t blocks, uint32_t threads) {
  return start(call.call, cuda::Ports::direct, &call, blocks, threads);
}

Status CollectivePort::start(kernel::Collective& call, uint8_t kernel, void* parameter, uint32_t blocks,
                             uint32_t threads) {
  cuda::State& state = as_state(state_);
  call.places = state.ports.places(number_);
  call.status = state.ports.status_address(number_);
  call.blocks = blocks;
  rung_ = 0;
  expected_ = kernel::Collective::outcome(call.epoch, call.launch, false);
  check_at_ = 0;
  const cuda::CurrentContext current(state.context);
  if (current.code() != cuda::kSuccess)
    return cuda::failure(current.code(), "cuCtxPushCurrent", "the GPU buffer's context cannot be used");
  const cuda::RelaxedCapture relaxed;
  const cuda::Code code =
      state.ports.launch(static_cast<cuda::Ports::Kernel>(kernel), blocks, threads, parameter);
  if (code != cuda::kSuccess)
    return cuda::failure(code, "a launch", "a collective cannot be started on the GPU");
  return {};
}

Result<CollectivePort::Outcome> CollectivePort::look() {
  cuda::State& state = as_state(state_);
  const uint64_t word = __atomic_load_n(state.ports.status(number_), __ATOMIC_ACQUIRE);
  if ((word & ~uint64_t{1}) == expected_) {
    if (rung_ != 0)
      static_cast<void>(state.copier.look(rung_));  // frees its slot; its own word may come later
    return (word & 1) != 0 ? Outcome::late : Outcome::complete;
  }
  if (rung_ != 0 && state.copier.look(rung_) == cuda::Outcome::untouched) return Outcome::untouched;
  const uint64_t now = monotonic_ns();
  if (check_at_ == 0) check_at_ = now + kFaultCheckInterval;
  if (now < check_at_) return Outcome::running;
  check_at_ = now + kFaultCheckInterval;
  const cuda::CurrentContext current(state.context);
  const cuda::RelaxedCapture relaxed;
  const cuda::Code code = current.code() != cuda::kSuccess ? current.code()
                          : rung_ != 0                     ? state.copier.fault()
                                       : cuda::driver().stream_query(state.ports.stream());
  if (code == cuda::kSuccess || code == cuda::kNotReady) return Outcome::running;
  return cuda::failure(code, "cuStreamQuery",
                       "a collective failed on the GPU, or an earlier GPU operation of this program did");
}

bool CollectivePort::reaches(const Memory& memory) const {
  const cuda::State& state = as_state(state_);
  return memory.on_device() && memory.fault == 0 && memory.device == state.device &&
         (memory.context == nullptr || memory.context == state.context);
}

}  // namespace weft::device
