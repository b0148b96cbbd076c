// SPDX-License-Identifier: BSD-3-Clause
#include "device/collective.hpp"

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "device/cuda/image.hpp"
#include "device/queue/work_queue.hpp"

namespace weft::device {
namespace cuda {
namespace {

constexpr size_t kLaunchShapes = 3;  // grid shapes of one kernel in use at a time

Error no_slot(const std::string& reason) {
  return Error(Errc::unsupported, "collectives cannot run as GPU kernels (" + reason + ")");
}

}  // namespace

Status CollectiveSlots::load() {
  Code code = load_module(Source::collective, module_);
  if (code == kSuccess) code = find_function(module_, "weft_collective_ll", kernels_[ll]);
  if (code == kSuccess) code = find_function(module_, "weft_collective_ll128", kernels_[ll128]);
  if (code == kSuccess) code = find_function(module_, "weft_collective_simple", kernels_[simple]);
  if (code == kSuccess) code = find_function(module_, "weft_collective_direct", kernels_[direct]);
  if (code == kSuccess) code = load_module(Source::blocks, blocks_module_);
  if (code == kSuccess) code = find_function(blocks_module_, "weft_collective_blocks", kernels_[blocks]);
  if (code == kSuccess) code = find_function(blocks_module_, "weft_collective_pairs", kernels_[pairs]);
  if (code == kSuccess) code = find_function(module_, "weft_collective_stream_ll", stream_ll_kernel_);
  if (code == kSuccess) code = find_function(module_, "weft_collective_stream_simple", stream_simple_kernel_);
  if (code == kSuccess) return {};
  return no_slot(load_failure_reason(code));
}

Status CollectiveSlots::make() {
  WEFT_TRY(load());
  constexpr size_t kResumeStates = kSlots * sizeof(kernel::Collective::ResumeState);
  constexpr size_t kSlotConfigs = kSlots * kLine, kZeros = kSlotConfigs + kSlots * sizeof(kernel::Collective),
                   kPinned = kZeros + kResumeStates;
  void* page = nullptr;
  WEFT_CUDA_TRY(mem_host_alloc, "pinned memory for collectives cannot be allocated", &page, kPinned,
                kHostAllocPortable | kHostAllocDeviceMap);
  std::memset(page, 0, kPinned);
  status_ = static_cast<uint64_t*>(page);
  WEFT_CUDA_TRY(mem_host_get_device_pointer, "pinned memory is not mapped for the GPU", &status_address_,
                page, 0);
  WEFT_CUDA_TRY(mem_alloc, "GPU memory for collectives cannot be allocated", &resume_states_, kResumeStates);
  Stream stream = nullptr;
  WEFT_CUDA_TRY(stream_create_with_priority, "a stream for collectives cannot be created", &stream,
                kStreamNonBlocking, kHighestPriority);
  // Zeroed from the unused end of the page, in stream order before the first launch.
  const Code code = driver().memcpy_async(resume_states_, status_address_ + kZeros, kResumeStates, stream);
  if (code != kSuccess) {
    driver().stream_destroy(stream);
    return failure(code, "cuMemcpyAsync", "GPU memory for collectives cannot be cleared");
  }
  stream_ = stream;
  for (size_t i = 0; i < kKernels; ++i) {
    const size_t parameter = i == direct   ? sizeof(kernel::Direct)
                             : i == blocks ? sizeof(kernel::Blocks)
                             : i == pairs  ? sizeof(kernel::PairBlocks)
                                           : sizeof(kernel::Collective);
    launchers_[i].open(kernels_[i], parameter, kLaunchShapes, stream);
  }
  slot_configs_ = reinterpret_cast<kernel::Collective*>(static_cast<std::byte*>(page) + kSlotConfigs);
  slot_configs_address_.store(status_address_ + kSlotConfigs, std::memory_order_release);
  return {};
}

Status CollectiveSlots::prepare() {
  const std::lock_guard lock(mutex_);
  return prepare_locked();
}

Status CollectiveSlots::prepare_locked() {
  if (stream_ != nullptr) return {};
  const RelaxedCapture relaxed;
  Status made = make();
  if (!made) close();
  return made;
}

Result<uint32_t> CollectiveSlots::acquire() {
  const std::lock_guard lock(mutex_);
  WEFT_TRY(prepare_locked());
  const auto at = std::find(in_use_.begin(), in_use_.end(), false);
  if (at == in_use_.end())
    return Error(Errc::again,
                 "all slots for collectives of a GPU are in use (" + std::to_string(kSlots) + ")");
  *at = true;
  const auto number = static_cast<uint32_t>(at - in_use_.begin());
  clear_status(number);  // of the previous owner
  ++versions_[number];
  return number;
}

void CollectiveSlots::release(uint32_t number) {
  const std::lock_guard lock(mutex_);
  in_use_[number] = false;
}

Code CollectiveSlots::launch(Kernel kernel, unsigned blocks, unsigned threads, void* parameter) {
  const std::lock_guard lock(mutex_);
  return launchers_[kernel].launch(stream_, blocks, threads, parameter);
}

void CollectiveSlots::close() {
  slot_configs_address_.store(0, std::memory_order_release);
  for (Launcher& launcher : launchers_) launcher.close();
  if (stream_ != nullptr) driver().stream_destroy(stream_);
  for (Module* module : {&module_, &blocks_module_}) {
    if (*module != nullptr) driver().module_unload(*module);
    *module = nullptr;
  }
  if (resume_states_ != 0) driver().mem_free(resume_states_);
  if (status_ != nullptr) driver().mem_free_host(status_);
  stream_ = nullptr;
  resume_states_ = 0;
  status_ = nullptr;
}

}  // namespace cuda

namespace {

config::Size region_data_bytes{
    "coll.gpu_region_bytes", 22 << 19, 2 << 20, size_t{1} << 30,
    "Bytes in the region of a communicator for the Simple protocol; the LL and LL128 parts take 7 MiB more. "
    "Larger regions allow larger chunks."};

constexpr uint64_t kFaultCheckIntervalNs = 1'000'000;  // ns; gpu.md, trap 10

cuda::WorkQueue& as_queue(void* queue) { return *static_cast<cuda::WorkQueue*>(queue); }

}  // namespace

size_t collective_region_bytes() { return kernel::RegionLayout::kClearedBytes + region_data_bytes; }

CollectiveSlot::~CollectiveSlot() {
  if (queue_ != nullptr) as_queue(queue_).collective_slots.release(index_);
}

Result<CollectiveSlot> CollectiveSlot::open(const Memory& near) {
  if (!cuda::launches_are_async())
    return cuda::no_slot("CUDA_LAUNCH_BLOCKING=1 or CUDA_DEVICE_MAX_CONNECTIONS=1 is set");
  auto found = cuda::queue_of(near);
  if (!found) return std::move(found).error();
  cuda::WorkQueue& queue = **found;
  const cuda::CurrentContext current(queue.context);
  if (current.code() != cuda::kSuccess)
    return cuda::failure(current.code(), "cuCtxPushCurrent", "the GPU buffer's context cannot be used");
  auto number = queue.collective_slots.acquire();
  if (!number) return std::move(number).error();
  CollectiveSlot slot;
  slot.queue_ = &queue;
  slot.index_ = *number;
  return slot;
}

void CollectiveSlot::set_config(const kernel::Collective& shared) {
  cuda::CollectiveSlots& slots = as_queue(queue_).collective_slots;
  kernel::Collective& config = slots.config(index_);
  config = shared;
  config.status = slots.status_address(index_);
}

bool CollectiveSlot::submit_to_resident_kernel(const kernel::Regular& call, Protocol protocol, uint32_t epoch,
                                               uint32_t blocks) {
  cuda::WorkQueue& queue = as_queue(queue_);
  const kernel::CallWord word{index_, queue.collective_slots.version(index_), call.shape, call.root,
                              call.reduction};
  uint32_t words[8] = {
      static_cast<uint32_t>(call.out),
      static_cast<uint32_t>(call.out >> 32),
      static_cast<uint32_t>(call.in),
      static_cast<uint32_t>(call.in >> 32),
      static_cast<uint32_t>(call.bytes) | (protocol == Protocol::ll128 ? kernel::CallWord::Bytes::kLL128 : 0),
      blocks,
      word.packed(),
      epoch};
  command_ = queue.resident_kernel.submit_call(words);
  if (command_ == 0) return false;
  expected_status_ = kernel::Collective::outcome(epoch, 0, false);
  fault_check_at_ = 0;
  return true;
}

void CollectiveSlot::record_resident_demand(uint32_t blocks) {
  as_queue(queue_).resident_kernel.record_demand(blocks);
}

bool CollectiveSlot::resident_kernel_running() const { return as_queue(queue_).resident_kernel.running(); }

void CollectiveSlot::start_resident_kernel() {
  cuda::WorkQueue& queue = as_queue(queue_);
  const cuda::CurrentContext current(queue.context);
  if (current.code() == cuda::kSuccess) queue.resident_kernel.start_if_due();
}

void CollectiveSlot::clear_outcome() { as_queue(queue_).collective_slots.clear_status(index_); }

Status CollectiveSlot::launch(kernel::Collective& call, Protocol protocol, uint32_t blocks,
                              uint32_t threads) {
  using cuda::CollectiveSlots;
  const auto kernel = protocol == Protocol::ll      ? CollectiveSlots::ll
                      : protocol == Protocol::ll128 ? CollectiveSlots::ll128
                                                    : CollectiveSlots::simple;
  call.blocks = blocks;
  return start(call, kernel, &call, blocks, threads);
}

Status CollectiveSlot::launch(kernel::Direct& call, uint32_t blocks, uint32_t threads) {
  call.call.blocks = blocks;
  return start(call.call, cuda::CollectiveSlots::direct, &call, blocks, threads);
}

Status CollectiveSlot::launch(kernel::Blocks& call, uint32_t blocks, uint32_t threads) {
  call.call.blocks = blocks;
  return start(call.call, cuda::CollectiveSlots::blocks, &call, blocks, threads);
}

Status CollectiveSlot::launch(kernel::PairBlocks& call) {
  return start(call, cuda::CollectiveSlots::pairs, &call, call.thread_blocks(), kernel::Collective::kThreads);
}

template <class Call>
Status CollectiveSlot::start(Call& call, uint8_t kernel, void* parameter, uint32_t blocks, uint32_t threads) {
  cuda::WorkQueue& queue = as_queue(queue_);
  call.resume_state = queue.collective_slots.resume_state(index_);
  call.status = queue.collective_slots.status_address(index_);
  command_ = 0;
  expected_status_ = kernel::Collective::outcome(call.epoch, call.launch, false);
  fault_check_at_ = 0;
  const cuda::CurrentContext current(queue.context);
  if (current.code() != cuda::kSuccess)
    return cuda::failure(current.code(), "cuCtxPushCurrent", "the GPU buffer's context cannot be used");
  const cuda::RelaxedCapture relaxed;
  const cuda::Code code = queue.collective_slots.launch(static_cast<cuda::CollectiveSlots::Kernel>(kernel),
                                                        blocks, threads, parameter);
  if (code != cuda::kSuccess)
    return cuda::failure(code, "kernel launch", "a collective cannot be started on the GPU");
  return {};
}

Result<CollectiveSlot::Outcome> CollectiveSlot::poll() {
  cuda::WorkQueue& queue = as_queue(queue_);
  const uint64_t word = __atomic_load_n(queue.collective_slots.status(index_), __ATOMIC_ACQUIRE);
  if ((word & ~uint64_t{1}) == expected_status_) {
    if (command_ != 0)
      static_cast<void>(
          queue.resident_kernel.poll(command_));  // frees its slot; the command status may arrive later
    return (word & 1) != 0 ? Outcome::timed_out : Outcome::complete;
  }
  if (command_ != 0 && queue.resident_kernel.poll(command_) == cuda::Outcome::not_started)
    return Outcome::not_started;
  const uint64_t now = monotonic_ns();
  if (fault_check_at_ == 0) fault_check_at_ = now + kFaultCheckIntervalNs;
  if (now < fault_check_at_) return Outcome::running;
  fault_check_at_ = now + kFaultCheckIntervalNs;
  const cuda::CurrentContext current(queue.context);
  const cuda::RelaxedCapture relaxed;
  const cuda::Code code = current.code() != cuda::kSuccess ? current.code()
                          : command_ != 0                  ? queue.resident_kernel.fault()
                                          : cuda::driver().stream_query(queue.collective_slots.stream());
  if (code == cuda::kSuccess || code == cuda::kNotReady) return Outcome::running;
  return cuda::failure(code, "cuStreamQuery",
                       "a collective failed on the GPU, or an earlier GPU operation of this program did");
}

bool CollectiveSlot::can_access(const Memory& memory) const {
  const cuda::WorkQueue& queue = as_queue(queue_);
  return memory.on_device() && memory.fault == 0 && memory.device == queue.device &&
         (memory.context == nullptr || memory.context == queue.context);
}

}  // namespace weft::device
