// SPDX-License-Identifier: BSD-3-Clause
// Windows: creation, exchange of the memory's keys, destruction.
#include "rma/window.hpp"

#include <algorithm>
#include <cstring>

#include "coll/construct/communicators.hpp"
#include "core/remote_memory.hpp"
#include "device/window.hpp"
#include "rma/exchange.hpp"
#include "rma/messages.hpp"
#include "stream/queue.hpp"

namespace weft::rma {
namespace {

constexpr uint64_t kPage = 4096;

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

/// Keys and sizes of one part of the window, as sent to one peer.
struct Window::Record {
  transport::rma::Key control, memory;
  uint64_t has_memory;
  uint64_t size;
  int64_t disp_unit;
  uint32_t failed;       ///< 1: the process could not allocate or register its part
  uint32_t gpu_atomics;  ///< 1: accumulate operations on the memory are kernels with atomic operations
};

Slab<Window>& Window::slab() {
  static auto& windows = *new Slab<Window>(size_t{1} << 20);
  return windows;
}

Slab<WindowRequest>& WindowRequest::slab() {
  static auto& requests = *new Slab<WindowRequest>(size_t{1} << 22);
  return requests;
}

HandleState check_request(const void* handle) { return WindowRequest::slab().check(handle); }

Window::Window(core::Ref<core::Communicator> own_comm)
    : comm(std::move(own_comm)),
      instance(comm->instance),
      peers(static_cast<size_t>(comm->size())),
      errhandler(core::Ref<core::Errhandler>::share(core::Errhandler::fatal())) {
  comm->name = "communicator of a window";  // for error messages
}

transport::rma::Rma& Window::rma() const { return instance.remote_memory().rma(); }

Status Window::allocate_segment(uint64_t bytes_of_segment) {
  auto segment = piece_ ? rma().allocate_piece(bytes_of_segment) : rma().allocate(bytes_of_segment);
  if (!segment) return std::move(segment).error();
  segment_ = *segment;
  if (piece_) std::memset(segment_, 0, Control::zeroed_bytes(size(), flavor == Flavor::create));
  return {};
}

/// Allocates memory of a kind, and the control block of `head` bytes.
Status Window::allocate_kind(device::MemoryKind wanted, uint64_t head, uint64_t data) {
  const bool in_segment = wanted == device::MemoryKind::host || wanted == device::MemoryKind::host_pinned;
  if (!in_segment && data != 0) {
    auto made = device::Allocation::create(wanted, data);
    if (!made) return std::move(made).error();
    allocation_ = std::move(*made);
  }
  piece_ = !in_segment || data == 0;
  WEFT_TRY(allocate_segment(in_segment ? head + round_up(data, kPage) : head));
  if (wanted != device::MemoryKind::host_pinned || data == 0) return {};
  auto* const proof = reinterpret_cast<uint32_t*>(segment_ + head);
  auto near = device::current_context();
  auto pinned = near ? device::register_host(proof, round_up(data, kPage), proof, *near)
                     : Result<device::HostRegistration>(std::move(near).error());
  if (!pinned) {
    rma().free(std::exchange(segment_, nullptr));
    return std::move(pinned).error();
  }
  pinned_ = std::move(*pinned);
  *proof = 0;
  return {};
}

namespace {

/// Places the parts of all ranks in shared memory. Returns the bytes of all.
Result<uint64_t> place_parts(const std::vector<uint64_t>& sizes, bool contiguous,
                             std::vector<uint64_t>& offsets) {
  constexpr auto kUnit = static_cast<int64_t>(kPage);
  datatype::Checked math;
  int64_t end = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    offsets[i] = static_cast<uint64_t>(end);
    const auto size = static_cast<int64_t>(sizes[i]);
    end = math.add(end, contiguous ? size : math.add(size, kUnit - 1) / kUnit * kUnit);
    if (math.overflow())
      return Error(Errc::no_mem, "size = " + std::to_string(size) + " at rank " + std::to_string(i) +
                                     ": the sizes of all ranks exceed 64 bits: pass smaller ones");
  }
  return static_cast<uint64_t>(end);
}

}  // namespace

/// Allocates the control block and, for some flavors, memory of the window, in one segment. Registers both.
Status Window::allocate(const Options& options, const std::vector<uint64_t>& sizes) {
  // The program's memory is not in a segment that others can map.
  const size_t control_bytes = Control::bytes(size(), options.flavor == Flavor::create);
  const uint64_t head = round_up(control_bytes, kPage);
  uint64_t data = 0;
  if (options.flavor == Flavor::allocate) data = options.size;
  if (options.flavor == Flavor::shared) {
    shared_offsets_.resize(peers.size());
    auto all = place_parts(sizes, options.contiguous, shared_offsets_);
    if (!all) return std::move(all).error();
    data = *all;
    if (comm->rank() != 0) data = 0;  // rank 0 allocates for all
  }
  if (options.kinds != nullptr) {
    auto chosen = options.kinds->first(
        [&](const device::AllocationKinds::Entry& entry) { return allocate_kind(entry.kind, head, data); });
    if (!chosen) return std::move(chosen).error();
    kind = *chosen;
  } else {
    piece_ = data == 0;
    WEFT_TRY(allocate_segment(head + data));
  }
  control = reinterpret_cast<Control*>(segment_);
  auto region = rma().register_memory(segment_, control_bytes, {});
  if (!region) return std::move(region).error();
  control_region_ = *region;
  std::byte* address = segment_ + head;
  uint64_t length = data;
  device::Memory memory;
  if (options.flavor == Flavor::create) {
    address = static_cast<std::byte*>(options.base);
    length = options.size;
    memory = device::widened(device::classify(address), address, length);
  } else if (allocation_) {
    address = allocation_.data();
    memory = allocation_.memory();
  }
  if (length == 0) return {};
  auto own = rma().register_memory(address, length, memory);
  if (!own) return std::move(own).error();
  own_.emplace(reinterpret_cast<uintptr_t>(address), OwnMemory{length, memory, *own});
  if (options.flavor != Flavor::shared) base = address;
  return {};
}

/// Exchanges keys with all processes. `own`: whether this process has its part.
Status Window::share(const Options& options, Status own) {
  std::vector<Record> out(peers.size()), in(peers.size());
  for (size_t i = 0; i < peers.size(); ++i) {
    const core::ProcessId process = comm->process(static_cast<int>(i));
    Record& record = out[i];
    record = Record{};
    record.size = options.size;
    record.disp_unit = options.disp_unit;
    if (own.ok() && instance.same_host(process)) {
      auto key = rma().key(control_region_, process);
      if (key)
        record.control = *key;
      else
        own = std::move(key).error();
    }
    if (own.ok() && !own_.empty()) {
      auto key = rma().key(own_.begin()->second.region, process);
      if (key)
        record.memory = *key;
      else
        own = std::move(key).error();
      record.has_memory = 1;
      record.gpu_atomics = device::can_accumulate(own_.begin()->second.memory) ? 1 : 0;
    }
  }
  for (Record& record : out) record.failed = own.ok() ? 0 : 1;
  WEFT_TRY(exchange(coll::Collective::alltoall, *comm, out.data(), in.data(), sizeof(Record)));
  exchanged_ = true;
  WEFT_TRY(std::move(own));
  for (size_t i = 0; i < in.size(); ++i)
    if (in[i].failed != 0)
      return Error(Errc::no_mem, "rank " + std::to_string(i) + " could not provide its part of the window");
  return confirm(attach_peers(in));
}

/// Whether operations of this process on a peer's memory are executed by the peer.
bool Window::needs_progress_of(const Peer& peer) const {
  if (peer.process == instance.self) return false;
  if (peer.control == nullptr || flavor == Flavor::dynamic) return true;
  if (peer.memory == nullptr) return false;
  const transport::rma::Caps& caps = peer.memory->caps();
  const bool launches = !peer.gpu_atomics ||
                        (peer.memory->direct() != nullptr && device::can_accumulate(peer.memory->memory()));
  return caps.put == transport::rma::Path::message || caps.get == transport::rma::Path::message || !launches;
}

/// Tells each peer whether messages reach it, and all whether this process has attached all memory: a process
/// knows both before its first operation and before it leaves the call.
Status Window::confirm(Status attached) {
  constexpr size_t kMaxBarrier = 32;  // processes: each reads a cache line of every other
  enum : uint8_t { failed = 1, by_message = 2, counts = 4 };
  const bool waits_by_counters =
      comm->on_one_host() && !serves_messages_ && !instance.oversubscribed && peers.size() <= kMaxBarrier;
  std::vector<uint8_t> out(peers.size()), in(peers.size());
  for (size_t i = 0; i < peers.size(); ++i) {
    if (!attached.ok())
      out[i] = failed;
    else
      out[i] = static_cast<uint8_t>((needs_progress_of(peers[i]) ? by_message : 0) |
                                    (waits_by_counters ? counts : 0));
  }
  WEFT_TRY(exchange(coll::Collective::alltoall, *comm, out.data(), in.data(), 1));
  WEFT_TRY(std::move(attached));
  host_barrier_ = true;
  for (size_t i = 0; i < in.size(); ++i) {
    host_barrier_ &= (in[i] & counts) != 0;
    if (in[i] == failed)
      return Error(Errc::other, "rank " + std::to_string(i) + " could not attach the memory of the window");
    if ((in[i] & by_message) != 0) Messages::of(instance).serve(*this);
  }
  return {};
}

Status Window::attach_peers(const std::vector<Record>& records) {
  for (size_t i = 0; i < peers.size(); ++i) {
    peers[i].size = records[i].size;
    peers[i].disp_unit = records[i].disp_unit;
    peers[i].on_device = records[i].has_memory != 0 && records[i].memory.on_device != 0;
  }
  const device::Memory near = own_.empty() ? gpu_memory() : own_.begin()->second.memory;
  Target* shared = nullptr;
  for (size_t i = 0; i < peers.size(); ++i) {
    const Record& record = records[i];
    Peer& peer = peers[i];
    if (peer.process == instance.self) {
      peer.control = control;
    } else if (instance.same_host(peer.process)) {
      auto target = rma().attach(peer.process, record.control, {});
      if (!target) return std::move(target).error();
      peer.control = reinterpret_cast<Control*>((*target)->direct());
      targets_.push_back(std::move(*target));
    }
    if (peer.control == nullptr) serves_messages_ = true;
    if (record.has_memory != 0) {
      auto target = rma().attach(peer.process, record.memory, near);
      if (!target) return std::move(target).error();
      peer.memory = target->get();
      peer.gpu_atomics = record.gpu_atomics != 0;
      targets_.push_back(std::move(*target));
    }
    if (flavor == Flavor::create && peer.control != nullptr) connect_slots(static_cast<int>(i));
    if (flavor == Flavor::shared) {
      if (i == 0) shared = peer.memory;
      if (shared != nullptr && shared->direct() == nullptr)
        return error(ErrorClass::shared, "the memory of rank 0 cannot be mapped (" + shared->caps().reason +
                                             "): use MPI_Win_allocate");
      peer.memory = shared;
      peer.offset = shared_offsets_[i];
    }
    if (peer.memory != nullptr && !peer.on_device && peer.memory->direct() != nullptr)
      peer.host = peer.memory->direct() + peer.offset;
  }
  if (flavor == Flavor::shared) base = peers[static_cast<size_t>(comm->rank())].host;
  return {};
}

Result<Window*> Window::create(core::Communicator& comm, const Options& options) {
  if (options.flavor == Flavor::shared && !comm.on_one_host())
    return error(ErrorClass::shared,
                 "the processes of the communicator are not on one host: split it with "
                 "MPI_Comm_split_type(MPI_COMM_TYPE_SHARED)");
  auto duplicate = coll::duplicate(comm);
  if (!duplicate) return std::move(duplicate).error();
  comm.instance.failures.make_part(**duplicate, comm);  // whose revocation ends the creation
  Window* const window = slab().create(core::Ref<core::Communicator>(*duplicate));
  if (window == nullptr) return Error(Errc::no_mem, "too many windows: free some");
  const core::Ref<Window> guard(window);
  // Of all ranks or none, unlike the stream of a communicator in stream order, whose windows follow it.
  if (auto queue = stream::queue_of(comm))
    window->stream = core::Ref<stream::Stream>::share(&(*queue)->stream());
  auto following = stream::order::follow_order(*window->comm, comm);
  if (!following) return std::move(following).error();
  window->following = std::move(*following);
  window->flavor = options.flavor;
  window->disp_unit = options.disp_unit;
  window->bytes = static_cast<int64_t>(options.size);
  window->disp_unit_attribute = static_cast<int>(options.disp_unit);
  window->flavor_attribute = static_cast<int>(options.flavor);
  for (size_t i = 0; i < window->peers.size(); ++i)
    window->peers[i].process = window->comm->process(static_cast<int>(i));
  std::vector<uint64_t> sizes(window->peers.size());
  if (options.flavor == Flavor::shared)
    WEFT_TRY(
        exchange(coll::Collective::allgather, *window->comm, &options.size, sizes.data(), sizeof(uint64_t)));
  Messages& messages = Messages::of(window->instance);
  messages.add(*window);  // peers may send before this process has received all keys
  Status made = window->share(options, window->allocate(options, sizes));
  if (made.ok()) made = window->create_stream_counters({});
  // With its communicator, during the last step: the window would be revoked on this process alone.
  if (made.ok() && window->comm->revoked) made = revoked_error();
  if (made.ok()) {
    window->comm->part_of = nullptr;
    window->retain();
    return window;
  }
  // A peer that has attached does not access the memory before its own barrier.
  if (Status met = barrier(*window->comm); !met.ok()) window->await_detached();
  messages.remove(*window);
  (void)window->withdraw();
  window->comm->part_of = nullptr;
  return std::move(made).error();
}

/// Detaches the peers' memory and withdraws the own one, when no process accesses it any more.
Status Window::withdraw() {
  Status dropped = counters == nullptr ? Status() : counters->withdraw();
  counters.reset();
  for (Peer& peer : peers) drop_regions(peer);
  for (auto& target : targets_) {
    core::wait_until(instance, [&] { return target->pending() == 0; });
    rma().detach(std::move(target));
  }
  targets_.clear();
  Status met = barrier(*comm);
  if (!met.ok()) tell_detached();  // a process whose barrier before that has failed waits
  for (const auto& [address, memory] : own_) rma().deregister(memory.region);
  for (const auto& [address, memory] : spans_) rma().deregister(memory.region);
  own_.clear();
  spans_.clear();
  if (control_region_ != transport::rma::kNoId) rma().deregister(control_region_);
  allocation_ = {};
  if (pinned_)
    Messages::of(instance).retired().give({std::exchange(segment_, nullptr), 0, std::move(pinned_)});
  else if (segment_ != nullptr && piece_)
    rma().free_piece(segment_, met.ok() || all_detached_);
  else if (segment_ != nullptr)
    rma().free(segment_);
  segment_ = nullptr;
  control = nullptr;
  return dropped.ok() ? std::move(met) : std::move(dropped);
}

Status Window::free(Window* window) {
  Status flushed = window->flush_all();
  if (Status settled = window->settle_stream(); flushed.ok()) flushed = std::move(settled);
  Status finished = barrier(*window->comm);  // no peer sends messages about the window afterwards
  if (!finished.ok()) window->await_detached();
  Messages::of(window->instance).remove(*window);
  Status released = window->withdraw();
  window->close_handle();
  WEFT_TRY(std::move(flushed));
  WEFT_TRY(std::move(finished));
  return released;
}

const OwnMemory* Window::own_memory(uint64_t window_offset, uint64_t length, std::byte*& address) {
  const uintptr_t first = flavor == Flavor::dynamic
                              ? window_offset
                              : reinterpret_cast<uintptr_t>(base) + static_cast<uintptr_t>(window_offset);
  address = reinterpret_cast<std::byte*>(first);
  auto found = own_.upper_bound(first);
  if (found == own_.begin()) return nullptr;
  --found;
  const uint64_t at = first - found->first;
  if (at > found->second.length) return nullptr;
  if (length <= found->second.length - at) return &found->second;
  return flavor == Flavor::dynamic ? span_of(first, length) : nullptr;
}

Status Window::check_rank(const char* argument, int rank) const {
  if (static_cast<unsigned>(rank) < peers.size()) [[likely]]
    return {};
  return Error(Errc::rank, std::string(argument) + " = " + std::to_string(rank) +
                               " is not in the window of " + std::to_string(peers.size()) + " processes");
}

}  // namespace weft::rma
