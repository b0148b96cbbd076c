// SPDX-License-Identifier: BSD-3-Clause
// Engine: matching, credit and dispatch of all point-to-point communication of this process. Protocols
// (protocol/protocol.hpp) use its public part; the public interface of the folder is p2p.hpp.
// Threading: under the instance lock.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/config.hpp"
#include "core/instance.hpp"
#include "core/memory_registry.hpp"
#include "core/request_table.hpp"
#include "device/queue/submission_batcher.hpp"
#include "p2p/buffered.hpp"
#include "p2p/device_state.hpp"
#include "p2p/header.hpp"
#include "p2p/match/queue.hpp"
#include "p2p/p2p.hpp"
#include "p2p/peer.hpp"
#include "p2p/protocol/choice.hpp"
#include "p2p/sparse.hpp"
#include "p2p/traffic.hpp"
#include "transport/network.hpp"
#include "transport/shm/shm.hpp"

namespace weft::p2p {

// State of protocols: protocol/states.hpp.
class BouncePool;
class GpuDirect;
class PutProtocol;
class Regions;
struct ProtocolStates;
struct RtsPart;
struct StagingLimits;

/// A message that arrived before its receive was posted: eager with its payload, or an RTS with its header.
struct UnexpectedMessage : match::MatchEntry {
  core::Completion completion;  ///< source, tag and bytes for the receiver's status
  uint32_t peer = 0;
  Type type = Type::eager;
  uint16_t signature = 0;                     ///< as in Header
  core::RequestId sender = core::kNoRequest;  ///< of ready_to_send and eager_sync
  size_t size = 0;                            ///< stored bytes: payload (eager) or header (ready_to_send)
  bool matched = false;                       ///< dequeued by a matched probe
  core::Communicator* comm = nullptr;         ///< set by a matched probe
  alignas(8) std::byte inlined[384];
  std::unique_ptr<std::byte[]> heap;
  [[nodiscard]] const std::byte* data() const { return heap ? heap.get() : inlined; }
  static Slab<UnexpectedMessage>& slab();
};
static_assert(sizeof(UnexpectedMessage::inlined) >= kMaxControl);

class JobConnections;

extern config::Size credit;                         ///< engine.cpp
inline constexpr uint64_t kEntryChargeBytes = 128;  ///< credit per eager message in addition to its payload

class Engine final : public core::Poller, private transport::am::Sender {
 public:
  static Result<std::unique_ptr<Engine>> create(core::Instance& instance);
  ~Engine() override;
  bool poll() override;
  [[nodiscard]] bool idle() const override;

  [[nodiscard]] Status connect();
  [[nodiscard]] bool connected() const {
    return shm_ != nullptr || network_ != nullptr || instance.size == 1;
  }
  static void prepare(Transfer& t, core::Communicator& comm, const datatype::Datatype& type, SendMode mode,
                      core::ContextId context);
  static void start(Transfer& t, const Buffer& buffer, int rank, int tag);
  /// Starts a transfer whose fields are filled in.
  static void start_described(Transfer& t);
  /// Starts a persistent request whose buffer was classified when the request was created.
  static void start_persistent(Transfer& t);
  void send(Transfer& t);
  [[nodiscard]] bool send_now(const void* from, uint64_t bytes, uint32_t to, int tag,
                              core::Communicator& comm, core::Channel channel);
  void receive(Transfer& t) {
    if (check_sources_ && !usable(t)) [[unlikely]]
      return;
    if (match::MatchEntry* entry = unexpected_.find(t.key)) return receive_stored(t, *entry);
    if (check_sources_ && !source_alive(t)) [[unlikely]]
      return;
    t.enter(Transfer::State::posted);
    posted_.add(t);
    if (device_side(t)) [[unlikely]]
      device_posted(t);
  }
  void receive_message(Transfer& t, UnexpectedMessage& message);
  [[nodiscard]] Status check_source(int rank, core::Communicator& comm) {
    if (!check_sources_) [[likely]]
      return {};
    return check_source_alive(rank, comm);
  }
  void cancel(Transfer& t);
  /// Resumes the receives from any source that only acknowledged failures have interrupted.
  void resume_receives(const core::Communicator& comm);
  /// From now on messages of the program carry the signatures of their datatypes, which receives compare.
  void check_types() { check_types_ = true; }
  void start_batch() { batching_ = true; }  ///< puts until end_batch() are submitted together
  void end_batch() {
    batching_ = false;
    if (!pending_puts_.empty()) submit_batches(pending_puts_, device::StreamRole::out, SIZE_MAX);
  }
  [[nodiscard]] UnexpectedMessage* find(const match::Key& wanted) const;
  void extract(UnexpectedMessage& message) { unexpected_.remove(message); }
  /// Discards a matched message whose receive cannot start.
  void discard(UnexpectedMessage& message);
  void buffered_send(Transfer& t);
  /// Packs the whole buffer, of any memory kind, into host memory. Blocks.
  static Status pack_out(const Transfer& t, std::byte* to);
  /// Progresses until all outgoing traffic of this process has left. A backlog to a process that has failed
  /// or left MPI is dropped.
  void drain();
  void close_device();
  /// Sends disconnect notices, so that peers report no failure. The network is closed at process exit.
  void leave_network();
  /// Returns lines "component\ttext" for humans: the transports of this job.
  [[nodiscard]] std::string describe() const;
  /// The active send (or receive) whose memory was classified last.
  [[nodiscard]] Transfer*& cached_transfer(const Transfer& t) {
    return classification_cache_[t.kind == core::Request::Kind::receive];
  }
  /// Drops the cached memory classification of a transfer that ends.
  void uncache_classification(Transfer& t);
  [[nodiscard]] JobConnections& jobs() { return *jobs_; }
  /// Returns the number of requests in flight with peers; posted receives do not count.
  [[nodiscard]] size_t in_flight() const { return requests_.size(); }

  // For protocols.
  [[nodiscard]] Peer& peer(uint32_t id) { return peers_[id]; }
  /// Calls f(id, const Peer&) for all peers in use.
  template <class F>
  void for_each_peer(F&& f) const {
    peers_.for_each(f);
  }
  [[nodiscard]] Distance distance_of(uint32_t id, const Peer& peer) const {
    if (id == instance.self) return Distance::self;
    return peer.remote ? Distance::network : Distance::host;
  }
  /// Traffic with processes whose state has been given to others.
  [[nodiscard]] const Traffic& forgotten(Distance distance) const {
    return forgotten_[static_cast<int>(distance)];
  }
  [[nodiscard]] transport::shm::Shm* shm() const { return shm_.get(); }
  [[nodiscard]] transport::Network* network() const { return network_.get(); }
  [[nodiscard]] match::Posted& posted() { return posted_; }
  [[nodiscard]] const match::Posted& posted() const { return posted_; }
  [[nodiscard]] const match::Unexpected& unexpected() const { return unexpected_; }
  [[nodiscard]] const device::SubmissionBatcher& batcher() const { return batcher_; }
  [[nodiscard]] transport::cuda_ipc::Exporter& exporter() { return instance.memory->exporter(); }
  [[nodiscard]] transport::cuda_ipc::Importer& importer() { return instance.memory->importer(); }
  [[nodiscard]] Regions& regions();
  [[nodiscard]] BouncePool& bounce_pool();
  [[nodiscard]] StagingLimits& staging_limits();
  [[nodiscard]] PutProtocol& put();
  [[nodiscard]] GpuDirect& gpudirect();
  [[nodiscard]] static bool device_side(const Transfer& t) { return p2p::device_side(t.memory.kind); }
  [[nodiscard]] static bool blocked(const Peer& peer) { return peer.pending != nullptr; }
  /// Returns whether a payload of `bytes` fits the eager limit and the peer's remaining credit.
  [[nodiscard]] static bool has_credit(uint32_t to, uint64_t bytes, Peer& peer) {
    if (bytes > peer.eager_max && bytes > eager_limit(to, peer)) [[unlikely]]
      return false;
    return peer.eager_sent + bytes + kEntryChargeBytes - peer.eager_credited <= credit;
  }
  /// Returns the address for a message of `size` bytes to a peer; null: no capacity now. Messages to a peer
  /// of this host go through its ring once it is open, without the virtual calls of the transport.
  [[nodiscard]] static std::byte* reserve_message(uint32_t to, const Peer& peer, size_t size) {
    return peer.ring != nullptr ? peer.ring->reserve(size) : peer.transport->reserve(to, size);
  }
  /// Sends the reserved message.
  void commit_message(uint32_t to, Peer& peer, size_t size) {
    if (peer.ring != nullptr) [[likely]] {
      peer.ring->commit(size);
      return shm_->notify(to);
    }
    peer.transport->commit(to, size);
    if (!peer.remote) peer.ring = shm_->ring_to(to);
  }
  static void charge(Peer& peer, uint64_t bytes) {
    peer.eager_sent += bytes + kEntryChargeBytes;
    WEFT_ASSERT(peer.eager_sent - peer.eager_credited <= credit);
  }
  void count_sent(Peer& peer, const match::Key& key, uint64_t bytes) {
    ++peer.sent;
    peer.sent_bytes += bytes;
    if (peer.last_sent) [[unlikely]]
      record_sent(peer, key);
  }
  [[nodiscard]] Header header(const Transfer& t, Type type, uint64_t length) const;
  /// Sends a message that fits the eager limit and the credit, now or when there is capacity.
  void send_eager(Transfer& t, Peer& peer) {
    charge(peer, t.bytes);
    if (blocked(peer) || !try_eager(t)) enqueue(t.peer, t);
  }
  /// `registration`: id of the registered buffer whose rkey the message carries; 0: none.
  void post_control(uint32_t to, const void* message, size_t size, uint64_t registration = 0);
  /// Gives a request in flight with `t.peer` its id, until it ends.
  core::RequestId enlist(Transfer& t) {
    if (t.id == core::kNoRequest) t.id = requests_.insert(t, t.peer, peers_[t.peer].requests);
    return t.id;
  }
  /// Marks a receive as matched with a message.
  void matched(Transfer& t, uint32_t source, int rank, int tag, uint64_t bytes);
  /// Starts a matched receive by the best protocol that is not in `tried`, a set of indices as bits.
  void start_protocol(Transfer& t, const ReadyToSend& rts, uint32_t tried);
  /// Asks the sender of a matched receive to move the payload by a protocol.
  void clear_to_send(Transfer& t, const Protocol& protocol);
  void finish_sender(uint32_t source, core::RequestId sender, uint8_t flags = 0);
  static void drop_malformed();
  static void complete(Transfer& t);
  static void complete(Transfer& t, Error error);
  /// Calls the progress hook of the request's protocol from now on.
  void start_polling(Transfer& t);
  void stop_polling(Transfer& t);
  /// Returns everything that the request holds in its protocol.
  void leave_protocol(Transfer& t);
  [[nodiscard]] Error loss_error(uint32_t peer) const;
  /// A get from the memory of the sender has failed. Returns true if the sender has ended: no other protocol
  /// may be tried, and the receive ends when the failure is reported, or has ended if the sender left MPI.
  bool sender_ended(Transfer& t, const Error& error);
  // Device copies: protocol/submission.cpp. The request completes with its copy.
  void start_get(const DeviceCopy& get) {
    pending_gets_.push_back(get);
    if (!collecting_) submit_gets();
  }
  void start_put(const DeviceCopy& put) {
    if (batching_)  // two copies in one submission take 3 us less than two submissions
      pending_puts_.push_back(put);
    else
      submit_copy(put, next_stream(device::StreamRole::out, device::StreamRole::aux));
  }
  void track(CopySubmission submission);
  device::StreamRole next_stream(device::StreamRole first, device::StreamRole second);
  /// Returns whether a get of a message of the peer is in flight.
  [[nodiscard]] bool getting_from(uint32_t peer) const;

  SendBuffers buffers;
  core::Instance& instance;

 private:
  friend class JobConnections;
  explicit Engine(core::Instance& owner);
  static void dispatch(Transfer& t);

  // am::Sender, for the other users of active messages.
  void post(uint32_t to, const void* message, size_t size) override { post_control(to, message, size); }
  [[nodiscard]] std::byte* reserve(uint32_t to, size_t size) override;
  void commit(uint32_t to, size_t size) override { commit_message(to, peers_[to], size); }
  [[nodiscard]] size_t max_message(uint32_t to) override { return peers_[to].transport->max_message(to); }

  // engine.cpp: messages out and in.
  Status open_network(const std::string& need);
  void publish_waits();
  void count_cores();
  static void init_peer(void* engine, uint32_t id, Peer& peer);
  void renew_peer(uint32_t id);
  bool poll_network(bool shm_progressed);
  bool poll_requests();
  PendingMessage& append_pending(uint32_t to, PendingMessage item);
  bool try_control(uint32_t to, Peer& peer, const void* message, size_t size, uint64_t registration);
  void enqueue(uint32_t to, Transfer& t);
  bool flush(uint32_t to);
  void send_device(Transfer& t);
  void consumed(uint32_t from, uint64_t bytes);
  UnexpectedMessage& store(uint32_t source, const Header& header, const std::byte* data, size_t size);
  void dispose(UnexpectedMessage& message);
  void receive_stored(Transfer& t, match::MatchEntry& entry);
  void device_posted(Transfer& t);
  void progress_while_posting();
  void keep_running();
  void cache_classification(Transfer& t);
  void on_eager(uint32_t source, const Header& header, const std::byte* payload, core::RequestId sender);
  void on_observed_eager(uint32_t source, const Header& header, const std::byte* payload,
                         core::RequestId sender);
  void on_rts(uint32_t source, const ReadyToSend& rts, size_t size);
  void register_handlers();
  void register_eager_handler();
  template <class H, class F>
  void on(Type type, F handle);
  [[nodiscard]] Transfer* match_posted(const match::Key& key) {
    for (;;) {
      auto* t = static_cast<Transfer*>(posted_.extract(key));
      WEFT_ASSERT(t == nullptr || t->state == Transfer::State::posted);
      if (t == nullptr || t->advertised == 0 || retract_matched(*t)) [[likely]]
        return t;
    }
  }
  [[nodiscard]] bool retract(Transfer& t);
  [[nodiscard]] bool retract_matched(Transfer& t);
  static void record_sent(Peer& peer, const match::Key& key);
  void delist(Transfer& t);
  void end_protocol(Transfer& t);
  static void end(Transfer& t);
  /// Returns the transfer that an id from `source` names if it is in `state`; else null, counted as a
  /// stale id or a malformed message.
  [[nodiscard]] Transfer* find_transfer(core::RequestId id, uint32_t source, Transfer::State state);
  void on_credit(uint32_t source, const Credit& message);
  void acknowledge(uint32_t to, core::RequestId sender);
  void on_cancelled(uint32_t source, core::RequestId sender);
  void abort(Transfer& t, Error error);

  // protocol/eager.cpp
  static uint64_t eager_limit(uint32_t to, Peer& peer);
  void copy_payload(std::byte* slot, const void* from, uint64_t bytes, uint32_t to, Peer& peer);
  [[gnu::cold]] void time_copy(std::byte* slot, const void* from, uint64_t bytes, uint32_t to, Peer& peer);
  void choose_eager_limit(uint32_t to, Peer& peer);
  bool try_eager(Transfer& t);
  void receive_eager(Transfer& t, const std::byte* payload, size_t size) {
    if (!t.contiguous || size > t.bytes || device_side(t)) [[unlikely]]
      return receive_eager_slow(t, payload, size);
    copy_small(t.data(), payload, size);
    complete(t);
  }
  void receive_eager_slow(Transfer& t, const std::byte* payload, size_t size);
  void send_to_self(Transfer& t);

  // protocol/rendezvous.cpp
  void send_rts(Transfer& t);
  RtsPart append_rts(Transfer& t, ReadyToSend& rts, std::byte* out);
  void start_rendezvous(Transfer& t, uint32_t source, const ReadyToSend& rts);
  void copy_from_self(Transfer& t, Transfer& sender);
  void on_clear_to_send(uint32_t source, const ClearToSend& cts);
  void on_data(uint32_t source, const Data& data, const std::byte* payload);
  void on_chunk_ready(uint32_t source, const BounceChunk& chunk);
  void on_chunk_done(uint32_t source, const BounceChunk& chunk);
  void on_copy_offer(uint32_t source, const CopyOffer& offer);
  void on_finish(uint32_t source, core::RequestId sender, bool all_consumed = false);
  void on_cancel(uint32_t source, const Reply& request);
  /// Notifies the network that the buffer of an RTS will not be read.
  void decline(uint32_t source, const ReadyToSend& rts);

  // protocol/loss.cpp
  [[nodiscard]] Status check_source_alive(int rank, core::Communicator& comm);
  [[nodiscard]] bool usable(Transfer& t);
  [[nodiscard]] bool source_alive(Transfer& t);
  void on_failure(uint32_t peer);
  void fail_posted(uint32_t peer);
  // protocol/revoke.cpp
  [[nodiscard]] std::optional<uint32_t> unacknowledged_failure(const core::Communicator& comm) const;
  void interrupt(Transfer& t, uint32_t failed) const;
  [[nodiscard]] bool resume(Transfer& t);
  void on_revoked(core::Communicator& comm);
  void end_departed();
  void read_last_messages();

  // protocol/submission.cpp
  [[nodiscard]] bool copying(const Transfer& t) const;
  void copy_device_self(Transfer& t, Transfer& sender);
  bool poll_device();
  void submit_gets();
  [[nodiscard]] uint64_t bytes_in_flight() const;
  void submit_batches(std::vector<DeviceCopy>& pending, device::StreamRole stream, size_t max_submissions);
  void submit_copy(const DeviceCopy& copy, device::StreamRole stream);
  void submit_batch(const DeviceCopy* copies, size_t count, device::StreamRole stream);
  void finish_copy(const DeviceCopy& copy, Status outcome);
  void finish_put(const DeviceCopy& put, Status outcome);
  void finish_receive(const DeviceCopy& copy, Status outcome);
  void finish_submission(CopySubmission& submission, Status outcome);
  void finish_senders(const CopySubmission& submission);

  std::unique_ptr<transport::shm::Shm> shm_;           // null: no other process on this host
  std::unique_ptr<transport::AddressBook> addresses_;  // of the network
  std::unique_ptr<transport::Network> network_;        // null: no process on another host
  core::RequestTable requests_;                        // in flight with a peer: also listed in Peer::requests
  Sparse<Peer> peers_;                                 // by index in the process table
  Traffic forgotten_[kDistances];
  std::unique_ptr<JobConnections> jobs_;
  std::vector<uint32_t> backlog_;  // peers with pending messages
  std::vector<Transfer*> polled_;  // requests whose protocols are polled, in the order of start_polling()
  match::Posted posted_;
  match::Unexpected unexpected_;
  std::vector<DeviceCopy> pending_gets_;  // matched, not submitted yet
  std::vector<DeviceCopy> submitting_;    // being submitted by submit_batches()
  std::vector<DeviceCopy> pending_puts_;  // RTR claimed, not submitted yet
  bool batching_ = false;                 // between start_batch() and end_batch()
  bool collecting_ = false;               // gets wait for submit_gets(), since more may follow at once
  std::deque<CopySubmission> submissions_;
  Transfer* classification_cache_[2] = {};  // the last active send and receive in cuMemAlloc memory
  device::SubmissionBatcher batcher_;
  std::unique_ptr<ProtocolStates> states_;
  uint32_t network_rounds_ = 0;  // since the network was last polled
  // Receives check their source: there is a network, a process has failed, or a communicator is revoked.
  bool check_sources_ = false;
  bool check_types_ = false;
};

}  // namespace weft::p2p
