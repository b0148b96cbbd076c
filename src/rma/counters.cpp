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
#include "rma/kernel_queue.hpp"
#include "rma/messages.hpp"
#include "rma/window.hpp"
#include "stream/cancel.hpp"
#include "transport/shm/shm.hpp"
#include "weft_device.cuh"

namespace weft::rma {
namespace {

namespace abi = device::abi;

constexpr size_t kWord = sizeof(uint64_t), kPage = 4096;
constexpr unsigned kPollsOfHostWord = 16;  // for one of the word in GPU memory: a copy

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

/// Bytes of whole pages for `bytes` and a word at the end, which is for the proof of pin_host_words().
uint64_t with_proof(uint64_t bytes) { return (bytes + kWord + kPage - 1) / kPage * kPage; }

}  // namespace

struct Counters::Record {
  transport::rma::Key key, gpu;
  uint32_t notifications;
  uint32_t failed;
  uint64_t has_gpu;  ///< 1: `gpu` is the key of words in GPU memory beside those of `key`
};

Counters::Counters(Window& window, uint32_t notifications)
    : window_(window),
      notifications_(notifications),
      spans_(!window.comm->on_one_host()),
      peers_(static_cast<size_t>(window.size())),
      looks_(notifications) {}

uint64_t Counters::offset(uint32_t notification) const {
  return (static_cast<uint64_t>(window_.size()) + notification) * kWord;
}

Status Counters::allocate_on_gpu(const device::Memory& near) {
  const uint64_t bytes = offset(notifications_);
  auto memory = device::allocate_scratch(near, std::max<size_t>(bytes, device::Workspace::kMappable));
  if (!memory) return std::move(memory).error();
  memory_ = *memory;
  gpu_.context = memory_.context != nullptr ? memory_.context : memory_.home;
  gpu_.device = memory_.device;
  words_ = reinterpret_cast<std::byte*>(memory_.base);
  const std::vector<std::byte> zeros(bytes);
  WEFT_TRY(device::copy(words_, memory_, zeros.data(), {}, bytes));
  auto region = window_.rma().register_memory(words_, bytes, memory_);
  if (!region) return std::move(region).error();
  gpu_region_ = *region;
  return {};
}

Status Counters::allocate_on_host() {
  const uint64_t bytes = with_proof(offset(notifications_));
  RetiredPages::Pages pages = Messages::of(window_.instance).retired().take(bytes);
  if (pages.memory == nullptr) {
    auto memory = window_.rma().allocate(bytes);
    if (!memory) return std::move(memory).error();
    pages.memory = *memory;
  }
  host_ = pages.memory;
  pinned_ = std::move(pages.pinned);
  auto region = window_.rma().register_memory(host_, offset(notifications_), {});
  if (!region) return std::move(region).error();
  host_region_ = *region;
  return {};
}

/// Allocates the own counters, which are zero.
Status Counters::allocate() {
  const device::Memory near = window_.gpu_memory();
  if (near.on_device()) WEFT_TRY(allocate_on_gpu(near));
  // Processes of other hosts have no access to counters in GPU memory.
  if (near.on_device() && !spans_) return {};
  WEFT_TRY(allocate_on_host());
  remote_writes_ = device::order_of_remote_writes(memory_);
  if (remote_writes_ == device::RemoteWrites::flushed) window_.rma().announces(host_region_, memory_);
  return {};
}

Status Counters::make_keys(std::vector<Record>& out) {
  const bool both = words_ != nullptr && host_ != nullptr;
  for (size_t i = 0; i < out.size(); ++i) {
    const core::ProcessId process = window_.peers[i].process;
    auto key = window_.rma().key(host_ != nullptr ? host_region_ : gpu_region_, process);
    if (!key) return std::move(key).error();
    out[i].key = *key;
    if (!both || !window_.instance.same_host(process)) continue;
    auto gpu = window_.rma().key(gpu_region_, process);
    if (!gpu) return std::move(gpu).error();
    out[i].gpu = *gpu;
    out[i].has_gpu = 1;
  }
  return {};
}

Status Counters::attach(const std::vector<Record>& in) {
  for (size_t i = 0; i < in.size(); ++i) {
    const core::ProcessId process = window_.peers[i].process;
    auto target = window_.rma().attach(process, in[i].key, memory_);
    if (!target) return std::move(target).error();
    peers_[i].target = std::move(*target);
    peers_[i].notifications = in[i].notifications;
    if (in[i].has_gpu == 0) continue;
    auto gpu = window_.rma().attach(process, in[i].gpu, memory_);
    if (!gpu) return std::move(gpu).error();
    peers_[i].gpu = std::move(*gpu);
  }
  return {};
}

Status Counters::create(Window& window, uint32_t notifications, Status own) {
  window.counters.reset(new Counters(window, notifications));
  Status made = window.counters->share(std::move(own));
  if (!made.ok()) window.counters.reset();
  return made;
}

/// A peer that has the records of all may send messages to these counters before this process has them.
Status Counters::share(Status own) {
  if (own.ok()) own = allocate();
  std::vector<Record> out(peers_.size()), in(peers_.size());
  if (own.ok()) own = make_keys(out);
  for (Record& record : out) {
    record.notifications = notifications_;
    record.failed = own.ok() ? 0 : 1;
  }
  WEFT_TRY(exchange(coll::Collective::alltoall, *window_.comm, out.data(), in.data(), sizeof(Record)));
  Status all = own.ok() ? Status() : Status(own.error().copy());
  for (size_t i = 0; i < in.size() && all.ok(); ++i)
    if (in[i].failed != 0)
      all = Error(Errc::no_mem, "rank " + std::to_string(i) + " could not provide its notification counters");
  if (all.ok()) own = attach(in);
  if (all.ok() && own.ok()) return {};
  (void)withdraw();
  return all.ok() ? std::move(own).error() : std::move(all).error();
}

Counters::~Counters() {
  queue_.reset();
  if (status_ != nullptr) stream::forget_cancel_word(window_.instance, status_->cancelled);
  device::free_pinned(gpu_, status_);
}

Status Counters::withdraw() {
  if (queue_ != nullptr) core::wait_until(window_.instance, [&] { return queue_->pending() == 0; });
  const auto detach = [&](std::unique_ptr<transport::rma::Target>& target) {
    if (target == nullptr) return;
    core::wait_until(window_.instance, [&] { return target->pending() == 0; });
    window_.rma().detach(std::move(target));
  };
  for (Peer& peer : peers_) {
    detach(peer.target);
    detach(peer.gpu);
  }
  Status all_detached = barrier(*window_.comm);
  for (const transport::rma::Id region : {gpu_region_, host_region_})
    if (region != transport::rma::kNoId) window_.rma().deregister(region);
  if (queue_ != nullptr) Messages::of(window_.instance).await_updates(window_);  // they use its memory
  queue_.reset();
  if (table_.base != 0) device::free_scratch(table_);
  if (words_ != nullptr) device::free_scratch(memory_);
  if (host_ != nullptr) {
    const uint64_t bytes = all_detached.ok() ? with_proof(offset(notifications_)) : 0;
    Messages::of(window_.instance).retired().give({std::exchange(host_, nullptr), bytes, std::move(pinned_)});
  }
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

bool Counters::arrive(uint32_t word) {
  if (host_ == nullptr || word >= peers_.size() + notifications_) return false;
  if (remote_writes_ == device::RemoteWrites::flushed && !device::flush_remote_writes(memory_).ok())
    return false;
  __atomic_fetch_add(reinterpret_cast<uint64_t*>(host_) + word, 1, __ATOMIC_RELEASE);
  return true;
}

/// The word in GPU memory.
Result<uint64_t> Counters::read_gpu(uint32_t notification) const {
  const std::byte* const at = words_ + offset(notification);
  uint64_t value = 0;
  auto pinned = device::lease_pinned(memory_);  // a copy to pageable memory takes four times as long
  if (!pinned) {
    WEFT_TRY(device::copy(&value, {}, at, memory_, sizeof value));
    return value;
  }
  WEFT_TRY(device::copy(pinned->data(), pinned->memory(), at, memory_, sizeof value));
  std::memcpy(&value, pinned->data(), sizeof value);
  return value;
}

Result<uint64_t> Counters::read(uint32_t notification) const {
  uint64_t value = 0;
  if (words_ != nullptr) {
    auto on_gpu = read_gpu(notification);
    if (!on_gpu) return std::move(on_gpu).error();
    value = *on_gpu;
  }
  return host_ == nullptr ? value : value + __atomic_load_n(host_word(notification), __ATOMIC_ACQUIRE);
}

Status Counters::write(uint32_t notification, uint64_t value) {
  if (host_ != nullptr) {
    __atomic_store_n(host_word(notification), value, __ATOMIC_RELEASE);
    value = 0;
  }
  if (words_ == nullptr) return {};
  return device::copy(words_ + offset(notification), memory_, &value, {}, sizeof value);
}

Result<bool> Counters::try_take(uint32_t notification, uint64_t value) {
  const auto wanted = static_cast<int64_t>(value);
  if (host_ == nullptr) {
    auto now = read(notification);
    if (!now) return std::move(now).error();
    if (static_cast<int64_t>(*now) < wanted) return false;
    // Peers add to the counter at the same time: the GPU subtracts.
    WEFT_TRY(add_on_gpu(words_ + offset(notification), memory_, ~value + 1));
    return true;
  }
  const uint64_t on_host = __atomic_load_n(host_word(notification), __ATOMIC_ACQUIRE);
  // Without kernels of this process, the word in GPU memory is not negative.
  bool enough = table_.base == 0 && static_cast<int64_t>(on_host) >= wanted;
  if (!enough && words_ != nullptr) {
    Look& look = looks_[notification];
    const bool changed = table_.base != 0 && on_host != look.host_seen;
    if (!changed && look.polls++ % kPollsOfHostWord != 0) return false;
    look.host_seen = on_host;
    auto on_gpu = read_gpu(notification);
    if (!on_gpu) return std::move(on_gpu).error();
    enough = static_cast<int64_t>(on_host + *on_gpu) >= wanted;
  }
  if (enough) __atomic_fetch_sub(host_word(notification), value, __ATOMIC_RELAXED);
  return enough;
}

/// Lets kernels read the words in host memory.
Status Counters::pin_host_words() {
  if (pinned_) return {};
  const uint64_t bytes = with_proof(offset(notifications_));
  auto* const proof = reinterpret_cast<uint32_t*>(host_ + bytes - kWord);
  auto pinned = device::register_host(host_, bytes, proof, memory_);
  if (!pinned) return std::move(pinned).error();
  pinned_ = std::move(*pinned);
  return {};
}

/// A process as kernels see it.
Result<abi::WindowPeer> Counters::describe(int rank) const {
  const rma::Peer& peer = window_.peers[static_cast<size_t>(rank)];
  const Peer& own = peers_[static_cast<size_t>(rank)];
  abi::WindowPeer entry{0,
                        peer.size,
                        static_cast<uint64_t>(peer.disp_unit),
                        peer.size / static_cast<uint64_t>(peer.disp_unit),
                        0,
                        own.notifications,
                        abi::WindowPeer::local};
  if (!window_.instance.same_host(peer.process)) {
    entry.remote = KernelQueue::stages(peer) ? abi::WindowPeer::by_stages : abi::WindowPeer::by_buffer;
    return entry;
  }
  const transport::rma::Target& counters = own.gpu != nullptr ? *own.gpu : *own.target;
  const std::string who = "rank " + std::to_string(rank);
  if (counters.direct() == nullptr || !counters.memory().on_device())
    return Error(Errc::unsupported, "this GPU cannot access the notification counters of " + who +
                                        (counters.caps().reason.empty() ? ", which are in host memory"
                                                                        : ": " + counters.caps().reason));
  if (peer.size != 0 && (!peer.on_device || peer.memory->direct() == nullptr))
    return Error(Errc::unsupported, "this GPU cannot access the window memory of " + who +
                                        (peer.on_device ? ": " + peer.memory->caps().reason
                                                        : ", which is host memory: use GPU memory"));
  if (peer.size != 0) entry.base = reinterpret_cast<uint64_t>(peer.memory->direct()) + peer.offset;
  entry.counters = reinterpret_cast<uint64_t>(counters.direct());
  return entry;
}

/// In GPU memory: the table for streams, the table for kernels, and the queue.
Status Counters::make_table() {
  if (words_ == nullptr)
    return Error(Errc::unsupported,
                 "the window memory of this process is not on a GPU and its communicator has no GPU stream: "
                 "kernels cannot access it");
  if (spans_ && remote_writes_ == device::RemoteWrites::unordered)
    return Error(Errc::unsupported,
                 "GPU " + std::to_string(gpu_.device) +
                     " neither orders nor flushes the writes of network adapters: its kernels may see a "
                     "notification without the data");
  WEFT_TRY(device::adopt_for_windows(gpu_));
  auto status = device::allocate_pinned(gpu_, sizeof *status_);
  if (!status) return std::move(status).error();
  status_ = static_cast<abi::WindowStatus*>(*status);
  stream::cancel_on_failure(*window_.comm, status_->cancelled);
  if (!window_.check_failures().ok()) cancel();  // lose() and end_access() have found no status
  std::vector<std::byte> peers;
  for (int i = 0; i < window_.size(); ++i) {
    const auto entry = describe(i);
    if (!entry) return entry.error().copy();
    append(peers, *entry);
  }
  const size_t one = sizeof(abi::WindowTable) + peers.size();
  auto table = device::allocate_scratch(memory_, 2 * one + sizeof(abi::Queue));
  if (!table) return std::move(table).error();
  table_ = *table;
  abi::WindowTable head{
      abi::kVersion, window_.comm->rank(), window_.size(), 0, 0, reinterpret_cast<uint64_t>(status_), 0, 0};
  abi::Queue queue{};
  if (spans_) {
    WEFT_TRY(pin_host_words());
    auto made = KernelQueue::create(window_, gpu_, *status_);
    if (!made) return std::move(made).error();
    queue_ = std::move(*made);
    queue = queue_->initial();
    head.arrivals = reinterpret_cast<uint64_t>(host_);
    head.queue = table_.base + 2 * one;
  }
  std::vector<std::byte> bytes;
  for (const bool in_stream : {true, false}) {
    head.timeout_ns = in_stream ? 0 : device::kernel_timeout_ns();
    append(bytes, head);
    bytes.insert(bytes.end(), peers.begin(), peers.end());
  }
  append(bytes, queue);
  return device::copy(reinterpret_cast<void*>(table_.base), table_, bytes.data(), {}, bytes.size());
}

Result<uint64_t> Counters::table(bool in_stream) {
  if (in_stream && spans_)
    return Error(Errc::unsupported,
                 "the window spans several hosts: operations in its stream take windows of one host");
  if (table_.base == 0) {
    Status made = make_table();
    if (!made.ok()) {
      queue_.reset();
      if (table_.base != 0) device::free_scratch(std::exchange(table_, {}));
      if (status_ != nullptr) stream::forget_cancel_word(window_.instance, status_->cancelled);
      device::free_pinned(gpu_, std::exchange(status_, nullptr));
      return std::move(made).error();
    }
  }
  const size_t one = sizeof(abi::WindowTable) + peers_.size() * sizeof(abi::WindowPeer);
  return table_.base + (in_stream ? 0 : one);
}

void Counters::cancel() {
  if (status_ != nullptr) __atomic_store_n(&status_->cancelled, 1u, __ATOMIC_RELEASE);
}

void Counters::lose(int rank) {
  cancel();
  if (queue_ == nullptr) return;
  const core::ProcessId process = window_.peers[static_cast<size_t>(rank)].process;
  queue_->lose(rank, window_.instance.failures.error_of(process));
}

void Counters::end_access() {
  cancel();
  if (queue_ != nullptr) queue_->abandon(Window::revoked_error());
}

}  // namespace weft::rma
