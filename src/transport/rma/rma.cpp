// SPDX-License-Identifier: BSD-3-Clause
// Registration, attachment, and the paths without messages.
#include "transport/rma/rma.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>

#include "base/counters.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "copy/double_buffer.hpp"
#include "transport/shm/single_copy.hpp"

namespace weft::transport::rma {
namespace {

log::SlowPath by_message{"rma.message",
                         "copied by the target's CPU while it makes progress, 2 to 20 times slower"};
log::SlowPath staged{"rma.staged", "GPU memory staged through host memory, 5 to 50 times slower than NVLink"};

counters::Counter registered("rma.registrations", counters::Unit::objects,
                             "Memory ranges registered for access by other processes");
counters::Counter attached("rma.targets", counters::Unit::objects,
                           "Memory ranges of other processes attached by this one");

uint64_t make_proof() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

}  // namespace

void report_staged(std::string_view reason) { staged.hit(std::string(reason)); }

const char* name(Path path) {
  constexpr const char* kNames[] = {"direct", "process_vm", "network", "message"};
  return kNames[static_cast<size_t>(path)];
}

Rma::Rma(Environment& environment) : environment_(environment), proof_(make_proof()) { register_handlers(); }

Rma::~Rma() {
  WEFT_ASSERT(slab_.live() == 0);  // R7
  for (const Message id : {Message::put, Message::get, Message::atomic, Message::data, Message::reply})
    environment_.handlers().remove(static_cast<am::HandlerId>(id));
  registrations_.for_each([&](const Registration& registration) { deregister(registration.id); });
}

Result<std::byte*> Rma::allocate(size_t bytes) {
  auto segment = Segment::create(std::max<size_t>(bytes, 1));
  if (!segment) return std::move(segment).error();
  std::byte* const data = (*segment)->data();
  segments_.emplace(data, std::move(*segment));
  return data;
}

void Rma::free(std::byte* memory) {
  WEFT_ASSERT(segments_.contains(memory));
  segments_.erase(memory);
}

Result<std::byte*> Rma::allocate_piece(size_t bytes) {
  std::byte* const piece = pool_.allocate(bytes);
  return piece != nullptr ? Result<std::byte*>(piece) : allocate(bytes);
}

void Rma::free_piece(std::byte* memory, bool detached) {
  if (pool_.segment_of(memory, 1) == nullptr) return free(memory);
  if (detached) pool_.free(memory);
}

const Segment* Rma::segment_of(const std::byte* address, size_t length) const {
  if (const Segment* pool = pool_.segment_of(address, length)) return pool;
  auto at = segments_.upper_bound(address);
  if (at == segments_.begin()) return nullptr;
  const Segment& segment = *(--at)->second;
  return segment.covers(address, length) ? &segment : nullptr;
}

Result<Id> Rma::register_memory(std::byte* address, size_t length, const device::Memory& memory) {
  if (memory.on_device() && !memory.covers(address, length))
    return Error(Errc::buffer, "the device memory to be registered spans several allocations: register each");
  auto registration = std::make_unique<Registration>(Registration{kNoId, address, length, memory, {}, {}});
  registration->id = registrations_.insert(*registration);
  registered.add();
  return registration.release()->id;
}

void Rma::announces(Id region, const device::Memory& data) {
  Registration* const found = registrations_.find(region);
  WEFT_ASSERT(found != nullptr);  // R4
  found->announced = data;
}

void Rma::deregister(Id region) {
  const std::unique_ptr<Registration> registration(registrations_.find(region));
  WEFT_ASSERT(registration != nullptr);  // R4
  registrations_.erase(region);
  for (const auto& [network, id] : registration->networks) network->deregister(id);
  registered.subtract();
}

bool Rma::receiving(Id region) const {
  const Registration* const found = registrations_.find(region);
  return found != nullptr && std::any_of(found->networks.begin(), found->networks.end(),
                                         [](const auto& made) { return made.first->receiving(made.second); });
}

Result<Key> Rma::key(Id region, Peer peer) {
  Registration* const found = registrations_.find(region);
  WEFT_ASSERT(found != nullptr);  // R4
  Registration& registration = *found;
  const device::Memory& memory = registration.memory;
  Key key{};
  key.on_device = memory.on_device() ? 1 : 0;
  key.region = region;
  key.address = reinterpret_cast<uint64_t>(registration.address);
  key.length = registration.length;
  key.proof_address = reinterpret_cast<uint64_t>(&proof_);
  key.proof = proof_;
  if (peer == environment_.self() || registration.length == 0) return key;
  if (!environment_.same_host(peer)) {
    Network* const network = environment_.network(peer);
    if (network == nullptr) return key;
    if (memory.on_device() && !network->supports(memory)) return key;
    auto made = network->register_buffer(peer, {registration.address, registration.length, memory},
                                         key.network.rkey, Access::read_write);
    if (!made) {
      by_message.hit(made.error().message());
      return key;
    }
    registration.networks.emplace_back(network, made->id);
    key.network.size = made->rkey_size;
    key.kind = Key::Kind::network;
  } else if (memory.on_device()) {
    cuda_ipc::Exporter& exporter = environment_.exporter();
    auto exported = exporter.export_region(memory, peer);
    auto probe = exporter.probe(memory);
    if (!exported || !probe) {  // the peer reports the slow path, too
      by_message.hit((exported ? probe.error() : exported.error()).message());
      return key;
    }
    key.device = {*exported->region, *probe};
    key.kind = Key::Kind::device;
  } else if (const Segment* segment = segment_of(registration.address, registration.length)) {
    key.segment = {segment->name(), static_cast<uint64_t>(registration.address - segment->data()),
                   pool_.segment_of(registration.address, 1) == segment ? uint64_t{1} : uint64_t{0}};
    key.kind = Key::Kind::segment;
  } else {
    key.kind = memory.kind == device::MemoryKind::cuda_managed ? Key::Kind::managed : Key::Kind::process;
  }
  return key;
}

Result<std::unique_ptr<Target>> Rma::attach(Peer peer, const Key& key, const device::Memory& near) {
  auto target = std::make_unique<Target>();
  target->peer_ = peer;
  target->region_ = key.region;
  target->address_ = key.address;
  target->length_ = key.length;
  Status best;
  if (peer == environment_.self()) {
    const Registration* own = registrations_.find(key.region);
    if (own == nullptr) return Error(Errc::arg, "the key names memory that is not registered any more");
    target->direct_ = own->address;
    target->memory_ = own->memory;
    target->caps_ = {Path::direct, Path::direct, Path::direct, {}};
  } else if (key.length != 0) {
    switch (key.kind) {
      case Key::Kind::segment:
        best = attach_segment(*target, key);
        if (best) break;
        [[fallthrough]];
      case Key::Kind::process: {
        Status readable = attach_process(*target, key);
        if (best.ok()) best = std::move(readable);
        break;
      }
      case Key::Kind::managed:
        best = attach_process(*target, key);
        if (!best) break;
        target->caps_.put = Path::message;
        best =
            Error(Errc::unsupported,
                  "managed memory: a page may migrate to the GPU while process_vm_writev writes it, and lose "
                  "the data");
        break;
      case Key::Kind::device:
        best = attach_device(*target, key, near);
        break;
      case Key::Kind::network:
        best = attach_network(*target, key);
        break;
      default:
        best = Error(Errc::unsupported, key.on_device != 0 ? "the owner cannot export this GPU memory"
                                                           : "there is no path to the owner but messages");
    }
  }
  if (!best) target->caps_.reason = best.error().message();
  if (target->caps_.put == Path::message && key.length != 0) by_message.hit(target->caps_.reason);
  attached.add();
  return target;
}

Status Rma::attach_segment(Target& target, const Key& key) {
  const SegmentName& name = key.segment.name;
  auto pid = environment_.pid_of(target.peer_);
  if (!pid) return std::move(pid).error();
  std::weak_ptr<Segment>& cached = attached_[{target.peer_, name.device, name.inode}];
  target.segment_ = cached.lock();
  if (target.segment_ == nullptr) {
    auto made = Segment::attach(*pid, name);
    if (!made) return std::move(made).error();
    target.segment_ = std::move(*made);
    cached = target.segment_;
    if (key.segment.pool != 0) pools_[target.peer_] = target.segment_;
  }
  if (!target.segment_->covers(target.segment_->data(), key.segment.offset) ||
      key.length > target.segment_->bytes() - key.segment.offset)
    return Error(Errc::arg, "the key's range exceeds the segment of its owner");
  target.direct_ = target.segment_->data() + key.segment.offset;
  target.caps_ = {Path::direct, Path::direct, Path::direct, {}};
  return {};
}

/// Reads the word that proves that the pid names the owner of the key.
Status Rma::attach_process(Target& target, const Key& key) {
  auto pid = environment_.pid_of(target.peer_);
  if (!pid) return std::move(pid).error();
  const auto known = proved_.find(target.peer_);
  uint64_t found = known != proved_.end() ? known->second : 0;
  const Iov here{reinterpret_cast<uint64_t>(&found), sizeof found}, there{key.proof_address, sizeof found};
  if (found != key.proof) WEFT_TRY(shm::read_process(*pid, {&here, 1}, {&there, 1}));
  if (found != key.proof)
    return Error(Errc::unsupported, "process_vm_readv reads another process (separate PID namespaces)");
  proved_[target.peer_] = found;
  target.pid_ = *pid;
  target.caps_ = {Path::process_vm, Path::process_vm, Path::message, {}};
  return {};
}

Status Rma::attach_device(Target& target, const Key& key, const device::Memory& near) {
  cuda_ipc::Importer& importer = environment_.importer();
  auto mapping = importer.open(target.peer_, key.device.region, &key.device.probe, near);
  if (!mapping) return std::move(mapping).error();
  if (!(*mapping)->contains(key.address, key.length)) {
    importer.release(*mapping);
    return Error(Errc::arg, "the key's range exceeds the allocation of its owner");
  }
  importer.store_region(target.peer_, key.device.region);  // later messages may name it
  target.mapping_ = *mapping;
  target.direct_ = static_cast<std::byte*>((*mapping)->at(key.address));
  target.memory_ = (*mapping)->memory();
  target.caps_ = {Path::direct, Path::direct, Path::message, {}};
  return {};
}

Status Rma::attach_network(Target& target, const Key& key) {
  const Network* network = environment_.network(target.peer_);
  if (network == nullptr || key.network.size > kMaxRkey)
    return Error(Errc::arg, "the key is of another network");
  target.rkey_.assign(key.network.rkey, key.network.rkey + key.network.size);
  target.caps_ = {Path::network, Path::network, Path::message, {}};
  return {};
}

void Rma::detach(std::unique_ptr<Target> target) {
  WEFT_ASSERT(target->pending_ == 0);  // R7
  if (target->mapping_ != nullptr) environment_.importer().release(target->mapping_);
  target->segment_.reset();
  std::erase_if(attached_, [](const auto& entry) { return entry.second.expired(); });
  attached.subtract();
}

Status Rma::check(const Target& target, uint64_t offset, uint64_t bytes) const {
  if (offset > target.length_ || bytes > target.length_ - offset) [[unlikely]]
    return Error(Errc::arg, "the access of " + std::to_string(bytes) + " bytes at offset " +
                                std::to_string(offset) + " exceeds the target's memory of " +
                                std::to_string(target.length_) + " bytes");
  if (!lost_.empty() && std::find(lost_.begin(), lost_.end(), target.peer_) != lost_.end()) [[unlikely]]
    return Error(Errc::proc_aborted, "process " + std::to_string(target.peer_) + " has ended");
  return {};
}

Rma::Operation* Rma::create(Target& target, Kind kind, uint64_t offset, const Buffer& local,
                            Completion* done) {
  constexpr auto network_done = [](Completion& self, Status outcome) {
    auto& operation = static_cast<Operation&>(self);
    operation.owner->finish(operation, std::move(outcome));
  };
  Operation* operation = slab_.create();
  if (operation == nullptr) return nullptr;
  static_cast<Completion&>(*operation) = {network_done};
  operation->owner = this;
  operation->target = &target;
  operation->kind = kind;
  operation->offset = offset;
  operation->local = local;
  operation->done_by_user = done;
  ++target.pending_;
  return operation;
}

void Rma::finish(Operation& operation, Status outcome) {
  Target& target = *operation.target;
  WEFT_ASSERT(target.pending_ != 0);  // R7
  --target.pending_;
  if (!outcome && target.outcome_.ok()) target.outcome_ = outcome.error().copy();
  if (operation.id != kNoId) operations_.erase(operation.id);
  Completion* const done = operation.done_by_user;
  slab_.destroy(&operation);
  if (done != nullptr) done->done(*done, std::move(outcome));
}

Result<Issued> Rma::put(Target& target, uint64_t offset, const Buffer& from, Completion* done) {
  return move(target, Kind::put, offset, from, done);
}

Result<Issued> Rma::get(Target& target, uint64_t offset, const Buffer& to, Completion* done) {
  return move(target, Kind::get, offset, to, done);
}

Result<Issued> Rma::move(Target& target, Kind kind, uint64_t offset, const Buffer& local, Completion* done) {
  WEFT_TRY(check(target, offset, local.length));
  if (local.length == 0) return Issued::complete;
  Path path = kind == Kind::put ? target.caps_.put : target.caps_.get;
  if (path == Path::direct) [[likely]]
    return copy_direct(target, kind, offset, local, done);
  if (path == Path::process_vm) {
    const Status copied = copy_process(target, kind, offset, local);
    if (copied) return Issued::complete;
    if (copied.error().code() == Errc::proc_aborted) return copied.error().copy();
    by_message.hit(copied.error().message());
    path = Path::message;
  }
  Network* const network = path == Path::network ? environment_.network(target.peer_) : nullptr;
  const bool by_network =
      network != nullptr && (!local.memory.on_device() || network->supports(local.memory));
  if (!by_network && local.memory.on_device()) report_staged("the buffer of the operation is in GPU memory");
  Operation* operation = create(target, kind, offset, local, done);
  if (operation == nullptr) return Error(Errc::no_mem, "too many remote memory operations at once");
  if (!by_network) return send_request(*operation);
  if (kind == Kind::put)
    network->put(target.peer_, local, target.rkey_, offset, *operation);
  else
    network->get(target.peer_, local, target.rkey_, offset, *operation);
  return Issued::pending;
}

/// Complete on return. Buffers in GPU memory are staged.
Status Rma::copy_process(const Target& target, Kind kind, uint64_t offset, const Buffer& local) {
  const trace::Range range("rma.process_vm");
  const auto move = [&](const std::byte* here, uint64_t at, size_t bytes) {
    const Iov own{reinterpret_cast<uint64_t>(here), bytes}, other{target.address_ + offset + at, bytes};
    return kind == Kind::put ? shm::write_process(target.pid_, {&own, 1}, {&other, 1})
                             : shm::read_process(target.pid_, {&own, 1}, {&other, 1});
  };
  if (!local.memory.on_device()) return move(local.address, 0, local.length);
  report_staged("the target's memory is host memory that this process cannot map");
  const copy::View gpu = copy::plain(local.address, local.memory);
  const auto role = kind == Kind::put ? device::StreamRole::out : device::StreamRole::in;
  auto buffer = copy::DoubleBuffer::lease_any(local.memory, local.length);
  if (kind == Kind::put) return buffer.download(gpu, local.length, role, move);
  WEFT_TRY(buffer.upload(gpu, local.length, role, move));
  return buffer.wait();
}

Result<Issued> Rma::atomic(Target& target, uint64_t offset, const Atomic& atomic, uint64_t* before,
                           Completion* done) {
  const size_t bytes = size_of(atomic.type);
  WEFT_TRY(check(target, offset, bytes));
  if (!valid(atomic) || (target.address_ + offset) % bytes != 0)
    return Error(Errc::arg, "the atomic operation is misaligned, or its type does not have it");
  if (target.caps_.atomic == Path::direct) [[likely]] {
    if (!target.memory_.on_device()) {
      *before = execute(atomic, target.direct_ + offset);
      return Issued::complete;
    }
    auto value = execute_at(*registrations_.find(target.region_), offset, atomic);
    if (!value) return std::move(value).error();
    *before = *value;
    return Issued::complete;
  }
  Operation* operation = create(target, Kind::atomic, offset, {}, done);
  if (operation == nullptr) return Error(Errc::no_mem, "too many remote memory operations at once");
  operation->before = before;
  operation->id = operations_.insert(*operation);
  const AtomicMessage message{Message::atomic, atomic.op,     atomic.type, {},
                              target.region_,  operation->id, offset,      atomic.operand,
                              atomic.compare};
  environment_.sender().post(target.peer_, &message, sizeof message);
  return Issued::pending;
}

Result<bool> Rma::flush(Target& target) {
  if (target.pending_ != 0) return false;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!target.outcome_) return std::exchange(target.outcome_, {}).error().copy();
  return true;
}

}  // namespace weft::transport::rma
