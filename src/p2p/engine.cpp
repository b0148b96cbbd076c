// SPDX-License-Identifier: BSD-3-Clause
// Outgoing messages: transport capacity, backlog, credit; and the progress loop. Incoming: delivery.cpp.
#include "p2p/engine.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "base/config.hpp"
#include "launch/cpus.hpp"
#include "p2p/events.hpp"
#include "p2p/job_connections.hpp"
#include "p2p/protocol/protocol.hpp"
#include "p2p/protocol/states.hpp"
#include "p2p/type_check.hpp"
#include "p2p/unexpected.hpp"

namespace weft::p2p {

config::Size credit{
    "p2p.credit",
    1 << 20,
    1 << 12,
    1 << 30,
    "Bytes of eager messages that one peer may have buffered here unexpectedly; further messages use "
    "rendezvous. Larger values use more memory per peer.",
    "a receiver runs out of memory because of unexpected messages (smaller), or many senders send to "
    "a slow receiver (larger)"};

namespace {

using counters::Unit;
counters::Counter device_messages("p2p.device_sent_messages", Unit::events, "Messages sent from GPU memory");
counters::Counter device_bytes("p2p.device_sent_bytes", Unit::bytes,
                               "Bytes of messages sent from GPU memory");
counters::Counter managed_messages("p2p.managed_sent_messages", Unit::events,
                                   "Messages sent from managed memory by GPU protocols");
counters::Counter managed_bytes("p2p.managed_sent_bytes", Unit::bytes,
                                "Bytes of messages sent from managed memory by GPU protocols");
constexpr uint32_t kRoundsPerNetworkPoll = 8;

/// Returns whether a received message ends inside a basic element, so that its datatype cannot match the
/// receive's.
bool ends_inside_element(const Transfer& t) {
  return t.kind == core::Request::Kind::receive && t.completion.bytes < t.bytes &&
         datatype::elements(*t.type, static_cast<int64_t>(t.completion.bytes)) == datatype::kUndefined;
}

[[gnu::cold]] Error end_inside_error(const Transfer& t) {
  return Error(Errc::type, "the message has " + std::to_string(t.completion.bytes) +
                               " bytes and ends inside an element of the receive's datatype: make"
                               " the datatypes of both sides agree");
}

}  // namespace

Slab<UnexpectedMessage>& UnexpectedMessage::slab() {
  static auto& slab = *new Slab<UnexpectedMessage>;
  return slab;
}

Engine::Engine(core::Instance& owner)
    : instance(owner),
      peers_(size_t{owner.size} + core::kMaxOtherProcesses, this, &Engine::init_peer),
      jobs_(std::make_unique<JobConnections>(*this)),
      states_(std::make_unique<ProtocolStates>(*this)) {
  instance.failures.add([this](core::ProcessId process, const Error&) { on_failure(process); });
  instance.failures.on_revoked([this](core::Communicator& comm) { on_revoked(comm); });
  instance.handlers.set_lost(
      [this](uint32_t peer, const Error& why) { instance.failures.report(peer, why); });
  instance.sender = this;
  register_handlers();
  if (connected()) publish_waits();
}

Engine::~Engine() {
  instance.shm = nullptr;
  instance.network = nullptr;
  instance.sender = nullptr;
  instance.handlers.set_lost({});
  message_matched.set_hook({});
  for (int type = 0; type <= static_cast<int>(Type::gdr_check_done); ++type)
    instance.handlers.remove(static_cast<transport::am::HandlerId>(type));
  close_device();
}

Result<std::unique_ptr<Engine>> Engine::create(core::Instance& instance) {
  return std::unique_ptr<Engine>(new Engine(instance));
}

/// `need`: the beginning of the error.
Status Engine::open_network(const std::string& need) {
  auto network = transport::open_network(instance.exchange->job(), need);
  if (!network) return std::move(network).error();
  network_ = std::move(*network);
  instance.network = network_.get();
  addresses_ = std::make_unique<transport::AddressBook>(*network_, *instance.exchange);
  network_->start(*addresses_);
  check_sources_ = true;
  return {};
}

// Publishes the addresses of shared memory and network, exchanges them once, then opens both. A job on one
// host opens no network; JobConnections does when it connects to another host.
Status Engine::connect() {
  if (connected()) return {};
  launch::Exchange& exchange = *instance.exchange;
  const auto& job = exchange.job();
  if (job.size > EagerHeader::kMaxSource - static_cast<int>(core::kMaxOtherProcesses))
    return Error(Errc::other, "the job has " + std::to_string(job.size) + " processes: too many");
  const bool local_peers = job.local_size > 1, several_hosts = job.local_size != job.size;
  if (several_hosts && job.host_of_rank.empty())
    return Error(Errc::other, "the launcher (" + job.launcher +
                                  ") reports a job on several hosts, but not the host of each rank: use one "
                                  "that does (Weft's mpiexec, Hydra, Slurm, PRRTE)");
  transport::shm::Server server;
  if (local_peers) {
    auto published = transport::shm::Shm::publish(exchange);
    if (!published) return std::move(published).error();
    server = std::move(*published);
  }
  if (several_hosts) {
    WEFT_TRY(open_network("the job spans several hosts (" + std::to_string(job.local_size) + " of " +
                          std::to_string(job.size) +
                          " ranks are on this one) and there is no network between them:"));
    WEFT_TRY(transport::publish_address(*network_, exchange));
  }
  WEFT_TRY(exchange.share());
  if (local_peers) {
    auto shm = transport::shm::Shm::create(exchange, std::move(server));
    if (!shm) return std::move(shm).error();
    shm_ = std::move(*shm);
    instance.shm = shm_.get();
  }
  publish_waits();
  if (several_hosts) WEFT_TRY(transport::check_addresses(*addresses_, exchange));
  count_cores();
  return {};
}

void Engine::publish_waits() {
  const auto& job = instance.exchange->job();
  instance.waits.set_find_similar(find_similar);
  instance.waits.open(shm_ != nullptr ? &shm_->wait_table(instance.self) : nullptr, job.rank, job.size);
}

void Engine::count_cores() {
  const auto& job = instance.exchange->job();
  const size_t cores = shm_ != nullptr ? shm_->usable_cores() : launch::allowed_cpus().size();
  instance.cores = std::max(1u, static_cast<uint32_t>(cores / std::max(1, job.local_size)));
  instance.oversubscribed =
      static_cast<size_t>(job.local_size) > cores || job.machine_size > ::sysconf(_SC_NPROCESSORS_ONLN);
  // Messages from another host cause no wake-up.
  instance.notified_when_idle = instance.oversubscribed && shm_ != nullptr && network_ == nullptr;
  if (instance.oversubscribed && shm_ != nullptr) shm_->enable_wakeups();
}

void Engine::init_peer(void* engine, uint32_t id, Peer& peer) {
  const Engine& self = *static_cast<Engine*>(engine);
  if (id == self.instance.self) return;
  peer.remote = !self.instance.same_host(id);
  peer.transport = peer.remote ? static_cast<transport::Transport*>(self.network_.get()) : self.shm_.get();
}

/// The index belongs to another process now.
void Engine::renew_peer(uint32_t id) {
  const Peer& peer = peers_[id];
  forgotten_[static_cast<int>(distance_of(id, peer))] += traffic_with(peer);
  peers_.renew(id);
}

// While shared memory progresses, the network is polled only once in kRoundsPerNetworkPoll rounds.
bool Engine::poll_network(bool shm_progressed) {
  if (shm_progressed && ++network_rounds_ % kRoundsPerNetworkPoll != 0) return false;
  return network_->poll(instance.handlers, device::SubmissionBatcher::kMaxMessages) != 0;
}

// Active requests on device memory announce further copies, so the resident kernel must not hit its idle
// timeout.
void Engine::keep_running() {
  if (!batcher_.keep_running_due()) return;
  const Transfer* active =
      classification_cache_[0] != nullptr ? classification_cache_[0] : classification_cache_[1];
  if (active != nullptr) device::keep_running(active->memory);
}

bool Engine::poll() {
  if (classification_cache_[0] != nullptr || classification_cache_[1] != nullptr) [[unlikely]]
    keep_running();
  batcher_.progress();
  collecting_ = true;
  bool progressed = shm_ != nullptr && shm_->poll(instance.handlers, batcher_.max_messages()) != 0;
  collecting_ = false;
  if (network_ != nullptr) [[unlikely]]
    progressed |= poll_network(progressed);
  if (!pending_gets_.empty() && submissions_.empty()) submit_gets();
  if (!backlog_.empty()) [[unlikely]] {
    for (size_t i = 0; i < backlog_.size();) {
      progressed |= flush(backlog_[i]);
      if (peers_[backlog_[i]].in_backlog)
        ++i;
      else
        backlog_[i] = backlog_.back(), backlog_.pop_back();
    }
  }
  if (!submissions_.empty()) {
    if (batcher_.poll_due()) progressed |= poll_device();
    if (!pending_gets_.empty()) submit_gets();
  }
  if (!polled_.empty()) progressed |= poll_requests();
  return progressed;
}

bool Engine::idle() const {
  return requests_.size() == 0 && posted_.size() == 0 && backlog_.empty() && polled_.empty() &&
         submissions_.empty() && pending_gets_.empty() && pending_puts_.empty() &&
         (network_ == nullptr || network_->idle());
}

// A request may end and leave the list while it is polled, and so may others.
bool Engine::poll_requests() {
  bool progressed = false;
  for (size_t i = 0; i < polled_.size();) {
    Transfer* const t = polled_[i];
    progressed |= t->protocol->progress(*this, *t);
    if (i >= polled_.size() || polled_[i] != t) continue;
    if (t->state == Transfer::State::done)
      complete(*t);
    else
      ++i;
  }
  return progressed;
}

void Engine::start_polling(Transfer& t) {
  WEFT_ASSERT(!t.polled && t.protocol != nullptr && t.protocol->progress != nullptr);
  t.polled = true;
  polled_.push_back(&t);
}

void Engine::stop_polling(Transfer& t) {
  if (std::exchange(t.polled, false)) std::erase(polled_, &t);
}

void Engine::leave_protocol(Transfer& t) {
  if (t.protocol == nullptr) return;
  if (t.protocol->abort != nullptr) t.protocol->abort(*this, t);
  end_protocol(t);
}

void Engine::end_protocol(Transfer& t) {
  stop_polling(t);
  t.protocol = nullptr;
  t.protocol_state.reset();
}

Regions& Engine::regions() { return states_->regions; }
BouncePool& Engine::bounce_pool() { return states_->bounce_pool; }
StagingLimits& Engine::staging_limits() { return states_->staging; }
PutProtocol& Engine::put() { return states_->put; }
GpuDirect& Engine::gpudirect() { return states_->gpudirect; }

void Engine::close_device() {
  put().close();
  instance.memory->close();
  bounce_pool().close();
}

void Engine::drain() {
  const auto sends = [](const Transfer* t) { return t->kind == core::Request::Kind::send; };
  const auto drained = [&] {
    return backlog_.empty() && std::none_of(polled_.begin(), polled_.end(), sends) && submissions_.empty() &&
           pending_gets_.empty() && pending_puts_.empty() && bounce_pool().gets.used() == 0 &&
           (network_ == nullptr || network_->idle());
  };
  core::wait_until(instance, [&] {
    if (drained()) return true;
    end_departed();
    return drained();
  });
}

void Engine::leave_network() {
  if (network_ == nullptr) return;
  network_->send_disconnects();
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
  if (check_types_) [[unlikely]]
    h.signature = signature_of(t);
  return h;
}

[[gnu::always_inline]] inline bool Engine::try_control(uint32_t to, Peer& peer, const void* message,
                                                       size_t size, uint64_t registration) {
  std::byte* const slot = reserve_message(to, peer, size);
  if (slot == nullptr) return false;
  std::memcpy(slot, message, size);
  if (registration != 0) [[unlikely]]
    network_->send_rts(to, size, registration);
  else
    commit_message(to, peer, size);
  return true;
}

void Engine::post_control(uint32_t to, const void* message, size_t size, uint64_t registration) {
  Peer& peer = peers_[to];
  if (peer.lost) [[unlikely]]
    return;
  if (!blocked(peer) && try_control(to, peer, message, size, registration)) return;
  std::memcpy(append_pending(to, PendingMessage{nullptr, size, registration, {}}).control, message, size);
}

std::byte* Engine::reserve(uint32_t to, size_t size) {
  const Peer& peer = peers_[to];
  return peer.lost || blocked(peer) ? nullptr : reserve_message(to, peer, size);
}

PendingMessage& Engine::append_pending(uint32_t to, PendingMessage item) {
  Peer& peer = peers_[to];
  if (!peer.pending) peer.pending = std::make_unique<std::deque<PendingMessage>>();
  if (!peer.in_backlog) peer.in_backlog = true, backlog_.push_back(to);
  return peer.pending->emplace_back(std::move(item));
}

void Engine::enqueue(uint32_t to, Transfer& t) {
  t.enter(Transfer::State::queued);
  (void)enlist(t);
  append_pending(to, PendingMessage{&t, 0, 0, {}});
}

bool Engine::flush(uint32_t to) {
  Peer& peer = peers_[to];
  bool progressed = false;
  while (blocked(peer) && !peer.pending->empty()) {
    PendingMessage& item = peer.pending->front();
    if (item.transfer != nullptr) {
      if (!try_eager(*item.transfer)) return progressed;
    } else if (!try_control(to, peer, item.control, item.size, item.registration)) {
      return progressed;
    }
    peer.pending->pop_front();
    progressed = true;
  }
  peer.pending.reset();
  peer.in_backlog = false;
  return progressed;
}

inline void Engine::end(Transfer& t) {
  t.enter(Transfer::State::done);
  if (t.protocol != nullptr) [[unlikely]]
    t.comm->instance.engine->end_protocol(t);
  if (t.id != core::kNoRequest) [[unlikely]]
    t.comm->instance.engine->delist(t);
  if (t.classification_cached) [[unlikely]]
    t.comm->instance.engine->uncache_classification(t);
}

void Engine::delist(Transfer& t) {
  requests_.erase(std::exchange(t.id, core::kNoRequest), peers_[t.peer].requests);
}

void Engine::complete(Transfer& t) {
  if (ends_inside_element(t)) [[unlikely]]
    return complete(t, end_inside_error(t));
  end(t);
  t.finish();
}

void Engine::complete(Transfer& t, Error error) {
  end(t);
  t.finish(std::move(error));
}

// Returns credit in steps of half the limit, to save messages.
void Engine::consumed(uint32_t from, uint64_t bytes) {
  if (from == instance.self) return;
  Peer& peer = peers_[from];
  WEFT_ASSERT(peer.reported <= peer.consumed);
  peer.consumed += bytes + kEntryChargeBytes;
  if (peer.consumed - peer.reported < credit / 2) [[likely]]
    return;
  Credit message{};
  message.type = Type::credit;
  message.bytes = peer.consumed;
  peer.reported = peer.consumed;
  post_control(from, &message, sizeof message);
}

/// The credit of a peer only grows, up to what was sent to it.
void Engine::on_credit(uint32_t source, const Credit& message) {
  Peer& peer = peers_[source];
  if (peer.lost) return;
  if (message.bytes - peer.eager_credited > peer.eager_sent - peer.eager_credited) return drop_malformed();
  peer.eager_credited = message.bytes;
}

void Engine::send(Transfer& t) {
  if (t.peer == instance.self) return send_to_self(t);
  if (device_side(t)) [[unlikely]]
    return send_device(t);
  Peer& peer = peers_[t.peer];
  count_sent(peer, {t.context, t.comm->rank(), t.tag}, t.bytes);
  if (has_credit(t.peer, t.bytes, peer)) return send_eager(t, peer);
  // Some networks send host data from within progress(). Progressing here sends the first message of a
  // window while the application posts the others.
  const bool needs_progress = peer.remote;
  send_rts(t);
  if (needs_progress) [[unlikely]]
    instance.progress();
}

void Engine::send_device(Transfer& t) {
  const bool managed = t.memory.kind == device::MemoryKind::cuda_managed;
  (managed ? managed_messages : device_messages).add();
  (managed ? managed_bytes : device_bytes).add(t.bytes);
  keep_running();
  for (const Protocol* protocol : protocols_that_send())
    if (protocol->send(*this, t)) return;
  count_sent(peers_[t.peer], {t.context, t.comm->rank(), t.tag}, t.bytes);
  send_rts(t);
}

}  // namespace weft::p2p
