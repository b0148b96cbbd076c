// SPDX-License-Identifier: BSD-3-Clause
// Messages out and in: room in the transport, the backlog when there is none, matching on arrival.
#include "p2p/engine.hpp"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "base/config.hpp"
#include "launch/cpus.hpp"

namespace weft::p2p {
namespace {

config::Size credit{"p2p.credit", 1 << 20, 1 << 12, 1 << 30,
                    "Bytes of eager messages that one peer may have unreceived here; beyond, it announces."};
constexpr size_t kPollLimit = 64;  // messages a round from one queue
constexpr size_t kRowLimit = 2;    // while a row is posted: others wait for their receive where they are
constexpr uint32_t kRoundsPerNetwork = 8;
constexpr uint32_t kLooksPerKeep = 8;  // whether the copier has to be kept awake
constexpr uint32_t kPostsPerLook = 8;  // while receives are posted: asking the GPU takes longer than posting
constexpr size_t kStagedSends = 4;  // from device memory, streaming at a time: each holds two pinned chunks
constexpr uint64_t kEntryCharge = 128;  // what an unexpected message costs beside its data

/// Whether a received message ends inside a number, so cannot be of the receive's type.
bool ends_inside(const Transfer& t) {
  return t.kind == core::Request::Kind::receive && t.completion.bytes < t.bytes &&
         datatype::elements(*t.type, static_cast<int64_t>(t.completion.bytes)) == datatype::kUndefined;
}

[[gnu::cold]] Error end_inside_error(const Transfer& t) {
  return Error(Errc::type, "the message has " + std::to_string(t.completion.bytes) +
                               " bytes and ends inside an element of the receive's datatype: make"
                               " the datatypes of both sides agree");
}

}  // namespace

Slab<Message>& Message::slab() {
  static auto& slab = *new Slab<Message>;
  return slab;
}

Engine::Engine(core::Instance& owner) : instance(owner), peers_(owner.size, this, &Engine::meet) {}

Engine::~Engine() {
  instance.shm = nullptr;
  close_device();
}

Result<std::unique_ptr<Engine>> Engine::create(core::Instance& instance) {
  return std::unique_ptr<Engine>(new Engine(instance));
}

// The ranks of this host and the network are published, shared once with all, and reached then.
Status Engine::connect() {
  if (connected()) return {};
  launch::Exchange& exchange = *instance.exchange;
  const auto& job = exchange.job();
  const bool mates = job.local_size > 1, hosts = job.local_size != job.size;
  if (hosts && job.host_of_rank.empty())
    return Error(Errc::other,
                 "the launcher (" + job.launcher +
                     ") says that the job spans several hosts, but not "
                     "which rank is where: use one that does (Weft's mpiexec, Hydra, Slurm, PRRTE)");
  transport::shm::Server server;
  if (mates) {
    auto published = transport::shm::Shm::publish(exchange);
    if (!published) return std::move(published).error();
    server = std::move(*published);
  }
  if (hosts) {
    auto network = transport::open_network(exchange);
    if (!network) return std::move(network).error();
    network_ = std::move(*network);
  }
  WEFT_TRY(exchange.share());
  if (mates) {
    auto shm = transport::shm::Shm::create(exchange, std::move(server));
    if (!shm) return std::move(shm).error();
    shm_ = std::move(*shm);
    instance.shm = shm_.get();
  }
  if (hosts) WEFT_TRY(transport::start_network(*network_, exchange, directory_));
  count_cores();
  return {};
}

void Engine::count_cores() {
  const auto& job = instance.exchange->job();
  const size_t cores = shm_ != nullptr ? shm_->usable_cores() : launch::allowed_cpus().size();
  instance.oversubscribed =
      static_cast<size_t>(job.local_size) > cores || job.machine_size > ::sysconf(_SC_NPROCESSORS_ONLN);
  // What comes from another host rings no bell.
  instance.sleeps = instance.oversubscribed && shm_ != nullptr && network_ == nullptr;
  if (instance.sleeps) shm_->ring_bells();
}

void Engine::meet(void* engine, uint32_t id, Peer& peer) {
  const Engine& self = *static_cast<Engine*>(engine);
  if (id == self.instance.self) return;
  peer.remote = !self.instance.same_host(id);
  peer.transport = peer.remote ? static_cast<transport::Transport*>(self.network_.get()) : self.shm_.get();
}

// While the ranks of this host talk, the network is looked at now and then.
bool Engine::poll_network(bool moved) {
  if (moved && ++network_rounds_ % kRoundsPerNetwork != 0) return false;
  bool progressed = network_->poll(*this, kPollLimit) != 0;
  if (!pulls_.empty()) progressed |= poll_pulls();
  return progressed;
}

// Between the small messages of a program that does nothing else, there may be windows of large ones.
void Engine::keep_awake() {
  if (++looks_ % kLooksPerKeep != 0) return;
  const Transfer* active = witness_[0] != nullptr ? witness_[0] : witness_[1];
  if (active != nullptr) device::keep_awake(active->memory);
}

bool Engine::poll() {
  if (exporter_ != nullptr && exporter_->descriptors() != 0) [[unlikely]]
    release_unmapped();
  if (witness_[0] != nullptr || witness_[1] != nullptr) [[unlikely]]
    keep_awake();
  if (!posting_ && row_.now != 0) [[unlikely]]
    row_ = {0, row_.now};
  if (!posting_ && put_row_.now != 0) [[unlikely]]
    end_put_row();
  collecting_ = true;
  bool moved = shm_ != nullptr && shm_->poll(*this, in_row() ? kRowLimit : kPollLimit) != 0;
  collecting_ = false;
  if (network_ != nullptr) [[unlikely]]
    moved |= poll_network(moved);
  if (!gets_.empty() && copies_.empty()) submit_gets();
  if (!backlog_.empty()) [[unlikely]] {
    for (size_t i = 0; i < backlog_.size();) {
      moved |= flush(backlog_[i]);
      if (peers_[backlog_[i]].listed)
        ++i;
      else
        backlog_[i] = backlog_.back(), backlog_.pop_back();
    }
  }
  if (!streaming_.empty()) [[unlikely]]
    moved |= poll_streams();
  if (!copies_.empty()) {
    if (!posting_ || ++posts_ % kPostsPerLook == 0) moved |= poll_device();
    if (!gets_.empty()) submit_gets();
  }
  if (showing_ != 0) moved |= poll_shown();
  if (!fetches_.empty()) moved |= poll_fetches();
  if (!starved_.empty()) [[unlikely]]
    moved |= poll_starved();
  return moved;
}

bool Engine::move_stream(Transfer& t) {
  if (t.crossing && t.crossing->piped) return stream_offers(t);
  if (t.scratch) return stream_scratch(t);
  return t.staging ? stream_device(t) : stream(t);
}

bool Engine::poll_streams() {
  bool moved = false;
  size_t staged = 0;
  for (size_t i = 0; i < streaming_.size();) {
    Transfer* t = streaming_[i];
    const bool piped = t->crossing && t->crossing->piped;
    if ((t->staging || piped) && ++staged > kStagedSends) {
      ++i;
      continue;
    }
    moved |= move_stream(*t);
    if (t->state == Transfer::State::streaming) {
      ++i;
      continue;
    }
    streaming_.erase(streaming_.begin() + static_cast<ptrdiff_t>(i));
    complete(*t);
  }
  return moved;
}

void Engine::drain() {
  core::wait_until(instance, [&] {
    return backlog_.empty() && streaming_.empty() && copies_.empty() && gets_.empty() && puts_.empty() &&
           fetches_.empty() && (network_ == nullptr || network_->idle());
  });
}

void Engine::leave_network() {
  if (network_ == nullptr) return;
  network_->leave();
  static Engine* closing = nullptr;
  static pid_t process = ::getpid();
  if (std::exchange(closing, this) == nullptr)
    std::atexit([] {
      if (process == ::getpid()) closing->network_->close();
    });
}

Header Engine::header(const Transfer& t, Type type, uint64_t length) const {
  Header h{type};
  h.length = static_cast<uint32_t>(length);
  h.context = t.context;
  h.source = t.comm->rank();
  h.tag = t.tag;
  return h;
}

bool Engine::try_control(uint32_t to, const void* message, size_t size, uint64_t exposed) {
  transport::Transport& transport = *peers_[to].transport;
  std::byte* const room = transport.reserve(to, size);
  if (room == nullptr) return false;
  std::memcpy(room, message, size);
  if (exposed != 0) [[unlikely]]
    network_->announce(to, size, exposed);
  else
    transport.commit(to, size);
  return true;
}

void Engine::post_control(uint32_t to, const void* message, size_t size, uint64_t exposed) {
  if (!blocked(peers_[to]) && try_control(to, message, size, exposed)) return;
  std::memcpy(wait_for_room(to, Pending{nullptr, size, exposed, {}}).control, message, size);
}

Engine::Pending& Engine::wait_for_room(uint32_t to, Pending item) {
  Peer& peer = peers_[to];
  if (!peer.pending) peer.pending = std::make_unique<std::deque<Pending>>();
  if (!peer.listed) peer.listed = true, backlog_.push_back(to);
  return peer.pending->emplace_back(std::move(item));
}

void Engine::enqueue(uint32_t to, Transfer& t) {
  t.state = Transfer::State::queued;
  wait_for_room(to, Pending{&t, 0, 0, {}});
}

bool Engine::flush(uint32_t to) {
  Peer& peer = peers_[to];
  bool moved = false;
  while (blocked(peer) && !peer.pending->empty()) {
    Pending& item = peer.pending->front();
    if (item.transfer != nullptr) {
      if (!try_eager(*item.transfer)) return moved;
    } else if (!try_control(to, item.control, item.size, item.exposed)) {
      return moved;
    }
    peer.pending->pop_front();
    moved = true;
  }
  peer.pending.reset();
  peer.listed = false;
  return moved;
}

inline void Engine::end(Transfer& t) {
  t.state = Transfer::State::done;
  t.staging.reset();
  t.scratch.reset();
  if (t.crossing) [[unlikely]]
    t.comm->instance.engine->uncross(t);
  if (t.witness) [[unlikely]]
    t.comm->instance.engine->dismiss(t);
}

void Engine::complete(Transfer& t) {
  if (ends_inside(t)) [[unlikely]]
    return complete(t, end_inside_error(t));
  end(t);
  t.finish();
}

void Engine::complete(Transfer& t, Error error) {
  end(t);
  t.finish(std::move(error));
}

// Credit: what we consumed of a peer's eager data is reported in large steps.
void Engine::consumed(uint32_t from, uint64_t bytes) {
  if (from == instance.self) return;
  Peer& peer = peers_[from];
  peer.consumed += bytes + kEntryCharge;
  if (peer.consumed - peer.reported < credit / 2) [[likely]]
    return;
  Credit message{};
  message.type = Type::credit;
  message.bytes = peer.consumed;
  peer.reported = peer.consumed;
  post_control(from, &message, sizeof message);
}

bool Engine::fits_eager(const Transfer& t, Peer& peer) const {
  return !device_side(t) && has_credit(t.peer, t.bytes, peer);
}

/// Small enough for the peer's transport, and within what it may keep of ours unreceived.
bool Engine::has_credit(uint32_t to, uint64_t bytes, Peer& peer) {
  if (bytes > peer.eager_max && bytes > eager_limit(to, peer)) [[unlikely]]
    return false;
  return peer.eager_sent + bytes + kEntryCharge - peer.eager_credited <= credit;
}

void Engine::charge(Peer& peer, uint64_t bytes) { peer.eager_sent += bytes + kEntryCharge; }

void Engine::send(Transfer& t) {
  if (t.peer == instance.self) return send_to_self(t);
  Peer& peer = peers_[t.peer];
  if (device_side(t)) [[unlikely]] {
    keep_awake();
    if (put(t, peer)) return;
  }
  count_sent(peer, {t.context, t.comm->rank(), t.tag});
  if (device_side(t) && send_through_bar(t, peer)) [[unlikely]]
    return;
  if (!fits_eager(t, peer)) {
    // Over some networks host data leave by this process: the first of a window, while it posts the others.
    const bool by_hand = peer.remote && !device_side(t);
    announce(t);
    if (by_hand) [[unlikely]]
      instance.progress();
    return;
  }
  charge(peer, t.bytes);
  if (blocked(peer) || !try_eager(t)) enqueue(t.peer, t);
}

void Engine::receive_stored(Transfer& t, match::Entry& entry) {
  auto& message = static_cast<Message&>(entry);
  unexpected_.remove(message);
  if (!device_side(t)) [[likely]]
    return receive_message(t, message);
  ++row_.now;
  keep_awake();
  posting_ = true;
  receive_message(t, message);
  posting_ = false;
}

// A copy engine can work while the application posts the rest of a window: let what has come start.
void Engine::look_while_posting() {
  ++row_.now;
  posting_ = true;
  instance.progress();
  posting_ = false;
}

void Engine::receive_message(Transfer& t, Message& message) {
  const uint32_t source = message.peer;
  matched(t, source, message.completion.source, message.completion.tag, message.completion.bytes);
  if (message.type == Type::ready_to_send) {
    alignas(8) std::byte header[kMaxControl];
    std::memcpy(header, message.data(), message.size);
    dispose(message);
    return start_rendezvous(t, source, *reinterpret_cast<const ReadyToSend*>(header));
  }
  if (message.type == Type::eager_sync) acknowledge(source, message.sender);
  consumed(source, message.size);
  take_eager(t, message.data(), message.size);
  dispose(message);
}

Message* Engine::find(const match::Key& wanted) const {
  return static_cast<Message*>(unexpected_.find(wanted));
}

void Engine::discard(Message& message) {
  if (message.type == Type::eager_sync) acknowledge(message.peer, message.sender);
  if (message.type == Type::ready_to_send) {
    decline(message.peer, *reinterpret_cast<const ReadyToSend*>(message.data()));
    finish_sender(message.peer, message.sender);
  } else {
    consumed(message.peer, message.size);
  }
  dispose(message);
}

void Engine::matched(Transfer& t, uint32_t source, int rank, int tag, uint64_t bytes) {
  t.state = Transfer::State::matched;
  t.peer = source;
  t.completion.source = rank;
  t.completion.tag = tag;
  t.completion.bytes = bytes;
  t.expected = bytes;
}

Message& Engine::store(uint32_t source, const Header& header, const std::byte* data, size_t size) {
  Message* const made = Message::slab().create();
  if (made == nullptr) throw std::bad_alloc();  // as for its data: a message that has come cannot be refused
  Message& message = *made;
  message.peer = source;
  message.type = header.type;
  message.completion = {header.source, header.tag, header.length, false};
  message.size = size;
  std::byte* room = message.inlined;
  if (size > sizeof message.inlined) {
    message.heap.reset(new std::byte[size]);
    room = message.heap.get();
  }
  std::memcpy(room, data, size);
  unexpected_.add(message, {header.context, header.source, header.tag});
  return message;
}

void Engine::dispose(Message& message) {
  if (message.comm != nullptr) message.comm->release();
  Message::slab().destroy(&message);
}

void Engine::acknowledge(uint32_t to, uint64_t sender) {
  Reply reply{};
  reply.type = Type::acknowledge;
  reply.sender = sender;
  post_control(to, &reply, sizeof reply);
}

// Matched, or kept.
inline void Engine::eager_arrived(uint32_t source, const Header& header, const std::byte* message) {
  const bool sync = header.type == Type::eager_sync;
  const std::byte* payload = message + (sync ? sizeof(EagerSync) : sizeof(Header));
  const uint64_t sender = sync ? reinterpret_cast<const EagerSync*>(message)->sender : 0;
  ++peers_[source].arrived;
  Transfer* const receiver = take_posted({header.context, header.source, header.tag});
  if (receiver == nullptr) {
    store(source, header, payload, header.length).sender = sender;
    return;
  }
  Transfer& t = *receiver;
  matched(t, source, header.source, header.tag, header.length);
  if (sync) [[unlikely]]
    acknowledge(source, sender);
  consumed(source, header.length);
  take_eager(t, payload, header.length);
}

void Engine::announcement_arrived(uint32_t source, const ReadyToSend& rts, size_t size) {
  if ((rts.flags & ReadyToSend::kRegion) != 0) [[unlikely]]
    learn_region(source, rts);
  ++peers_[source].arrived;
  if (Transfer* const receiver = take_posted({rts.context, rts.source, rts.tag})) {
    Transfer& t = *receiver;
    matched(t, source, rts.source, rts.tag, rts.bytes);
    return start_rendezvous(t, source, rts);
  }
  Message& kept = store(source, rts, reinterpret_cast<const std::byte*>(&rts), size);
  kept.sender = rts.sender;
  kept.completion.bytes = rts.bytes;
}

void Engine::deliver(uint32_t source, const std::byte* message, size_t size) {
  const auto& header = *reinterpret_cast<const Header*>(message);
  if (header.type == Type::eager) [[likely]]
    return eager_arrived(source, header, message);
  switch (header.type) {
    case Type::eager:
    case Type::eager_sync:
      return eager_arrived(source, header, message);
    case Type::ready_to_send:
      return announcement_arrived(source, *reinterpret_cast<const ReadyToSend*>(message), size);
    case Type::clear_to_send:
      return on_clear_to_send(*reinterpret_cast<const ClearToSend*>(message));
    case Type::data:
      return on_data(*reinterpret_cast<const Data*>(message), message + sizeof(Data));
    case Type::finish:
      return on_finish(reinterpret_cast<const Reply*>(message)->sender, (header.flags & Reply::kTaken) != 0);
    case Type::acknowledge:
      return on_finish(reinterpret_cast<const Reply*>(message)->sender);
    case Type::finish_many:
      for (size_t i = 0; i < header.length; ++i)
        on_finish(reinterpret_cast<const Finished*>(message)->senders[i]);
      return;
    case Type::cancel:
      return on_cancel(source, *reinterpret_cast<const Reply*>(message));
    case Type::cancel_reply:
      if (header.flags != 0) on_withdrawn(reinterpret_cast<const Reply*>(message)->sender);
      return;
    case Type::credit:
      peers_[source].eager_credited = reinterpret_cast<const Credit*>(message)->bytes;
      return;
    case Type::region:
      return learn_region(source, *reinterpret_cast<const ReadyToSend*>(message));
    case Type::scratch_ready:
      return on_scratch_ready(source, *reinterpret_cast<const ScratchChunk*>(message));
    case Type::scratch_done:
      return on_scratch_done(*reinterpret_cast<const ScratchChunk*>(message));
    case Type::no_descriptors:
      return exporter().no_descriptors(source, header.context);
    case Type::drop_mapping:
      return on_drop(source, *reinterpret_cast<const DropMapping*>(message));
    case Type::proof_ask:
      return on_proof_ask(source, *reinterpret_cast<const Proof*>(message));
    case Type::proof_answer:
      return on_proof_answer(source, *reinterpret_cast<const Proof*>(message));
    case Type::proof_done:
      return on_proof_done(*reinterpret_cast<const Proof*>(message));
  }
}

}  // namespace weft::p2p
