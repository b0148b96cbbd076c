// SPDX-License-Identifier: BSD-3-Clause
#include "rma/counters.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/config.hpp"
#include "core/remote_memory.hpp"
#include "device/copy.hpp"
#include "device/pool.hpp"
#include "device/window.hpp"
#include "rma/exchange.hpp"
#include "rma/window.hpp"
#include "stream/cancel.hpp"
#include "transport/shm/shm.hpp"
#include "weft_device.cuh"

namespace weft::rma {
namespace {

namespace abi = device::abi;

constexpr size_t kWord = sizeof(uint64_t);

template <class T>
void append(std::vector<std::byte>& bytes, const T& value) {
  const auto* const first = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof value);
}

/// Adds to a word in GPU memory by a kernel, and waits.
Status add_on_gpu(std::byte* word, const device::Memory& memory, uint64_t value) {
  auto pinned = device::lease_pinned(memory);
  if (!pinned) return std::move(pinned).error();
  std::memcpy(pinned->data(), &value, sizeof value);
  device::kernel::Accumulate add{};
  add.target = reinterpret_cast<uint64_t>(word);
  add.origin = reinterpret_cast<uint64_t>(pinned->data());
  add.count = add.block = 1;
  add.reduction = {device::kernel::ReduceOp::sum, device::kernel::Element::int64};
  add.size = kWord;
  auto ticket = device::accumulate_async(add, memory);
  if (!ticket) return std::move(ticket).error();
  return device::wait(*ticket);
}

}  // namespace

struct Counters::Record {
  transport::rma::Key key;
  uint32_t notifications;
  uint32_t failed;
};

Counters::Counters(Window& window, uint32_t notifications)
    : window_(window), notifications_(notifications), peers_(static_cast<size_t>(window.size())) {}

uint64_t Counters::offset(uint32_t notification) const {
  return (static_cast<uint64_t>(window_.size()) + notification) * kWord;
}

/// Allocates the own counters, which are zero.
Status Counters::allocate() {
  const uint64_t bytes = offset(notifications_);
  const device::Memory near = window_.gpu_memory();
  // Processes of other hosts have no access to counters in GPU memory.
  if (near.on_device() && window_.comm->on_one_host()) {
    auto memory = device::allocate_scratch(near, std::max<size_t>(bytes, device::Workspace::kMappable));
    if (!memory) return std::move(memory).error();
    memory_ = *memory;
    gpu_.context = memory_.context != nullptr ? memory_.context : memory_.home;
    gpu_.device = memory_.device;
    address_ = reinterpret_cast<std::byte*>(memory_.base);
    const std::vector<std::byte> zeros(bytes);
    WEFT_TRY(device::copy(address_, memory_, zeros.data(), {}, bytes));
  } else {
    auto memory = window_.rma().allocate(bytes);
    if (!memory) return std::move(memory).error();
    address_ = *memory;
  }
  auto region = window_.rma().register_memory(address_, bytes, memory_);
  if (!region) return std::move(region).error();
  region_ = *region;
  return {};
}

Result<std::unique_ptr<Counters>> Counters::create(Window& window, uint32_t notifications) {
  std::unique_ptr<Counters> made(new Counters(window, notifications));
  Status own = made->allocate();
  std::vector<Record> out(made->peers_.size()), in(made->peers_.size());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = Record{};
    out[i].notifications = notifications;
    if (!own.ok()) continue;
    auto key = window.rma().key(made->region_, window.peers[i].process);
    if (key)
      out[i].key = *key;
    else
      own = std::move(key).error();
  }
  for (Record& record : out) record.failed = own.ok() ? 0 : 1;
  WEFT_TRY(exchange(coll::Collective::alltoall, *window.comm, out.data(), in.data(), sizeof(Record)));
  Status all = own.ok() ? Status() : Status(own.error().copy());
  for (size_t i = 0; i < in.size() && all.ok(); ++i)
    if (in[i].failed != 0)
      all = Error(Errc::no_mem, "rank " + std::to_string(i) + " could not provide its notification counters");
  for (size_t i = 0; i < in.size() && all.ok(); ++i) {
    auto target = window.rma().attach(window.peers[i].process, in[i].key, made->memory_);
    if (!target) {
      own = std::move(target).error();
      break;
    }
    made->peers_[i].target = std::move(*target);
    made->peers_[i].notifications = in[i].notifications;
  }
  if (all.ok() && own.ok()) return made;
  (void)made->withdraw();
  return all.ok() ? std::move(own).error() : std::move(all).error();
}

Counters::~Counters() {
  if (status_ != nullptr) stream::forget_cancel_word(window_.instance, status_->cancelled);
  device::free_pinned(gpu_, status_);
}

Status Counters::withdraw() {
  for (Peer& peer : peers_) {
    if (peer.target == nullptr) continue;
    core::wait_until(window_.instance, [&] { return peer.target->pending() == 0; });
    window_.rma().detach(std::move(peer.target));
  }
  Status all_detached = barrier(*window_.comm);
  if (region_ != transport::rma::kNoId) window_.rma().deregister(region_);
  if (table_.base != 0) device::free_scratch(table_);
  if (on_device())
    device::free_scratch(memory_);
  else if (address_ != nullptr)
    window_.rma().free(address_);
  return all_detached;
}

Status Counters::notify(int rank, uint32_t notification) {
  transport::rma::Target& target = *peers_[static_cast<size_t>(rank)].target;
  const core::ProcessId process = window_.peers[static_cast<size_t>(rank)].process;
  if (!target.memory().on_device() || target.direct() == nullptr) {
    const transport::rma::Atomic add{transport::rma::AtomicOp::sum, transport::rma::AtomicType::uint64, 1, 0};
    auto issued = window_.rma().atomic(target, offset(notification), add, &discarded_);
    if (!issued) return std::move(issued).error();
    if (window_.instance.shm != nullptr && process != window_.instance.self &&
        window_.instance.same_host(process))
      window_.instance.shm->notify(process);  // it may sleep in MPIX_Win_wait_notify
    return {};
  }
  return add_on_gpu(target.direct() + offset(notification), target.memory(), 1);
}

Result<uint64_t> Counters::read(uint32_t notification) const {
  const std::byte* const at = address_ + offset(notification);
  uint64_t value = 0;
  if (!on_device()) return __atomic_load_n(reinterpret_cast<const uint64_t*>(at), __ATOMIC_ACQUIRE);
  auto pinned = device::lease_pinned(memory_);  // a copy to pageable memory takes four times as long
  if (!pinned) {
    WEFT_TRY(device::copy(&value, {}, at, memory_, sizeof value));
    return value;
  }
  WEFT_TRY(device::copy(pinned->data(), pinned->memory(), at, memory_, sizeof value));
  std::memcpy(&value, pinned->data(), sizeof value);
  return value;
}

Status Counters::write(uint32_t notification, uint64_t value) {
  std::byte* const at = address_ + offset(notification);
  if (on_device()) return device::copy(at, memory_, &value, {}, sizeof value);
  __atomic_store_n(reinterpret_cast<uint64_t*>(at), value, __ATOMIC_RELEASE);
  return {};
}

Result<bool> Counters::try_take(uint32_t notification, uint64_t value) {
  auto now = read(notification);
  if (!now) return std::move(now).error();
  if (*now < value) return false;
  std::byte* const at = address_ + offset(notification);
  if (!on_device()) {
    __atomic_fetch_sub(reinterpret_cast<uint64_t*>(at), value, __ATOMIC_RELAXED);
    return true;
  }
  // Peers add to the counter at the same time: the GPU subtracts.
  WEFT_TRY(add_on_gpu(at, memory_, ~value + 1));
  return true;
}

Status Counters::make_table() {
  if (!on_device())
    return Error(
        Errc::unsupported,
        "the window memory of this process is not on a GPU and its communicator has no GPU stream, or "
        "the window spans several hosts: kernels cannot access it");
  WEFT_TRY(device::adopt_for_windows(gpu_));
  auto status = device::allocate_pinned(gpu_, sizeof *status_);
  if (!status) return std::move(status).error();
  status_ = static_cast<abi::WindowStatus*>(*status);
  stream::cancel_on_failure(*window_.comm, status_->cancelled);
  std::vector<std::byte> bytes;
  for (const bool in_stream : {true, false}) {
    append(bytes, abi::WindowTable{abi::kVersion, window_.comm->rank(), window_.size(), 0,
                                   in_stream ? 0 : device::kernel_timeout_ns(),
                                   reinterpret_cast<uint64_t>(status_)});
    for (size_t i = 0; i < peers_.size(); ++i) {
      const rma::Peer& peer = window_.peers[i];
      const transport::rma::Target& counters = *peers_[i].target;
      const std::string who = "rank " + std::to_string(i);
      if (counters.direct() == nullptr || !counters.memory().on_device())
        return Error(Errc::unsupported, "this GPU cannot access the notification counters of " + who +
                                            (counters.caps().reason.empty() ? ", which are in host memory"
                                                                            : ": " + counters.caps().reason));
      if (peer.size != 0 && (!peer.on_device || peer.memory->direct() == nullptr))
        return Error(Errc::unsupported, "this GPU cannot access the window memory of " + who +
                                            (peer.on_device ? ": " + peer.memory->caps().reason
                                                            : ", which is host memory: use GPU memory"));
      const uint64_t base =
          peer.size == 0 ? 0 : reinterpret_cast<uint64_t>(peer.memory->direct()) + peer.offset;
      append(bytes,
             abi::WindowPeer{base, peer.size, static_cast<uint64_t>(peer.disp_unit),
                             peer.size / static_cast<uint64_t>(peer.disp_unit),
                             reinterpret_cast<uint64_t>(counters.direct()), peers_[i].notifications, 0});
    }
  }
  auto table = device::allocate_scratch(memory_, bytes.size());
  if (!table) return std::move(table).error();
  table_ = *table;
  return device::copy(reinterpret_cast<void*>(table_.base), table_, bytes.data(), {}, bytes.size());
}

Result<uint64_t> Counters::table(bool in_stream) {
  if (table_.base == 0) {
    Status made = make_table();
    if (!made.ok()) {
      if (status_ != nullptr) stream::forget_cancel_word(window_.instance, status_->cancelled);
      device::free_pinned(gpu_, std::exchange(status_, nullptr));
      return std::move(made).error();
    }
  }
  const size_t one = sizeof(abi::WindowTable) + peers_.size() * sizeof(abi::WindowPeer);
  return table_.base + (in_stream ? 0 : one);
}

}  // namespace weft::rma
