// SPDX-License-Identifier: BSD-3-Clause
// One-sided operations in the GPU stream of a window, and notifications. An operation in a stream is a copy
// or a kernel: operations of one stream on one target complete in order, so that a flush has nothing to
// enqueue.
#include <algorithm>
#include <string>

#include "base/clock.hpp"
#include "core/remote_memory.hpp"
#include "device/window.hpp"
#include "launch/launch.hpp"
#include "rma/counters.hpp"
#include "rma/exchange.hpp"
#include "rma/kernel_queue.hpp"
#include "rma/now.hpp"
#include "rma/window.hpp"
#include "weft_device.cuh"

namespace weft::rma {
namespace {

Error unsupported(std::string why) { return {Errc::unsupported, std::move(why)}; }

constexpr uint64_t kNsUntilNoticed = 200'000'000;  // at most

/// The rank of an error that a failure has caused, which a kernel may not know. The kernel has ended before
/// this process notices the failure, if that has not waited in MPI yet.
int failed_rank(Window& window, int told) {
  core::FailureDetector& failures = window.instance.failures;
  (void)failures.look_now(monotonic_ns());
  const uint64_t end_ns = monotonic_ns() + kNsUntilNoticed;
  core::wait_until(window.instance,
                   [&] { return !failures.check(*window.comm).ok() || monotonic_ns() >= end_ns; });
  const Peer* const peer = window.find_peer(told);
  if (peer != nullptr && failures.failed(peer->process)) return told;
  const std::vector<core::ProcessId> failed = failures.failed_in(*window.comm);
  return failed.empty() ? told : window.rank_of(failed.front());
}

}  // namespace

device::Memory Window::gpu_memory() const {
  if (stream && stream->gpu) return stream->gpu->near();
  for (const auto& [address, memory] : own_)
    if (memory.memory.on_device()) return memory.memory;
  // Kernels of a process without memory access that of the others.
  const auto on_device = [](const Peer& peer) { return peer.on_device; };
  if (bytes != 0 || std::none_of(peers.begin(), peers.end(), on_device)) return {};
  auto current = device::current_context();
  if (!current) return {};
  current->kind = device::MemoryKind::cuda_device;
  return *current;
}

Result<const device::UserStream*> Window::user_stream() const {
  WEFT_TRY(check_failures());
  if (!stream || !stream->gpu)
    return Error(Errc::window,
                 "win has no GPU stream: create it on a communicator of MPIX_Stream_comm_create with one");
  if (counters != nullptr && counters->status() != nullptr && counters->status()->cancelled != 0)
    return Error(Errc::proc_aborted, "a process of the window has ended");
  return &*stream->gpu;
}

/// Checks that the stream's GPU can execute an operation between a buffer and the target.
Status Window::locate_for_stream(const p2p::Buffer& origin, const Area& area, Place& place) {
  WEFT_TRY(locate(area, place));
  if (place.bytes != static_cast<uint64_t>(origin.count * origin.type->size()))
    return Error(Errc::count, "origin and target have different amounts of data");
  if (place.bytes == 0) return {};
  if (!origin.type->contiguous() || !area.type.contiguous())
    return unsupported("a datatype is not contiguous: operations in a stream take contiguous data");
  const device::Memory memory = kind_of(origin);
  if (!memory.known_to_driver())
    return Error(Errc::buffer,
                 "origin_addr is pageable host memory, which a GPU stream cannot access: use GPU, "
                 "managed or pinned memory");
  if (memory.on_device() && memory.device != stream->gpu->device)
    return Error(Errc::buffer, "origin_addr is memory of GPU " + std::to_string(memory.device) +
                                   ", the stream belongs to GPU " + std::to_string(stream->gpu->device));
  if (!place.on_device)
    return unsupported("the window memory of rank " + std::to_string(area.rank) +
                       " is host memory: operations in a stream need GPU memory");
  if (place.target->direct() == nullptr)
    return unsupported("the GPU of the stream cannot access the window memory of rank " +
                       std::to_string(area.rank) + ": " + place.target->caps().reason);
  return {};
}

Status Window::put_enqueue(const p2p::Buffer& origin, const Area& area) {
  const auto gpu = user_stream();
  if (!gpu) return gpu.error().copy();
  if (area.rank == p2p::kProcNull) return {};
  Place place;
  WEFT_TRY(locate_for_stream(origin, area, place));
  if (place.bytes == 0) return {};
  count_move(true, place.bytes);
  return device::enqueue_copy(**gpu, place.target->direct() + place.offset, origin.address, place.bytes);
}

Status Window::get_enqueue(const p2p::Buffer& origin, const Area& area) {
  const auto gpu = user_stream();
  if (!gpu) return gpu.error().copy();
  if (area.rank == p2p::kProcNull) return {};
  Place place;
  WEFT_TRY(locate_for_stream(origin, area, place));
  if (place.bytes == 0) return {};
  count_move(false, place.bytes);
  return device::enqueue_copy(**gpu, origin.address, place.target->direct() + place.offset, place.bytes);
}

Status Window::accumulate_enqueue(const p2p::Buffer& origin, const Area& area, const core::Op& op) {
  const auto gpu = user_stream();
  if (!gpu) return gpu.error().copy();
  if (op.user || op.scaling != core::Op::Scaling::none)
    return Error(Errc::op,
                 "op is a user-defined operation, or scales: accumulate operations take "
                 "predefined operations of MPI only");
  if (area.rank == p2p::kProcNull) return {};
  Place place;
  WEFT_TRY(locate_for_stream(origin, area, place));
  if (place.bytes == 0) return {};
  const auto basic = area.type.basic();
  if (!basic || origin.type->basic() != basic)
    return Error(Errc::type, "origin and target must consist of one and the same predefined type");
  if (datatype::reduce_function(op.kind, *basic) == nullptr)
    return Error(Errc::op, op.name + " is not defined for the predefined type of target_datatype");
  const auto operation = element_operation(area, place, op.kind, basic, false);
  if (!operation || !device::can_accumulate(place.target->memory()) ||
      reinterpret_cast<uintptr_t>(origin.address) % operation->size != 0)
    return unsupported(
        "the GPU has no atomic operation for these elements: accumulate operations in a stream "
        "take aligned elements of at most 8 bytes");
  device::kernel::Accumulate call{};
  call.target = reinterpret_cast<uint64_t>(place.target->direct()) + place.offset;
  call.origin = reinterpret_cast<uint64_t>(origin.address);
  call.size = operation->size;
  call.count = call.block = place.bytes / operation->size;
  call.kind = operation->kind;
  call.reduction = operation->reduction;
  count_accumulate(place.bytes);
  return device::enqueue_accumulate(**gpu, call);
}

Status Window::flush_enqueue(int rank) {
  const auto gpu = user_stream();
  if (!gpu) return gpu.error().copy();
  WEFT_TRY(check_rank("rank", rank));
  return check_passive();
}

Status Window::sync_enqueue(const device::kernel::WindowSync& call) {
  const auto gpu = user_stream();
  if (!gpu) return gpu.error().copy();
  WEFT_ASSERT(counters != nullptr);  // windows with a stream have them
  auto table = counters->table(true);
  if (!table) return std::move(table).error();
  device::kernel::WindowSync with_table = call;
  with_table.table = *table;
  return device::enqueue_window_sync(**gpu, with_table);
}

Status Window::fence_enqueue(int assertion) {
  WEFT_TRY(check_assertion(assertion, kNoStore | kNoPut | kNoPrecede | kNoSucceed));
  WEFT_TRY(check_idle("MPIX_Win_fence_enqueue"));
  device::kernel::WindowSync call{};
  call.kind = device::kernel::WindowSync::barrier;
  WEFT_TRY(sync_enqueue(call));
  used_ = 0;
  fence_ = (assertion & kNoSucceed) == 0;
  set_access_to_all(fence_);
  return {};
}

Status Window::check_notification(int rank, int64_t notification) const {
  WEFT_TRY(check_rank("target_rank", rank));
  if (counters == nullptr)
    return Error(Errc::window, "win has no notifications: call MPIX_Win_create_notify first");
  const uint32_t count = counters->notifications(rank);
  if (notification >= 0 && notification < int64_t{count}) return {};
  return Error(Errc::arg, "notification_idx = " + std::to_string(notification) + ": rank " +
                              std::to_string(rank) + " has " + std::to_string(count) + " notifications");
}

Status Window::announce(int rank, int notification) {
  WEFT_TRY(flush_peer(peers[static_cast<size_t>(rank)]));
  return counters->notify(rank, static_cast<uint32_t>(notification));
}

Status Window::put_notify(const p2p::Buffer& origin, const Area& area, int notification) {
  if (area.rank == p2p::kProcNull) return {};
  WEFT_TRY(check_notification(area.rank, notification));
  WEFT_TRY(put(origin, area, nullptr));
  return announce(area.rank, notification);
}

Status Window::get_notify(const p2p::Buffer& origin, const Area& area, int notification) {
  if (area.rank == p2p::kProcNull) return {};
  WEFT_TRY(check_notification(area.rank, notification));
  WEFT_TRY(get(origin, area, nullptr));
  return announce(area.rank, notification);
}

Status Window::put_notify_enqueue(const p2p::Buffer& origin, const Area& area, int notification) {
  const auto gpu = user_stream();
  if (!gpu) return gpu.error().copy();
  if (area.rank == p2p::kProcNull) return {};
  WEFT_TRY(check_notification(area.rank, notification));
  Place place;
  WEFT_TRY(locate_for_stream(origin, area, place));
  device::kernel::WindowSync call{};
  if (place.bytes <= call.kCopyBytes && kind_of(origin).on_device()) {
    call.to = place.bytes == 0 ? 0 : reinterpret_cast<uint64_t>(place.target->direct()) + place.offset;
    call.from = reinterpret_cast<uint64_t>(origin.address);
    call.bytes = place.bytes;
  } else if (place.bytes != 0) {
    WEFT_TRY(device::enqueue_copy(**gpu, place.target->direct() + place.offset, origin.address, place.bytes));
  }
  call.kind = device::kernel::WindowSync::notify;
  call.rank = area.rank;
  call.notification = static_cast<uint32_t>(notification);
  return sync_enqueue(call);
}

Status Window::wait_notify_enqueue(int notification, int64_t value) {
  WEFT_TRY(check_notification(comm->rank(), notification));
  if (value < 0) return Error(Errc::arg, "value = " + std::to_string(value) + " is negative");
  device::kernel::WindowSync call{};
  call.kind = device::kernel::WindowSync::wait;
  call.notification = static_cast<uint32_t>(notification);
  call.value = static_cast<uint64_t>(value);
  return sync_enqueue(call);
}

Result<bool> Window::wait_notify(int notification, int64_t value, bool block) {
  WEFT_TRY(check_notification(comm->rank(), notification));
  if (value < 0) return Error(Errc::arg, "value = " + std::to_string(value) + " is negative");
  bool taken = false;
  Status outcome;
  const auto try_take = [&] {
    auto now = counters->try_take(static_cast<uint32_t>(notification), static_cast<uint64_t>(value));
    if (now)
      taken = *now;
    else
      outcome = std::move(now).error();
    return taken || !outcome.ok();
  };
  if (block)
    WEFT_TRY(wait_for(try_take, {wait_table::What::window_notification, -1, notification}));
  else if (!try_take())
    progress();
  WEFT_TRY(std::move(outcome));
  if (!taken) WEFT_TRY(check_failures());
  return taken;
}

/// Collective. Replaces the counters that a window with a stream has from the start.
Status Window::create_notify(int notifications) {
  if (notifications < 0)
    return Error(Errc::arg, "notification_num = " + std::to_string(notifications) + " is negative");
  if (counters != nullptr && has_notifications_)
    return Error(Errc::window, "win has notifications already: call MPIX_Win_free_notify first");
  Status dropped = drop_counters();
  if (counters != nullptr) return dropped;
  WEFT_TRY(Counters::create(*this, static_cast<uint32_t>(notifications), std::move(dropped)));
  has_notifications_ = true;
  return {};
}

/// Collective.
Status Window::free_notify() {
  if (!has_notifications_) return Error(Errc::window, "win has no notifications");
  has_notifications_ = false;
  Status dropped = drop_counters();
  return counters != nullptr ? std::move(dropped) : create_stream_counters(std::move(dropped));
}

/// Collective: frees the counters when the streams have ended and no process notifies any more, also after an
/// error of this process alone. They stay if a process has failed.
Status Window::drop_counters() {
  if (counters == nullptr) return {};
  Status settled = settle_stream();
  for (int rank = 0; counters->queue() != nullptr && rank < size(); ++rank) {
    Status outcome = counters->queue()->settle(rank);
    if (settled.ok()) settled = std::move(outcome);
  }
  WEFT_TRY(barrier(*comm));
  Status withdrawn = counters->withdraw();
  counters.reset();
  return settled.ok() ? std::move(withdrawn) : std::move(settled);
}

/// Collective: counters for barriers in streams. `own`: an error of this process before them.
Status Window::create_stream_counters(Status own) {
  if (!stream || !stream->gpu) return own;
  return Counters::create(*this, 0, std::move(own));
}

/// Waits until the stream of the window has executed all operations.
Status Window::settle_stream() {
  if (!stream || !stream->gpu) return {};
  Status outcome;
  core::wait_until(instance, [&] {
    auto done = device::idle(*stream->gpu);
    if (!done) outcome = std::move(done).error();
    return !outcome.ok() || *done;
  });
  return outcome;
}

Result<void*> Window::device_handle() {
  if (counters == nullptr)
    return Error(Errc::window, "win has no notifications: call MPIX_Win_create_notify first");
  auto table = counters->table(false);
  if (!table) return std::move(table).error();
  return reinterpret_cast<void*>(*table);
}

DeviceStatus Window::take_device_status() {
  DeviceStatus found;
  device::abi::WindowStatus* const status = counters == nullptr ? nullptr : counters->status();
  if (status == nullptr) return found;
  const auto error = static_cast<device::Error>(__atomic_exchange_n(&status->error, 0, __ATOMIC_ACQUIRE));
  if (error == device::Error::none) return found;
  found.rank = status->rank;
  found.notification = static_cast<int>(status->counter);
  switch (error) {
    case device::Error::range:
      found.error_class = static_cast<int>(ErrorClass::range);
      break;
    case device::Error::timeout:
      found.error_class = kPending;
      break;
    case device::Error::network:
      found.error_class = kOther;
      break;
    default:
      found.error_class = launch::continues_on_failure() ? kProcFailed : kProcAborted;
      found.rank = failed_rank(*this, found.rank);
  }
  return found;
}

}  // namespace weft::rma
