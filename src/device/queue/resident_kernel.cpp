// SPDX-License-Identifier: BSD-3-Clause
#include "device/queue/resident_kernel.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/cold.hpp"
#include "base/config.hpp"
#include "base/counters.hpp"
#include "base/log.hpp"
#include "device/queue/work_queue.hpp"
#include "device/time_slices.hpp"

namespace weft::device::cuda {
namespace {

config::Choice setting_enabled(
    "gpu.resident_kernel", 0, {"auto", "on", "off"},
    "Resident kernel for small GPU copies in quick succession: auto (not with "
    "CUDA_LAUNCH_BLOCKING, a single connection, or several ranks on a GPU without MPS), on, off.",
    "the application measures or waits for an idle GPU and Weft must not keep a kernel on it (off)");
config::Size setting_max(
    "gpu.resident_kernel_max_bytes", size_t{256} << 10, 0, size_t{1} << 20,
    "Largest GPU copy in bytes served by the resident kernel; larger ones use copy engines "
    "or a batch copy kernel");
config::Size setting_batch_max("gpu.resident_kernel_batch_max_bytes", size_t{32} << 10, 0, size_t{1} << 30,
                               "Largest total bytes of a batch of GPU copies served by the resident kernel");
config::Size setting_idle_timeout(
    "gpu.resident_kernel_idle_timeout_ns", 13'000, 1'000, 1'000'000,
    "Longest time in ns without a command after which the resident kernel ends; "
    "larger values occupy the GPU longer");
config::Size setting_lifetime("gpu.resident_kernel_lifetime_ns", 1'000'000, 10'000, 10'000'000,
                              "Longest run time in ns of one instance of the resident kernel; larger values "
                              "delay the application's device synchronisation longer");

config::Size setting_max_gap(
    "gpu.resident_kernel_max_gap_ns", 100'000, 1'000, 1'000'000'000,
    "Longest time in ns between two small GPU copies that count as quick succession; "
    "larger values start the resident kernel more often");

config::Size setting_first_command(
    "gpu.resident_kernel_first_command", 0, 0, 0xffff'ffff,
    "First command number and instance number of the resident kernel; only for tests of their wraparound");

counters::Counter commands("gpu.resident_kernel_commands", counters::Unit::events,
                           "Commands given to the resident kernel");
counters::Counter not_started("gpu.resident_kernel_not_started", counters::Unit::events,
                              "Commands returned to copy engines because the resident kernel ended first");
counters::Counter instances("gpu.resident_kernel_instances", counters::Unit::events,
                            "Starts of the resident kernel");

log::SlowPath no_resident_kernel{"gpu.no_resident_kernel", "small GPU messages take about 3 us longer"};

// Largest first command of an instance: no instance runs long enough to reach the wraparound from here.
constexpr uint32_t kMaxFirstCommand = 0xffff'0000;
constexpr uint64_t kKeepRunningRetryNs = 20'000;    // ns between calls of keep_running() without an instance
constexpr uint64_t kCloseTimeoutNs = 100'000'000;   // ns that close() waits for the instance to end
constexpr size_t kBytesPerBlock = size_t{8} << 10;  // one block copies these as fast as several
constexpr size_t kSingleBlockBatchBytes = size_t{32} << 10;  // the same for a batch, one warp per item
constexpr size_t kLaunchShapes = 3;                          // grids of one block, eight and sixteen
constexpr unsigned kSingleBlockThreads = 128;                // threads of a single-block instance

bool enabled() {
  if (setting_enabled.is("on")) return true;
  return setting_enabled.is("auto") && launches_are_async();
}

bool reached(uint32_t done, uint32_t number) { return static_cast<int32_t>(done - number) >= 0; }

size_t bytes_of(std::span<const kernel::CopyItem> items) {
  size_t bytes = 0;
  for (const kernel::CopyItem& item : items) bytes += item.bytes;
  return bytes;
}

uint32_t blocks_for(size_t count, size_t bytes) {
  if (count > 1) return bytes <= kSingleBlockBatchBytes ? 1 : kernel::ResidentKernelParams::kBlocks;
  return static_cast<uint32_t>(
      std::clamp<size_t>(bytes / kBytesPerBlock, 1, kernel::ResidentKernelParams::kBlocks));
}

/// Blocks of an instance for commands of `wanted` blocks, at most `most`: one of kLaunchShapes.
uint32_t instance_blocks(uint32_t wanted, uint32_t most) {
  using Params = kernel::ResidentKernelParams;
  if (wanted == 1 || most < Params::kBlocks) return 1;
  return most < Params::kMostBlocks ? Params::kBlocks : std::max(wanted, Params::kBlocks);
}

}  // namespace

bool ResidentKernel::gpu_is_shared() const {
  return !setting_enabled.is("on") && time_sliced(queue_->device);
}

void ResidentKernel::open(WorkQueue& queue) {
  if (!enabled() || queue.kernels.resident_kernel == nullptr) return;
  const cold::Timer timer(cold::Part::resident);
  using Params = kernel::ResidentKernelParams;
  constexpr size_t kRing = sizeof(kernel::Command) * Params::kSlots, kStatus = sizeof(kernel::Command);
  constexpr size_t kItems = sizeof(kernel::CopyItem) * Params::kItems;
  constexpr size_t kPinned = kRing + kStatus + kItems * Params::kSlots;
  void* page = nullptr;
  Address address = 0;
  Code code = driver().mem_host_alloc(&page, kPinned, kHostAllocPortable | kHostAllocDeviceMap);
  if (code == kSuccess) {
    std::memset(page, 0, kPinned);
    ring_ = static_cast<kernel::Command*>(page);
    code = driver().mem_host_get_device_pointer(&address, page, 0);
  }
  if (code == kSuccess) code = driver().mem_alloc(&memory_, sizeof(Params::Memory));
  if (code == kSuccess)
    code = driver().stream_create_with_priority(&stream_, kStreamNonBlocking, kHighestPriority);
  if (code == kSuccess)  // zeroed from the ring, in stream order before the first instance
    code = driver().memcpy_async(memory_, address, sizeof(Params::Memory), stream_);
  if (code != kSuccess) {
    no_resident_kernel.hit("its memory cannot be allocated (" + describe(code) + ")");
    return close();
  }
  launcher_.open(queue.kernels.resident_kernel, sizeof(Params), kLaunchShapes, stream_);
  ring_address_ = address;
  status_address_ = address + kRing;
  status_ = reinterpret_cast<uint64_t*>(static_cast<char*>(page) + kRing);
  items_address_ = address + kRing + kStatus;
  for (size_t i = 0; i < slots_.size(); ++i)
    slots_[i].items =
        reinterpret_cast<kernel::CopyItem*>(static_cast<char*>(page) + kRing + kStatus + i * kItems);
  submitted_ = static_cast<uint32_t>(setting_first_command);
  instance_ = static_cast<uint16_t>(setting_first_command);
  policy_.configure(setting_max_gap, setting_idle_timeout);
  queue_ = &queue;
}

void ResidentKernel::close() {
  const std::lock_guard lock(mutex_);
  if (queue_ != nullptr && !ended_) {
    write(++submitted_, {}, 0, 0);
    for (const uint64_t until = monotonic_ns() + kCloseTimeoutNs;
         status().ended != instance_ && monotonic_ns() < until;)
      ::sched_yield();
  }
  queue_ = nullptr;
  launcher_.close();
  if (stream_ != nullptr) driver().stream_destroy(stream_);
  if (memory_ != 0) driver().mem_free(memory_);
  if (ring_ != nullptr) driver().mem_free_host(ring_);
  stream_ = nullptr;
  memory_ = 0;
  ring_ = nullptr;
  status_ = nullptr;
}

kernel::ResidentKernelStatus ResidentKernel::status() const {
  const uint64_t word = __atomic_load_n(status_, __ATOMIC_ACQUIRE);
  return {static_cast<uint32_t>(word), static_cast<uint16_t>(word >> 32), static_cast<uint16_t>(word >> 48)};
}

uint32_t ResidentKernel::blocks_for_copy(size_t bytes) {
  return enabled() && bytes <= setting_max ? blocks_for(1, bytes) : 0;
}

bool ResidentKernel::accepts(std::span<const kernel::CopyItem> items) const {
  if (queue_ == nullptr) return false;
  const size_t count = items.size(), bytes = bytes_of(items);
  return count == 1 ? bytes <= setting_max
                    : count <= kernel::ResidentKernelParams::kItems && bytes <= setting_batch_max;
}

/// Whether an instance takes commands now.
bool ResidentKernel::accepts_commands() {
  if (ended_) return false;
  const kernel::ResidentKernelStatus at = status();
  if (at.ended == instance_) end_instance(at);
  return !ended_ && at.started == instance_;
}

/// Slot of the next command of the running instance; null: the ring is full.
ResidentKernel::Slot* ResidentKernel::next_slot() {
  Slot& slot = slots_[(submitted_ + 1) % slots_.size()];
  // A command that was not started keeps its slot until poll() has reported it: `done` of the next instance
  // already includes its number.
  if (slot.busy && (slot.not_started || !reached(status().done, slot.number))) return nullptr;
  slot.number = ++submitted_;
  slot.count = 0;
  slot.not_started = slot.no_op = slot.accumulate = false;
  slot.busy = true;
  return &slot;
}

/// Slot of a command for `blocks` blocks; null if no instance with enough blocks is running.
ResidentKernel::Slot* ResidentKernel::claim_slot(uint32_t blocks) {
  if (queue_ == nullptr || gpu_is_shared()) return nullptr;
  policy_.arrived(monotonic_ns(), blocks);
  if (!accepts_commands() || (instance_blocks_ == 1 && blocks > 2)) return nullptr;
  Slot* const slot = next_slot();
  if (slot == nullptr) return nullptr;
  schedule_keep_running(policy_.last_arrival());
  commands.add_shared();
  return slot;
}

/// Schedules the next no-op command after a command at `time`.
void ResidentKernel::schedule_keep_running(uint64_t time) {
  keep_running_at_ = policy_.next_no_op(time);
  next_keep_running_.store(keep_running_at_, std::memory_order_relaxed);
}

void ResidentKernel::keep_running(uint64_t busy) {
  const std::lock_guard lock(mutex_);
  const uint64_t time = monotonic_ns();
  if (queue_ == nullptr || !accepts_commands())
    return next_keep_running_.store(time + kKeepRunningRetryNs, std::memory_order_relaxed);
  if (time + busy < keep_running_at_) return;
  Slot* const slot = next_slot();
  if (slot == nullptr) return;
  schedule_keep_running(time);
  slot->no_op = true;
  policy_.no_op_sent();
  write(slot->number, {}, 1, kernel::Command::kInline);
}

uint32_t ResidentKernel::submit(std::span<const kernel::CopyItem> items, bool host_source,
                                kernel::Command::Output output) {
  const size_t count = items.size(), bytes = bytes_of(items);
  const std::lock_guard lock(mutex_);
  const uint32_t blocks = blocks_for(count, bytes);
  Slot* slot = claim_slot(blocks);
  if (slot == nullptr) return 0;
  std::copy_n(items.data(), count, slot->items);
  slot->count = static_cast<uint32_t>(count);
  if (host_source && count == 1 && bytes <= kernel::Command::kInlineBytes) {
    kernel::CopyItem inlined = items[0];
    inlined.src = 0;
    std::memcpy(&inlined.src, reinterpret_cast<const void*>(items[0].src), bytes);
    write(slot->number, inlined, 1, kernel::Command::kInline, output);
  } else if (count == 1) {
    write(slot->number, items[0], std::min(blocks, instance_blocks_), 0, output);
  } else {
    uint64_t longest = 0;
    for (const kernel::CopyItem& item : items) longest = std::max(longest, item.bytes);
    write(slot->number, {0, items_address(*slot), longest}, std::min(blocks, instance_blocks_), slot->count,
          output);
  }
  return slot->number;
}

Address ResidentKernel::items_address(const Slot& slot) const {
  return items_address_ +
         (slot.number % slots_.size()) * sizeof(kernel::CopyItem) * kernel::ResidentKernelParams::kItems;
}

uint32_t ResidentKernel::submit(const kernel::Accumulate& accumulate, bool output_is_local) {
  if (accumulate.count * accumulate.size > kResidentAccumulateBytes) return 0;
  const std::lock_guard lock(mutex_);
  Slot* const slot = claim_slot(1);
  if (slot == nullptr) return 0;
  static_assert(sizeof accumulate <= sizeof(kernel::CopyItem) * kernel::ResidentKernelParams::kItems);
  std::memcpy(static_cast<void*>(slot->items), &accumulate, sizeof accumulate);
  slot->accumulate = true;
  if (kernel::PackedAccumulate::fits(accumulate)) {
    const auto packed = kernel::PackedAccumulate::pack(accumulate);
    uint32_t words[8];
    for (uint32_t i = 0; i < kernel::PackedAccumulate::kAddressWords; ++i)
      words[kernel::Command::packed_word(i)] = packed.addresses[i];
    words[kernel::Command::blocks] = 1;
    words[kernel::Command::items] = kernel::Command::kPacked | packed.rest |
                                    (output_is_local ? kernel::PackedAccumulate::kOutputIsLocal : 0);
    write(slot->number, words);
    return slot->number;
  }
  write(slot->number, {0, items_address(*slot), sizeof accumulate}, 1, kernel::Command::kAccumulate);
  return slot->number;
}

uint32_t ResidentKernel::submit_call(uint32_t (&words)[8]) {
  const std::lock_guard lock(mutex_);
  if (!ended_ && !accepts_calls_) return 0;
  const Slot* slot = claim_slot(words[kernel::Command::blocks]);
  if (slot == nullptr) return 0;
  words[kernel::Command::blocks] = std::min(words[kernel::Command::blocks], instance_blocks_);
  write(slot->number, words);
  return slot->number;
}

void ResidentKernel::record_demand(uint32_t blocks) {
  const std::lock_guard lock(mutex_);
  if (queue_ != nullptr && !gpu_is_shared()) policy_.arrived(monotonic_ns(), blocks);
}

bool ResidentKernel::running() {
  const std::lock_guard lock(mutex_);
  return queue_ != nullptr && accepts_calls_ && instance_blocks_ != 1 && accepts_commands();
}

void ResidentKernel::write(uint32_t number, const kernel::CopyItem& item, uint32_t blocks, uint32_t items,
                           kernel::Command::Output output) {
  write(number, {static_cast<uint32_t>(item.dst), static_cast<uint32_t>(item.dst >> 32),
                 static_cast<uint32_t>(item.src), static_cast<uint32_t>(item.src >> 32),
                 static_cast<uint32_t>(item.bytes), blocks, items, output});
}

void ResidentKernel::write(uint32_t number, const uint32_t (&words)[8]) {
  auto* line = reinterpret_cast<uint64_t*>(ring_ + number % slots_.size());
  for (size_t i = 0; i < 8; ++i)
    __atomic_store_n(line + i, static_cast<uint64_t>(number) << 32 | words[i], __ATOMIC_RELEASE);
}

Outcome ResidentKernel::poll(uint32_t number) {
  if (status_ == nullptr) return Outcome::pending;
  const kernel::ResidentKernelStatus at = status();
  if (!reached(at.done, number) && at.ended != instance_.load(std::memory_order_relaxed))
    return Outcome::pending;
  const std::lock_guard lock(mutex_);
  if (queue_ == nullptr) return Outcome::pending;
  end_instance(status());
  Slot& slot = slots_[number % slots_.size()];
  if (slot.number != number) return Outcome::done;  // the slot has been reused since
  if (slot.not_started) {
    slot.busy = false;
    return Outcome::not_started;
  }
  if (!reached(status().done, number)) return Outcome::pending;
  slot.busy = false;
  return Outcome::done;
}

std::span<const kernel::CopyItem> ResidentKernel::items(uint32_t number) const {
  const Slot& slot = slots_[number % slots_.size()];
  return {slot.items, slot.count};
}

const kernel::Accumulate* ResidentKernel::accumulate(uint32_t number) const {
  const Slot& slot = slots_[number % slots_.size()];
  return slot.accumulate ? reinterpret_cast<const kernel::Accumulate*>(slot.items) : nullptr;
}

/// After the end of an instance: marks the commands that were not started and updates the backoff.
void ResidentKernel::end_instance(const kernel::ResidentKernelStatus& at) {
  if (ended_ || at.ended != instance_) return;
  ended_ = true;
  for (Slot& slot : slots_) {
    if (slot.no_op) slot.busy = false;
    if (!slot.busy || slot.not_started || reached(at.done, slot.number)) continue;
    slot.not_started = true;
    not_started.add_shared();
  }
  policy_.ended(at.done - done_before_instance_);
}

void ResidentKernel::start_if_due() {
  const std::lock_guard lock(mutex_);
  if (queue_ != nullptr && ended_ && policy_.start_due()) start();
}

void ResidentKernel::start() {
  WEFT_ASSERT(ended_ && std::all_of(slots_.begin(), slots_.end(), [this](const Slot& slot) {  // Q4
                return !slot.busy || slot.not_started || reached(status().done, slot.number);
              }));
  if (submitted_ > kMaxFirstCommand) submitted_ = 0;  // 0 is not a command number
  instance_ = static_cast<uint16_t>(instance_ % 0xffff + 1);
  const uint32_t wanted = policy_.started();
  instance_blocks_ = instance_blocks(wanted, max_resident_blocks(queue_->device));
  done_before_instance_ = submitted_;
  kernel::ResidentKernelParams arguments{};
  arguments.ring = ring_address_;
  arguments.status = status_address_;
  arguments.memory = memory_;
  arguments.slot_configs = queue_->collective_slots.slot_configs_address();
  arguments.first = submitted_ + 1;
  arguments.instance = instance_;
  arguments.idle_timeout_ns = static_cast<uint32_t>(setting_idle_timeout);
  arguments.lifetime_ns = static_cast<uint32_t>(setting_lifetime);
  const RelaxedCapture relaxed;
  const Code code = launcher_.launch(
      stream_, instance_blocks_,
      instance_blocks_ == 1 ? kSingleBlockThreads : kernel::ResidentKernelParams::kThreads, &arguments);
  if (code != kSuccess) {
    no_resident_kernel.hit("it cannot be launched (" + describe(code) + ")");
    return policy_.launch_failed();
  }
  ended_ = false;
  schedule_keep_running(policy_.last_arrival());
  accepts_calls_ = arguments.slot_configs != 0;
  instances.add_shared();
}

Code ResidentKernel::fault() const {
  if (stream_ == nullptr) return kContextIsDestroyed;  // after close()
  return stream_fault(queue_->context, stream_);
}

}  // namespace weft::device::cuda
