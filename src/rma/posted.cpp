// SPDX-License-Identifier: BSD-3-Clause
// Small operations on memory that its owner alone maps: posted in a slot, and executed by the owner while it
// makes progress, or else by the origin (ADR 0043).
#include <cstring>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/counters.hpp"
#include "datatype/predefined.hpp"
#include "rma/messages.hpp"
#include "rma/window.hpp"
#include "transport/shm/shm.hpp"
#include "transport/shm/single_copy.hpp"

namespace weft::rma {

using transport::shm::SharedCopy;

namespace {

using datatype::Basic;
using datatype::ReduceOp;

config::Choice slots_wanted{
    "rma.operation_slots",
    0,
    {"auto", "off", "on"},
    "Lets a target that is inside of MPI execute small operations on its memory of MPI_Win_create, and share "
    "large ones; auto: unless ranks outnumber cores. The origin executes all others by system calls."};

counters::Counter posted_operations("window.posted_operations", counters::Unit::events,
                                    "Small operations that were posted for the owner of their memory");
counters::Counter retracted_operations(
    "window.retracted_operations", counters::Unit::events,
    "Posted operations that the origin executed itself, as their target made no progress");

// Loads of a slot before its origin does anything else; a target that polls executes the operation meanwhile.
constexpr int kSpins = 200;
constexpr uint64_t kTargetWaitNs = 2'000;  // about the system calls that a target saves
constexpr uint8_t kMaxMisses = 5;          // at most 2^5 operations are not posted after a miss
constexpr size_t kSlotsPerPoll = 16;

/// The packed bytes of a posted operation as target arguments.
Area bytes_of(const PostedOperation& operation, int rank) {
  static const datatype::Datatype& byte = *datatype::predefined(datatype::kByte);
  return {rank, 0, operation.bytes, byte};
}

/// Whether the numbers in a slot are an operation.
bool is_valid(const PostedOperation& operation) {
  if (operation.data_bytes() > OperationSlot::kMaxBytes) return false;
  if (operation.kind == PostedOperation::put || operation.kind == PostedOperation::get) return true;
  if (operation.basic >= datatype::kBasicCount || operation.op >= datatype::kReduceOpCount) return false;
  const auto basic = static_cast<Basic>(operation.basic);
  return datatype::reduce_function(static_cast<ReduceOp>(operation.op), basic) != nullptr &&
         operation.bytes % static_cast<uint32_t>(datatype::traits_of(basic).size) == 0;
}

/// Puts, gets or updates own memory.
void move(const PostedOperation& operation, std::byte* target, std::byte* data) {
  const size_t bytes = operation.bytes;
  const auto op = static_cast<ReduceOp>(operation.op);
  if (operation.kind == PostedOperation::get) return p2p::copy_small(data, target, bytes);
  if (operation.kind == PostedOperation::compare_swap && std::memcmp(target, data + bytes, bytes) != 0)
    return;
  if (operation.kind != PostedOperation::accumulate || op == ReduceOp::replace)
    return p2p::copy_small(target, data, bytes);
  if (op == ReduceOp::no_op) return;
  const auto basic = static_cast<Basic>(operation.basic);
  combine(op, basic, data, target, bytes / static_cast<size_t>(datatype::traits_of(basic).size));
}

/// Executes an operation on own memory; the accumulate lock is held if it is not a put or get.
void apply(const PostedOperation& operation, std::byte* target, std::byte* data) {
  if (operation.fetch == 0) return move(operation, target, data);
  alignas(64) std::byte old[OperationSlot::kMaxBytes];
  p2p::copy_small(old, target, operation.bytes);
  move(operation, target, data);
  p2p::copy_small(data, old, operation.bytes);
}

}  // namespace

bool operation_slots_enabled() { return !slots_wanted.is("off"); }

void OperationSlots::add(Window& window, int rank) {
  entries_.push_back({&window.control->slot(rank, window.size()), &window, rank});
}

void OperationSlots::remove(const Window& window) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.window == &window; });
  next_ = 0;
}

bool OperationSlots::poll() {
  bool progressed = false;
  for (size_t left = std::min(entries_.size(), kSlotsPerPoll); left != 0; --left) {
    const Entry& entry = entries_[next_];
    next_ = next_ + 1 < entries_.size() ? next_ + 1 : 0;
    const uint32_t state = entry.slot->state.load(std::memory_order_relaxed);
    if (state == OperationSlot::posted)
      progressed |= entry.window->execute_posted(entry.rank);
    else if (state == OperationSlot::shared)
      progressed |= entry.window->help_transfer(entry.rank);
  }
  return progressed;
}

/// Uses the slots of this process in the control block of `rank`, and the other way round.
void Window::connect_slots(int rank) {
  Peer& peer = peers[static_cast<size_t>(rank)];
  if (peer.process == instance.self) return;
  using transport::rma::Path;
  if (!own_.empty() && !own_.begin()->second.memory.on_device()) {
    Messages::of(instance).slots().add(*this, rank);
    has_slots_ = true;
    peer.copies = instance.shm != nullptr && instance.shm->can_get(peer.process).ok();
  }
  const bool by_system_calls = peer.memory != nullptr && !peer.on_device &&
                               peer.memory->caps().put == Path::process_vm &&
                               peer.memory->caps().get == Path::process_vm;
  if (!by_system_calls || !operation_slots_enabled() || (slots_wanted.is("auto") && instance.oversubscribed))
    return;
  peer.slot = &peer.control->slot(comm->rank(), size());
  has_slots_ = true;
}

/// Posts an operation; its kind, elements and `fetch` are set. Returns false if this process executes it.
/// Precondition: all data are contiguous host memory.
bool Window::post(const Place& place, PostedOperation operation, const void* origin, const void* compare,
                  void* result) {
  Peer& peer = *place.peer;
  PostedState& posted = peer.posted;
  operation.bytes = static_cast<uint32_t>(std::min<uint64_t>(place.bytes, UINT32_MAX));
  operation.offset = place.window_offset;
  if (operation.data_bytes() > OperationSlot::kMaxBytes) return false;
  while (posted.phase != PostedState::none) finish_posted(peer);
  if (posted.pause != 0) {
    --posted.pause;
    return false;
  }
  if (peer.slot == nullptr) return false;
  OperationSlot& slot = *peer.slot;
  WEFT_ASSERT(slot.is_free());  // R1
  std::byte* const data = peer.control->slot_data(comm->rank(), size(), operation);
  slot.operation = operation;
  if (origin != nullptr) p2p::copy_small(data, origin, operation.bytes);
  if (compare != nullptr) p2p::copy_small(data + operation.bytes, compare, operation.bytes);
  slot.state.store(OperationSlot::posted, std::memory_order_release);
  posted.phase = PostedState::posted;
  posted.bound = false;
  ++posted.number;
  posted.result = static_cast<std::byte*>(result);
  posted.operation = operation;
  posted_operations.add();
  return true;
}

void Window::finish_posted(Peer& peer) {
  const Busy busy(*this);
  PostedState& posted = peer.posted;
  OperationSlot& slot = *peer.slot;
  const uint32_t number = posted.number;
  const auto current = [&] { return posted.phase != PostedState::none && posted.number == number; };
  if (posted.phase == PostedState::posted) {
    for (int i = 0; i < kSpins && !slot.executed(); ++i) {
    }
    for (uint64_t now = 0, end = 0; !slot.executed() && now <= end; now = monotonic_ns()) {
      if (end == 0) end = monotonic_ns() + kTargetWaitNs;
      (void)Messages::of(instance).slots().poll();  // the target may wait for this process likewise
      for (int i = 0; i < kSpins && !slot.executed(); ++i) {
      }
    }
  }
  bool retracted = false;
  const Status waited = wait_for_target(
      [&] {
        if (!current() || (posted.phase == PostedState::posted && slot.executed())) return true;
        retracted = posted.phase == PostedState::posted && !posted.bound && slot.retract();
        return retracted;
      },
      peer, operations_at(peer));
  if (retracted) return finish_retracted(peer);
  if (!current()) return;  // another thread has finished it
  if (waited.ok()) return collect_posted(peer);
  posted.phase = PostedState::none;
  peer.slot = nullptr;  // a process that has not failed may still read it
  if (peer.outcome.ok()) peer.outcome = waited.error().copy();
}

/// The target has executed the operation.
void Window::collect_posted(Peer& peer) {
  PostedState& posted = peer.posted;
  const PostedOperation& operation = posted.operation;
  const uint32_t state = peer.slot->state.load(std::memory_order_relaxed);
  posted.phase = PostedState::none;
  posted.bound = false;
  posted.misses = 0;
  if (state != OperationSlot::done) {
    if (peer.outcome.ok())
      peer.outcome = state == OperationSlot::out_of_range
                         ? error(ErrorClass::range, "an operation exceeds the target's memory")
                         : Error(Errc::other, "the target could not execute an operation");
  } else if (posted.result != nullptr) {
    p2p::copy_small(posted.result, peer.control->slot_data(comm->rank(), size(), operation), operation.bytes);
  }
}

/// Executes the operation that was retracted. Other threads wait for it.
void Window::finish_retracted(Peer& peer) {
  PostedState& posted = peer.posted;
  if (Status usable = check_target(peer); !usable.ok()) {
    posted.phase = PostedState::none;
    if (peer.outcome.ok()) peer.outcome = std::move(usable);
    return;
  }
  const PostedOperation operation = posted.operation;
  posted.phase = PostedState::retracted;
  posted.misses = std::min<uint8_t>(posted.misses + 1, kMaxMisses);
  posted.pause = static_cast<uint8_t>(1U << posted.misses);
  retracted_operations.add();
  Place place;
  place.peer = &peer;
  place.target = peer.memory;
  place.window_offset = operation.offset;
  place.offset = peer.offset + operation.offset;
  place.bytes = operation.bytes;
  std::byte* const data = peer.control->slot_data(comm->rank(), size(), operation);
  const Area area = bytes_of(operation, static_cast<int>(&peer - peers.data()));
  Status outcome;
  if (operation.kind == PostedOperation::put)
    outcome = copy_stream(true, area, place, 0, operation.bytes, copy::plain(data));
  else if (operation.kind == PostedOperation::get)
    outcome = copy_stream(false, area, place, 0, operation.bytes, copy::plain(posted.result));
  else
    outcome = update_locked(
        area, place, data, operation.kind == PostedOperation::compare_swap ? data + operation.bytes : nullptr,
        static_cast<ReduceOp>(operation.op), static_cast<Basic>(operation.basic), posted.result);
  posted.phase = PostedState::none;
  if (!outcome.ok() && peer.outcome.ok()) peer.outcome = std::move(outcome);
}

void Window::bind_all_posted() {
  for (Peer& peer : peers) bind_posted(peer);
}

/// After all processes have arrived: waits for the results of bound operations.
Status Window::settle_results() {
  Status outcome;
  for (Peer& peer : peers) {
    if (peer.posted.phase == PostedState::none || peer.posted.result == nullptr) continue;
    finish_posted(peer);
    if (outcome.ok()) outcome = std::exchange(peer.outcome, {});
  }
  return outcome;
}

/// Executes all operations that other processes have posted.
void Window::drain_slots() {
  for (int rank = 0; rank < size(); ++rank) {
    if (peers[static_cast<size_t>(rank)].control == nullptr) continue;
    const OperationSlot& slot = control->slot(rank, size());
    if (!slot.is_posted()) [[likely]]
      continue;
    core::wait_until(instance, [&] { return execute_posted(rank) || !slot.is_posted(); },
                     {nullptr, nullptr, comm.get()});
  }
}

bool Window::execute_posted(int rank) {
  OperationSlot& slot = control->slot(rank, size());
  if (!slot.is_posted() || !slot.begin()) return false;
  const PostedOperation operation = slot.operation;  // the origin may be faulty: no number is read twice
  std::byte* address = nullptr;
  const OwnMemory* memory = nullptr;
  OperationSlot::State outcome = OperationSlot::failed;
  if (is_valid(operation)) {
    memory = own_memory(operation.offset, operation.bytes, address);
    outcome =
        memory != nullptr && !memory->memory.on_device() ? OperationSlot::done : OperationSlot::out_of_range;
  }
  if (outcome == OperationSlot::done) {
    const bool locks =
        operation.kind == PostedOperation::accumulate || operation.kind == PostedOperation::compare_swap;
    if (locks && !control->try_accumulate(comm->rank())) {
      slot.state.store(OperationSlot::posted, std::memory_order_release);
      return false;
    }
    apply(operation, address, control->slot_data(rank, size(), operation));
    if (locks) control->end_accumulate();
  }
  slot.state.store(outcome, std::memory_order_release);
  return true;
}

Status Window::copy_chunk(bool put, const Place& place, std::byte* origin, uint64_t at, uint64_t bytes) {
  const transport::Buffer buffer{origin + at, static_cast<size_t>(bytes), {}};
  const auto issued = put ? rma().put(*place.target, place.offset + at, buffer)
                          : rma().get(*place.target, place.offset + at, buffer);
  return issued ? Status() : Status(issued.error().copy());
}

Status Window::share_transfer(bool put, const Place& place, std::byte* origin) {
  Peer& peer = *place.peer;
  PostedState& posted = peer.posted;
  while (posted.phase != PostedState::none) finish_posted(peer);
  if (peer.slot == nullptr) return copy_chunk(put, place, origin, 0, place.bytes);
  OperationSlot& slot = *peer.slot;
  WEFT_ASSERT(slot.is_free());  // R1
  SharedTransfer& transfer = slot.transfer;
  const uint32_t number = ++posted.number;
  transfer.origin = reinterpret_cast<uint64_t>(origin);
  transfer.offset = place.window_offset;
  transfer.bytes = place.bytes;
  transfer.put = put ? 1 : 0;
  transfer.copy.open(number, place.bytes);
  slot.state.store(OperationSlot::shared, std::memory_order_release);
  posted.phase = PostedState::shared;  // other threads do not use the slot
  Status outcome;
  while (const auto part = transfer.copy.claim(number, SharedCopy::Side::opener, place.bytes))
    if (outcome.ok()) outcome = copy_chunk(put, place, origin, part->offset, part->bytes);
  const uint32_t helped = transfer.copy.close(place.bytes);
  const auto finished = [&] { return transfer.copy.helper_chunks.load(std::memory_order_acquire) == helped; };
  for (int i = 0; i < kSpins && !finished(); ++i) {
  }
  const core::Operands event = operations_at(peer);
  const auto failed = [&] { return instance.failures.failed(peer.process); };
  core::wait_until(instance, [&] { return finished() || failed(); }, {nullptr, &event, comm.get()});
  slot.state.store(OperationSlot::free, std::memory_order_relaxed);
  posted.phase = PostedState::none;
  if (outcome.ok() && !finished()) outcome = instance.failures.error_of(peer.process);
  if (outcome.ok() && transfer.copy.refused.load(std::memory_order_relaxed) != 0)
    return copy_chunk(put, place, origin, 0, place.bytes);
  return outcome;
}

bool Window::help_transfer(int rank) {
  SharedTransfer& transfer = control->slot(rank, size()).transfer;
  SharedCopy& copy = transfer.copy;
  const Peer& peer = peers[static_cast<size_t>(rank)];
  const auto number = static_cast<uint32_t>(copy.claims.load(std::memory_order_acquire) >> 32);
  if (!peer.copies || copy.refused.load(std::memory_order_relaxed) != 0) return false;
  const uint64_t origin = transfer.origin, offset = transfer.offset, bytes = transfer.bytes;
  const bool put = transfer.put != 0;
  const auto part = copy.claim(number, SharedCopy::Side::helper, bytes);
  if (!part) return false;  // else the fields that were read are valid
  std::byte* address = nullptr;
  const OwnMemory* const memory = own_memory(offset, bytes, address);
  const auto pid = instance.shm->pid_of(peer.process);
  bool copied = false;
  if (memory != nullptr && !memory->memory.on_device() && part->bytes != 0 && pid) {
    const transport::Iov own{reinterpret_cast<uint64_t>(address) + part->offset, part->bytes},
        other{origin + part->offset, part->bytes};
    copied = (put ? transport::shm::read_process(*pid, {&own, 1}, {&other, 1})
                  : transport::shm::write_process(*pid, {&own, 1}, {&other, 1}))
                 .ok();
  }
  copy.finish(*part, copied);
  return true;
}

}  // namespace weft::rma
