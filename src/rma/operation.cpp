// SPDX-License-Identifier: BSD-3-Clause
// Put and get.
#include <algorithm>
#include <cstring>
#include <new>

#include "base/trace.hpp"
#include "copy/copy.hpp"
#include "core/remote_memory.hpp"
#include "rma/messages.hpp"
#include "rma/now.hpp"
#include "rma/window.hpp"

namespace weft::rma {

Status unpack(const p2p::Buffer& to, const device::Memory& memory, const std::vector<std::byte>& stream) {
  return copy::execute(copy::typed(to.address, to.count, *to.type, memory), copy::plain(stream.data()),
                       stream.size());
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
  for (const datatype::Datatype* type : types_)
    if (type != nullptr) const_cast<datatype::Datatype*>(type)->release();
  window.release();
}

void Operation::hold(const datatype::Datatype& type) {
  const_cast<datatype::Datatype&>(type).retain();
  (types_[0] == nullptr ? types_[0] : types_[1]) = &type;
}

Status Operation::receive_into(const p2p::Buffer& to, uint64_t bytes) {
  try {
    data.resize(bytes);
  } catch (const std::bad_alloc&) {
    finish_part(p2p::no_memory_for_copy(bytes));
    return p2p::no_memory_for_copy(bytes);
  }
  to_ = to;
  has_result_ = true;
  hold(*to.type);
  return {};
}

void Operation::finish_part(Status outcome) {
  if (!outcome.ok() && outcome_.ok()) outcome_ = std::move(outcome);
  WEFT_ASSERT(parts_ != 0);
  if (--parts_ != 0) return;
  if (has_result_ && outcome_.ok()) outcome_ = unpack(to_, kind_of(to_), data);
  --peer.pending;
  if (!outcome_.ok() && peer.outcome.ok()) peer.outcome = outcome_.error().copy();
  if (ended != nullptr) ended->done(*ended, outcome_.ok() ? Status() : Status(outcome_.error().copy()));
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

/// Starts an operation of transport/rma for each run of bytes [at, at + stream.length) of the target's packed
/// data. `operation`: null, or counts them as its parts.
Status issue_runs(transport::rma::Rma& rma, bool put, const Area& area, const Place& place, uint64_t at,
                  const transport::Buffer& stream, Operation* operation) {
  Status outcome;
  transport::Buffer part = stream;
  datatype::for_each_run(area.type, area.count, static_cast<int64_t>(at), static_cast<int64_t>(stream.length),
                         [&](int64_t displacement, int64_t length) {
                           part.length = static_cast<size_t>(length);
                           const uint64_t offset = place.offset + static_cast<uint64_t>(displacement);
                           auto issued = put ? rma.put(*place.target, offset, part, operation)
                                             : rma.get(*place.target, offset, part, operation);
                           part.address += length;
                           if (!issued)
                             outcome = std::move(issued).error();
                           else if (operation != nullptr && *issued == transport::rma::Issued::pending)
                             operation->add_part();
                           return outcome.ok();
                         });
  return outcome;
}

/// The mapped memory that an operation accesses.
copy::View view_of(const Area& area, const Place& place) {
  const auto base = reinterpret_cast<uintptr_t>(place.target->direct());  // may be outside of the target
  return copy::typed(reinterpret_cast<void*>(base + place.offset), area.count, area.type,
                     place.target->memory());
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
    instance.stores_unfenced = true;
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
  fence_stores(instance);
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

/// The general path.
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
  if (place.target->direct() != nullptr && !(origin.type->contiguous() && area.type.contiguous()))
    return copy_layouts(put, origin, area, place, memory, request);
  auto* operation = new Operation(*this, *place.peer, request);
  auto* address = static_cast<std::byte*>(origin.address);
  device::Memory from = memory;
  // GPU memory is copied at once, not for each run of the target, unless a network reaches it.
  const transport::rma::Caps& caps = place.target->caps();
  const bool gathered = memory.on_device() && !area.type.contiguous() &&
                        (put ? caps.put : caps.get) != transport::rma::Path::network;
  if (!origin.type->contiguous() || gathered) {
    if (memory.on_device())
      transport::rma::report_staged("the operation has a layout in GPU memory, and the target is not mapped");
    if (put) {
      if (Status packed = p2p::pack_to_host(origin, operation->data); !packed.ok()) {
        operation->finish_part(packed.error().copy());
        return packed;
      }
    } else {
      WEFT_TRY(operation->receive_into(origin, place.bytes));
    }
    address = operation->data.data();
    from = {};
  }
  Status outcome = issue_runs(rma(), put, area, place, 0, {address, place.bytes, from}, operation);
  operation->finish_part(outcome.ok() ? Status() : Status(outcome.error().copy()));
  return outcome;
}

/// Copies between two layouts, the target being mapped.
Status Window::copy_layouts(bool put, const p2p::Buffer& origin, const Area& area, const Place& place,
                            const device::Memory& memory, WindowRequest* request) {
  auto* const operation = new Operation(*this, *place.peer, request);
  operation->hold(*origin.type);  // the program may free the types before completion
  operation->hold(area.type);
  auto issued = rma().copy_layouts(*place.target, put, view_of(area, place),
                                   copy::typed(origin.address, origin.count, *origin.type, memory),
                                   place.bytes, operation);
  if (issued && *issued == transport::rma::Issued::pending) operation->add_part();
  operation->finish_part(issued ? Status() : Status(issued.error().copy()));
  return issued ? Status() : Status(std::move(issued).error());
}

/// Copies between `stream` and bytes [at, at + n) of the target's packed data; waits for completion.
Status Window::copy_stream(bool put, const Area& area, const Place& place, uint64_t at, uint64_t n,
                           const copy::View& stream) {
  if (place.host != nullptr || (place.on_device && place.target->direct() != nullptr)) {
    const copy::View target = view_of(area, place).from(at);
    return put ? copy::execute(target, stream, n) : copy::execute(stream, target, n);
  }
  Status outcome = issue_runs(rma(), put, area, place, at, {stream.data(), n, stream.memory}, nullptr);
  Target& target = *place.target;
  core::wait_until(instance, [&] { return target.pending() == 0; });
  WEFT_TRY(std::move(outcome));
  WEFT_TRY(rma().flush(target));
  return {};
}

}  // namespace weft::rma
