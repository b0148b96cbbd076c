// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/copier.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/log.hpp"
#include "device/cuda/context.hpp"

namespace weft::device::cuda {
namespace {

config::Choice setting_copier("gpu.copier", 0, {"auto", "on", "off"},
                              "Serve small GPU copies that come close together by a resident kernel: auto "
                              "(not where it would do harm: CUDA_LAUNCH_BLOCKING, one connection, several "
                              "ranks on a GPU), on, off");
config::Size setting_max("gpu.copier_max", size_t{256} << 10, 0, size_t{1} << 20,
                         "Largest GPU copy in bytes that the copier takes");
config::Size setting_list("gpu.copier_list", size_t{32} << 10, 0, size_t{1} << 30,
                          "Most bytes of a list of GPU copies that the copier takes");
config::Size setting_linger("gpu.copier_linger", 13'000, 1'000, 1'000'000,
                            "Nanoseconds without work after which the copier leaves, at most");
config::Size setting_life("gpu.copier_life", 1'000'000, 10'000, 10'000'000,
                          "Nanoseconds after which the copier leaves in any case");

config::Choice setting_keep(
    "gpu.copier_keep", 1, {"off", "on"},
    "While a process is in MPI with active operations on GPU memory, the copier stays for "
    "the small ones that follow, where they would come too late");

config::Size setting_close("gpu.copier_close", 100'000, 1'000, 1'000'000'000,
                           "Nanoseconds between small GPU copies that are close together");

config::Size setting_first(
    "gpu.copier_first", 0, 0, 0xffff'ffff,
    "Where the numbers of the copier's commands and lives begin: for tests of their wrap");

log::SlowPath no_copier{"gpu.no_copier", "small GPU messages take about 3 us longer"};

constexpr uint32_t kLastFirst = 0xffff'0000;  // of a life's first commands: none lasts so long that they wrap
constexpr uint32_t kStart = 4;                // so many of them start the copier
constexpr uint32_t kAhead = 5'000;    // ns before a life's end when an empty command is due: looks are rare
constexpr uint64_t kAsleep = 20'000;  // ns between looks whether one that is not awake must be kept
constexpr uint32_t kUseful = 4;       // commands in a life that was worth it
constexpr uint64_t kBackOff = 1'000'000;  // ns asleep after two lives that were not; doubles
constexpr uint64_t kLongestBackOff = 128'000'000;
constexpr uint64_t kEndTime = 100'000'000;       // ns that close() waits for a life's end
constexpr size_t kAlone = size_t{8} << 10;       // bytes that one block copies as fast as several
constexpr size_t kListAlone = size_t{32} << 10;  // the same for a list, a warp an item
constexpr size_t kShapes = 3;                    // of its launches: one block, eight, more
constexpr unsigned kSmallThreads = 128;          // of a life that serves what one block does best

bool wanted() {
  if (setting_copier.is("on")) return true;
  return setting_copier.is("auto") && launches_return();
}

bool reached(uint32_t done, uint32_t number) { return static_cast<int32_t>(done - number) >= 0; }

size_t bytes_of(std::span<const kernel::Item> items) {
  size_t bytes = 0;
  for (const kernel::Item& item : items) bytes += item.bytes;
  return bytes;
}

uint32_t blocks_for(size_t count, size_t bytes) {
  if (count > 1) return bytes <= kListAlone ? 1 : kernel::Copier::kBlocks;
  return static_cast<uint32_t>(std::clamp<size_t>(bytes / kAlone, 1, kernel::Copier::kBlocks));
}

}  // namespace

bool Copier::disturbs_others() const { return !setting_copier.is("on") && shared(state_->device); }

void Copier::open(State& state) {
  if (!wanted() || state.kernels.copier == nullptr) return;
  using kernel::Copier;
  constexpr size_t kRing = sizeof(kernel::Command) * Copier::kSlots, kStatus = sizeof(kernel::Command);
  constexpr size_t kItems = sizeof(kernel::Item) * Copier::kItems;
  constexpr size_t kPinned = kRing + kStatus + kItems * Copier::kSlots;
  void* page = nullptr;
  Address address = 0;
  Code code = driver().mem_host_alloc(&page, kPinned, kHostAllocPortable | kHostAllocDeviceMap);
  if (code == kSuccess) {
    std::memset(page, 0, kPinned);
    ring_ = static_cast<kernel::Command*>(page);
    code = driver().mem_host_get_device_pointer(&address, page, 0);
  }
  if (code == kSuccess) code = driver().mem_alloc(&memory_, sizeof(Copier::Memory));
  if (code == kSuccess)
    code = driver().stream_create_with_priority(&stream_, kStreamNonBlocking, kHighestPriority);
  if (code == kSuccess)  // zero, before the first life: the ring is zero, and the stream keeps order
    code = driver().memcpy_async(memory_, address, sizeof(Copier::Memory), stream_);
  if (code != kSuccess) {
    no_copier.hit("its memory cannot be allocated (" + describe(code) + ")");
    return close();
  }
  launcher_.open(state.kernels.copier, sizeof(Copier), kShapes, stream_);
  ring_address_ = address;
  status_address_ = address + kRing;
  status_ = reinterpret_cast<uint64_t*>(static_cast<char*>(page) + kRing);
  items_address_ = address + kRing + kStatus;
  for (size_t i = 0; i < slots_.size(); ++i)
    slots_[i].items =
        reinterpret_cast<kernel::Item*>(static_cast<char*>(page) + kRing + kStatus + i * kItems);
  submitted_ = static_cast<uint32_t>(setting_first);
  generation_ = static_cast<uint16_t>(setting_first);
  state_ = &state;
}

void Copier::close() {
  const std::lock_guard lock(mutex_);
  if (state_ != nullptr && !ended_) {
    write(++submitted_, {}, 0, 0);
    for (const uint64_t until = monotonic_ns() + kEndTime;
         status().gone != generation_ && monotonic_ns() < until;)
      ::sched_yield();
  }
  state_ = nullptr;
  launcher_.close();
  if (stream_ != nullptr) driver().stream_destroy(stream_);
  if (memory_ != 0) driver().mem_free(memory_);
  if (ring_ != nullptr) driver().mem_free_host(ring_);
  stream_ = nullptr;
  memory_ = 0;
  ring_ = nullptr;
  status_ = nullptr;
}

kernel::Status Copier::status() const {
  const uint64_t word = __atomic_load_n(status_, __ATOMIC_ACQUIRE);
  return {static_cast<uint32_t>(word), static_cast<uint16_t>(word >> 32), static_cast<uint16_t>(word >> 48)};
}

uint32_t Copier::suits(size_t bytes) { return wanted() && bytes <= setting_max ? blocks_for(1, bytes) : 0; }

bool Copier::takes(std::span<const kernel::Item> items) const {
  if (state_ == nullptr) return false;
  const size_t count = items.size(), bytes = bytes_of(items);
  return count == 1 ? bytes <= setting_max : count <= kernel::Copier::kItems && bytes <= setting_list;
}

/// Keeps account of how close together small copies come, and of the blocks that they would use.
void Copier::pace(uint32_t blocks) {
  const uint64_t time = monotonic_ns(), gap = time - last_;
  last_ = time;
  blocks_ = std::max(blocks_, blocks);
  if (gap > setting_close) {
    streak_ = 0;
    gap_ = 0;
    return;
  }
  gap_ = std::max(gap, gap_ - gap_ / 8);  // the longer ones count: windows come in bursts
  ++streak_;
}

/// Whether a life takes commands now.
bool Copier::takes_commands() {
  if (ended_) return false;
  const kernel::Status at = status();
  if (at.gone == generation_) end_of_life(at);
  return !ended_ && at.alive == generation_;
}

/// The slot of the next command of a life that is awake; null: the ring is full.
Copier::Slot* Copier::next_slot() {
  Slot& slot = slots_[(submitted_ + 1) % slots_.size()];
  // A command that a life left untouched keeps its slot until its ticket has been told: by the next life's
  // word it looks done.
  if (slot.busy && (slot.untouched || !reached(status().done, slot.number))) return nullptr;
  slot.number = ++submitted_;
  slot.count = 0;
  slot.untouched = slot.kept = false;
  slot.busy = true;
  return &slot;
}

/// The slot of a command for so many blocks, when the copier is awake and has blocks enough; null: not now.
Copier::Slot* Copier::claim(uint32_t blocks) {
  if (state_ == nullptr || disturbs_others()) return nullptr;
  pace(blocks);
  if (!takes_commands() || (life_blocks_ == 1 && blocks > 2)) return nullptr;
  Slot* const slot = next_slot();
  if (slot == nullptr) return nullptr;
  fed(last_);
  ++counters_.rung;
  return slot;
}

/// It has a command. Where the next one will come too late by the pace so far, an empty one is due shortly
/// before it leaves. Elsewhere none is: it could be in the way of the next.
void Copier::fed(uint64_t time) {
  keep_at_ = gap_ > linger_ ? time + linger_ - std::min(linger_ / 2, kAhead) : UINT64_MAX;
  next_keep_.store(keep_at_, std::memory_order_relaxed);
}

void Copier::keep(uint64_t busy) {
  if (!setting_keep.is("on")) return;
  const std::lock_guard lock(mutex_);
  const uint64_t time = monotonic_ns();
  if (state_ == nullptr || !takes_commands())
    return next_keep_.store(time + kAsleep, std::memory_order_relaxed);
  if (time + busy < keep_at_) return;
  Slot* const slot = next_slot();
  if (slot == nullptr) return;
  fed(time);
  slot->kept = true;
  ++kept_;
  write(slot->number, {}, 1, kernel::Command::kInline);
}

uint32_t Copier::ring(std::span<const kernel::Item> items, bool readable) {
  const size_t count = items.size(), bytes = bytes_of(items);
  const std::lock_guard lock(mutex_);
  const uint32_t blocks = blocks_for(count, bytes);
  Slot* slot = claim(blocks);
  if (slot == nullptr) return 0;
  std::copy_n(items.data(), count, slot->items);
  slot->count = static_cast<uint32_t>(count);
  if (readable && count == 1 && bytes <= kernel::Command::kInlineBytes) {
    kernel::Item inlined = items[0];
    inlined.src = 0;
    std::memcpy(&inlined.src, reinterpret_cast<const void*>(items[0].src), bytes);
    write(slot->number, inlined, 1, kernel::Command::kInline);
  } else if (count == 1) {
    write(slot->number, items[0], std::min(blocks, life_blocks_), 0);
  } else {
    const size_t at = (slot->number % slots_.size()) * sizeof(kernel::Item) * kernel::Copier::kItems;
    uint64_t longest = 0;
    for (const kernel::Item& item : items) longest = std::max(longest, item.bytes);
    write(slot->number, {0, items_address_ + at, longest}, std::min(blocks, life_blocks_), slot->count);
  }
  return slot->number;
}

uint32_t Copier::ring_call(uint32_t (&words)[8]) {
  const std::lock_guard lock(mutex_);
  if (!ended_ && !takes_calls_) return 0;
  const Slot* slot = claim(words[kernel::Command::blocks]);
  if (slot == nullptr) return 0;
  words[kernel::Command::blocks] = std::min(words[kernel::Command::blocks], life_blocks_);
  write(slot->number, words);
  return slot->number;
}

void Copier::want(uint32_t blocks) {
  const std::lock_guard lock(mutex_);
  if (state_ != nullptr && !disturbs_others()) pace(blocks);
}

bool Copier::awake() {
  const std::lock_guard lock(mutex_);
  return state_ != nullptr && takes_calls_ && life_blocks_ != 1 && takes_commands();
}

void Copier::write(uint32_t number, const kernel::Item& item, uint32_t blocks, uint32_t items) {
  write(number, {static_cast<uint32_t>(item.dst), static_cast<uint32_t>(item.dst >> 32),
                 static_cast<uint32_t>(item.src), static_cast<uint32_t>(item.src >> 32),
                 static_cast<uint32_t>(item.bytes), blocks, items, 0});
}

void Copier::write(uint32_t number, const uint32_t (&words)[8]) {
  auto* line = reinterpret_cast<uint64_t*>(ring_ + number % slots_.size());
  for (size_t i = 0; i < 8; ++i)
    __atomic_store_n(line + i, static_cast<uint64_t>(number) << 32 | words[i], __ATOMIC_RELEASE);
}

Outcome Copier::look(uint32_t number) {
  if (status_ == nullptr) return Outcome::pending;
  const kernel::Status at = status();
  if (!reached(at.done, number) && at.gone != generation_.load(std::memory_order_relaxed))
    return Outcome::pending;
  const std::lock_guard lock(mutex_);
  if (state_ == nullptr) return Outcome::pending;
  end_of_life(status());
  Slot& slot = slots_[number % slots_.size()];
  if (slot.number != number) return Outcome::done;  // and the slot was taken since
  if (slot.untouched) {
    slot.busy = false;
    return Outcome::untouched;
  }
  if (!reached(status().done, number)) return Outcome::pending;
  slot.busy = false;
  return Outcome::done;
}

std::span<const kernel::Item> Copier::items(uint32_t number) const {
  const Slot& slot = slots_[number % slots_.size()];
  return {slot.items, slot.count};
}

/// A life is over: what it left untouched is marked, and whether it was worth it is remembered.
void Copier::end_of_life(const kernel::Status& at) {
  if (ended_ || at.gone != generation_) return;
  ended_ = true;
  for (Slot& slot : slots_) {
    if (slot.kept) slot.busy = false;
    if (!slot.busy || slot.untouched || reached(at.done, slot.number)) continue;
    slot.untouched = true;
    ++counters_.untouched;
  }
  if (at.done - before_life_ >= kUseful + kept_) {
    idle_lives_ = 0;
    back_off_ = 0;
  } else if (++idle_lives_ >= 2) {
    back_off_ = std::clamp(2 * back_off_, kBackOff, kLongestBackOff);
    asleep_until_ = last_ + back_off_;
  }
}

void Copier::consider_start() {
  const std::lock_guard lock(mutex_);
  if (state_ == nullptr || !ended_ || streak_ < kStart || last_ < asleep_until_) return;
  start();
}

void Copier::start() {
  if (submitted_ > kLastFirst) submitted_ = 0;  // which is no command's number
  generation_ = static_cast<uint16_t>(generation_ % 0xffff + 1);
  life_blocks_ = blocks_ == 1 ? 1 : std::max(blocks_, kernel::Copier::kBlocks);
  blocks_ = 1;
  before_life_ = submitted_;
  kept_ = 0;
  kernel::Copier arguments{};
  arguments.ring = ring_address_;
  arguments.status = status_address_;
  arguments.memory = memory_;
  arguments.homes = state_->ports.homes_address();
  arguments.first = submitted_ + 1;
  arguments.generation = generation_;
  linger_ =
      static_cast<uint32_t>(std::min<uint64_t>(setting_linger, std::max<uint64_t>(5'000, 3 * gap_ / 2)));
  arguments.linger = linger_;
  arguments.life = static_cast<uint32_t>(setting_life);
  const RelaxedCapture relaxed;
  const Code code = launcher_.launch(
      stream_, life_blocks_, life_blocks_ == 1 ? kSmallThreads : kernel::Copier::kThreads, &arguments);
  if (code != kSuccess) {
    no_copier.hit("it cannot be launched (" + describe(code) + ")");
    asleep_until_ = last_ + kLongestBackOff;
    return;
  }
  ended_ = false;
  fed(last_);
  takes_calls_ = arguments.homes != 0;
  ++counters_.lives;
}

Code Copier::fault() const {
  if (stream_ == nullptr) return kContextIsDestroyed;  // after close()
  return stream_fault(state_->context, stream_);
}

Copier::Counters Copier::counters() {
  const std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace weft::device::cuda
