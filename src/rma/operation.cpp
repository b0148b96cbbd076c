// SPDX-License-Identifier: BSD-3-Clause
// Put and get.
#include <algorithm>
#include <cstring>

#include "base/trace.hpp"
#include "core/remote_memory.hpp"
#include "rma/messages.hpp"
#include "rma/now.hpp"
#include "rma/window.hpp"

namespace weft::rma {

Status unpack(const p2p::Buffer& to, const device::Memory& memory, const std::vector<std::byte>& stream) {
  if (!memory.on_device()) {
    (void)datatype::unpack(*to.type, to.count, to.address, 0, stream.data(), stream.size());
    return {};
  }
  Status outcome;
  size_t at = 0;
  datatype::for_each_run(
      *to.type, to.count, 0, static_cast<int64_t>(stream.size()), [&](int64_t displacement, int64_t length) {
        if (!outcome.ok()) return;
        outcome = device::copy(static_cast<std::byte*>(to.address) + displacement, memory, stream.data() + at,
                               device::Memory{}, static_cast<size_t>(length));
        at += static_cast<size_t>(length);
      });
  return outcome;
}

Operation::Operation(Window& of, Peer& to, WindowRequest* request) : window(of), peer(to), request_(request) {
  done = [](transport::Completion& self, Status outcome) {
    static_cast<Operation&>(self).finish_part(std::move(outcome));
  };
  if (request != nullptr) request->in_operation = true;
  window.retain();
  ++peer.pending;
}

Operation::~Operation() {
  if (has_result_) const_cast<datatype::Datatype*>(to_.type)->release();
  window.release();
}

void Operation::set_result(const p2p::Buffer& to) {
  to_ = to;
  has_result_ = true;
  const_cast<datatype::Datatype*>(to.type)->retain();  // the program may free it before completion
}

void Operation::finish_part(Status outcome) {
  if (!outcome.ok() && outcome_.ok()) outcome_ = std::move(outcome);
  WEFT_ASSERT(parts_ != 0);
  if (--parts_ != 0) return;
  if (has_result_ && outcome_.ok()) outcome_ = unpack(to_, kind_of(to_), data);
  --peer.pending;
  if (!outcome_.ok() && peer.outcome.ok()) peer.outcome = outcome_.error().copy();
  if (request_ != nullptr) {
    if (outcome_.ok())
      request_->finish();
    else
      request_->finish(std::move(outcome_).error());
  }
  delete this;
}

Status Window::locate(const Area& area, Place& place) {
  WEFT_TRY(check_rank("target_rank", area.rank));
  Peer& peer = peers[static_cast<size_t>(area.rank)];
  count_use();
  if (instance.failures.changes() != 0) [[unlikely]]
    WEFT_TRY(check_target(peer));
  if (!access_all_ && peer.lock == Lock::none && !peer.started) [[unlikely]]
    return no_epoch(area.rank);
  place.peer = &peer;
  int64_t bytes = 0;
  if (__builtin_mul_overflow(area.count, area.type.size(), &bytes)) [[unlikely]]
    return Error(Errc::count, "target_count = " + std::to_string(area.count) +
                                  " is more data than an address space holds: pass a smaller count");
  place.bytes = static_cast<uint64_t>(bytes);
  if (flavor == Flavor::dynamic) [[unlikely]]
    return locate_region(area, place);
  if (area.disp < 0) [[unlikely]]
    return error(ErrorClass::disp, "target_disp = " + std::to_string(area.disp) + " is negative");
  int64_t start = 0, end = 0;
  bool inside = !__builtin_mul_overflow(area.disp, peer.disp_unit, &start);
  if (area.type.contiguous()) [[likely]] {
    inside = inside && !__builtin_add_overflow(start, static_cast<int64_t>(place.bytes), &end) &&
             static_cast<uint64_t>(end) <= peer.size;
  } else if (place.bytes != 0) {
    datatype::Checked math;
    const int64_t last = math.mul(area.count - 1, area.type.extent());
    const int64_t first = math.add(math.add(start, area.type.true_lb()), std::min<int64_t>(last, 0));
    end = math.add(math.add(start, area.type.true_ub()), std::max<int64_t>(last, 0));
    inside = inside && !math.overflow() && first >= 0 && static_cast<uint64_t>(end) <= peer.size;
  }
  if (!inside && place.bytes != 0) [[unlikely]]
    return error(ErrorClass::range, "target_disp = " + std::to_string(area.disp) +
                                        ", target_count = " + std::to_string(area.count) +
                                        ": the access exceeds the window of " + std::to_string(peer.size) +
                                        " bytes of rank " + std::to_string(area.rank));
  place.window_offset = static_cast<uint64_t>(start);
  place.target = peer.memory;
  place.offset = peer.offset + static_cast<uint64_t>(start);
  place.on_device = peer.on_device;
  place.gpu_atomics = peer.gpu_atomics;
  if (peer.host != nullptr) place.host = peer.host + start;
  return {};
}

namespace {

Error sizes_differ(uint64_t origin, uint64_t target) {
  return {origin > target ? Errc::truncate : Errc::count,
          "the origin has " + std::to_string(origin) + " bytes of data and the target " +
              std::to_string(target) + ": both must be equal"};
}

/// Whether system calls of other processes may write the host memory.
bool may_be_written(const device::Memory& memory) {
  return memory.kind == device::MemoryKind::host || memory.kind == device::MemoryKind::host_pinned;
}

void finish(WindowRequest* request) {
  if (request != nullptr) request->finish();
}

}  // namespace

using counters::Unit;
OperationCounters g_operations{
    {"window.puts", Unit::events, "Puts into windows"},
    {"window.put_bytes", Unit::bytes, "Bytes of puts into windows"},
    {"window.gets", Unit::events, "Gets from windows"},
    {"window.get_bytes", Unit::bytes, "Bytes of gets from windows"},
    {"window.accumulates", Unit::events, "Accumulate operations on windows, with or without fetch"},
    {"window.accumulate_bytes", Unit::bytes,
     "Bytes of windows that accumulate operations have updated or fetched"},
    {"window.compare_and_swaps", Unit::events, "Compare-and-swap operations on windows"}};
bool g_stores_unfenced = false;

void count_move(bool put, uint64_t bytes) {
  (put ? g_operations.puts : g_operations.gets).add();
  (put ? g_operations.put_bytes : g_operations.get_bytes).add(bytes);
}

void count_accumulate(uint64_t bytes) {
  g_operations.accumulates.add();
  g_operations.accumulate_bytes.add(bytes);
}

Status Window::put(const p2p::Buffer& origin, const Area& area, WindowRequest* request) {
  if (area.rank == p2p::kProcNull) [[unlikely]] {
    finish(request);
    return {};
  }
  const Busy busy(*this);
  Place place;
  WEFT_TRY(locate(area, place));
  const auto bytes = static_cast<uint64_t>(origin.count * origin.type->size());
  if (bytes != place.bytes) [[unlikely]]
    return sizes_differ(bytes, place.bytes);
  count_move(true, bytes);
  trace::annotate({bytes, area.rank, -1, comm->number()});
  device::Memory memory;
  if (bytes != 0) memory = kind_of(origin);
  if (bytes == 0 || (place.host != nullptr && !memory.on_device())) [[likely]] {
    g_stores_unfenced = true;
    if (origin.type->contiguous() && area.type.contiguous()) [[likely]] {
      if (bytes != 0) copy_bytes(place.host, origin.address, bytes);
    } else {
      (void)datatype::copy(origin.address, origin.count, *origin.type, place.host, area.count, area.type);
    }
    finish(request);
    return {};
  }
  return move(true, origin, area, place, memory, request);
}

Status Window::get(const p2p::Buffer& origin, const Area& area, WindowRequest* request) {
  if (area.rank == p2p::kProcNull) [[unlikely]] {
    finish(request);
    return {};
  }
  const Busy busy(*this);
  Place place;
  WEFT_TRY(locate(area, place));
  const auto bytes = static_cast<uint64_t>(origin.count * origin.type->size());
  if (bytes != place.bytes) [[unlikely]]
    return sizes_differ(place.bytes, bytes);
  count_move(false, bytes);
  fence_stores();
  trace::annotate({bytes, area.rank, -1, comm->number()});
  device::Memory memory;
  if (bytes != 0) memory = kind_of(origin);
  if (bytes == 0 || (place.host != nullptr && !memory.on_device())) [[likely]] {
    if (origin.type->contiguous() && area.type.contiguous()) [[likely]] {
      if (bytes != 0) copy_bytes(origin.address, place.host, bytes);
    } else {
      (void)datatype::copy(place.host, area.count, area.type, origin.address, origin.count, *origin.type);
    }
    finish(request);
    return {};
  }
  return move(false, origin, area, place, memory, request);
}

/// The general path: one operation of transport/rma for each run of the target.
Status Window::move(bool put, const p2p::Buffer& origin, const Area& area, const Place& place,
                    const device::Memory& memory, WindowRequest* request) {
  if (request == nullptr && place.host == nullptr && origin.type->contiguous() && area.type.contiguous()) {
    PostedOperation small{};
    small.kind = put ? PostedOperation::put : PostedOperation::get;
    if (place.peer->slot != nullptr && !memory.on_device() &&
        post(place, small, put ? origin.address : nullptr, nullptr, put ? nullptr : origin.address))
      return {};
    if (place.peer->slot != nullptr && place.bytes >= SharedTransfer::kMinBytes &&
        place.bytes <= UINT32_MAX && may_be_written(memory))
      return share_transfer(put, place, static_cast<std::byte*>(origin.address));
    // The target counts an operation in flight, and keeps its error until the flush.
    const transport::Buffer buffer{static_cast<std::byte*>(origin.address), place.bytes, memory};
    const auto issued =
        put ? rma().put(*place.target, place.offset, buffer) : rma().get(*place.target, place.offset, buffer);
    return issued ? Status() : Status(issued.error().copy());
  }
  auto* operation = new Operation(*this, *place.peer, request);
  auto* address = static_cast<std::byte*>(origin.address);
  device::Memory from = memory;
  if (!origin.type->contiguous()) {
    if (put) {
      if (Status packed = p2p::pack_to_host(origin, operation->data); !packed.ok()) {
        operation->finish_part(packed.error().copy());
        return packed;
      }
    } else {
      operation->data.resize(place.bytes);
      operation->set_result(origin);
    }
    address = operation->data.data();
    from = {};
  }
  Status outcome;
  datatype::for_each_run(area.type, area.count, 0, static_cast<int64_t>(place.bytes),
                         [&](int64_t displacement, int64_t length) {
                           const transport::Buffer buffer{address, static_cast<size_t>(length), from};
                           const uint64_t at = place.offset + static_cast<uint64_t>(displacement);
                           auto issued = put ? rma().put(*place.target, at, buffer, operation)
                                             : rma().get(*place.target, at, buffer, operation);
                           address += length;
                           if (!issued) {
                             outcome = std::move(issued).error();
                             return false;
                           }
                           if (*issued == transport::rma::Issued::pending) operation->add_part();
                           return true;
                         });
  const bool failed = !outcome.ok();
  operation->finish_part(failed ? Status(outcome.error().copy()) : Status());
  return outcome;
}

/// Reads bytes [at, at + n) of the target's packed data; waits for completion. `memory`: of `stream`, on the
/// host.
Status Window::read_stream(const Area& area, const Place& place, uint64_t at, uint64_t n, std::byte* stream,
                           const device::Memory& memory) {
  if (place.host != nullptr) {
    (void)datatype::pack(area.type, area.count, place.host, static_cast<int64_t>(at), stream, n);
    return {};
  }
  Status outcome;
  datatype::for_each_run(area.type, area.count, static_cast<int64_t>(at), static_cast<int64_t>(n),
                         [&](int64_t displacement, int64_t length) {
                           auto issued =
                               rma().get(*place.target, place.offset + static_cast<uint64_t>(displacement),
                                         {stream, static_cast<size_t>(length), memory});
                           stream += length;
                           if (!issued) outcome = std::move(issued).error();
                           return outcome.ok();
                         });
  Target& target = *place.target;
  core::wait_until(instance, [&] { return target.pending() == 0; });
  WEFT_TRY(std::move(outcome));
  WEFT_TRY(rma().flush(target));
  return {};
}

Status Window::write_stream(const Area& area, const Place& place, uint64_t at, uint64_t n, std::byte* stream,
                            const device::Memory& memory) {
  if (place.host != nullptr) {
    (void)datatype::unpack(area.type, area.count, place.host, static_cast<int64_t>(at), stream, n);
    return {};
  }
  Status outcome;
  datatype::for_each_run(area.type, area.count, static_cast<int64_t>(at), static_cast<int64_t>(n),
                         [&](int64_t displacement, int64_t length) {
                           auto issued =
                               rma().put(*place.target, place.offset + static_cast<uint64_t>(displacement),
                                         {stream, static_cast<size_t>(length), memory});
                           stream += length;
                           if (!issued) outcome = std::move(issued).error();
                           return outcome.ok();
                         });
  Target& target = *place.target;
  core::wait_until(instance, [&] { return target.pending() == 0; });
  WEFT_TRY(std::move(outcome));
  WEFT_TRY(rma().flush(target));
  return {};
}

}  // namespace weft::rma
