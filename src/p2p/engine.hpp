// SPDX-License-Identifier: BSD-3-Clause
// Engine: the state of all point-to-point communication of this process. Protocols (protocol/*.cpp) are
// member functions, grouped by file; the public interface is p2p.hpp. Threading: under the instance lock.
#pragma once
#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/instance.hpp"
#include "core/memory_registry.hpp"
#include "core/request_table.hpp"
#include "device/queue/submission_batcher.hpp"
#include "p2p/buffered.hpp"
#include "p2p/device_state.hpp"
#include "p2p/gpudirect.hpp"
#include "p2p/header.hpp"
#include "p2p/match/queue.hpp"
#include "p2p/p2p.hpp"
#include "p2p/peer.hpp"
#include "p2p/protocol/choice.hpp"
#include "p2p/sparse.hpp"
#include "transport/network.hpp"
#include "transport/shm/shm.hpp"

namespace weft::p2p {

/// A message that arrived before its receive was posted: eager with its payload, or an RTS with its header.
struct UnexpectedMessage : match::MatchEntry {
  core::Completion completion;  ///< source, tag and bytes for the receiver's status
  uint32_t peer = 0;
  Type type = Type::eager;
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

class Engine final : public core::Poller, private transport::am::Sender {
 public:
  static Result<std::unique_ptr<Engine>> create(core::Instance& instance);
  ~Engine() override;
  bool poll() override;

  // Called by p2p.cpp.
  [[nodiscard]] Status connect();
  [[nodiscard]] bool connected() const {
    return shm_ != nullptr || network_ != nullptr || instance.size == 1;
  }
  static void prepare(Transfer& t, core::Communicator& comm, const datatype::Datatype& type, SendMode mode,
                      core::ContextId context);
  static void start(Transfer& t, const Buffer& buffer, int rank, int tag);
  /// Starts a persistent request whose buffer was classified when the request was created.
  static void start_persistent(Transfer& t);
  void send(Transfer& t);
  [[nodiscard]] bool send_now(const Buffer& buffer, uint32_t to, int tag, core::Communicator& comm);
  void receive(Transfer& t) {
    if (check_sources_ && !collective_alive(t)) [[unlikely]]
      return;
    if (match::MatchEntry* entry = unexpected_.find(t.key)) return receive_stored(t, *entry);
    if (check_sources_ && !source_alive(t)) [[unlikely]]
      return;
    t.enter(Transfer::State::posted);
    posted_.add(t);
    if (device_side(t)) [[unlikely]] {
      advertise(t);
      progress_while_posting();
    }
  }
  void receive_message(Transfer& t, UnexpectedMessage& message);
  [[nodiscard]] Status check_source(int rank, const core::Communicator& comm) {
    if (!check_sources_) [[likely]]
      return {};
    return check_source_alive(rank, comm);
  }
  void cancel(Transfer& t);
  /// Puts started between start_batch() and end_batch() are submitted together.
  void start_batch() { batching_ = true; }
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
  /// Progresses until all outgoing traffic of this process has left.
  void drain();
  void close_device();
  /// Sends disconnect notices, so that peers report no failure. The network is closed at process exit.
  void leave_network();
  /// Returns lines "component\ttext" for humans: the transports of this job.
  [[nodiscard]] std::string describe() const;
  /// Drops the cached memory classification of a transfer that ends.
  void uncache_classification(Transfer& t);
  /// Returns the number of requests in flight with peers; posted receives do not count.
  [[nodiscard]] size_t in_flight() const { return requests_.size(); }

  SendBuffers buffers;
  core::Instance& instance;

 private:
  explicit Engine(core::Instance& owner);
  static void dispatch(Transfer& t);
  void lost(uint32_t peer, const Error& why);

  // am::Sender, for the other users of active messages.
  void post(uint32_t to, const void* message, size_t size) override { post_control(to, message, size); }
  [[nodiscard]] std::byte* reserve(uint32_t to, size_t size) override;
  void commit(uint32_t to, size_t size) override { peers_[to].transport->commit(to, size); }
  [[nodiscard]] size_t max_message(uint32_t to) override { return peers_[to].transport->max_message(to); }

  // engine.cpp: messages out and in.
  [[nodiscard]] static bool blocked(const Peer& peer) { return peer.pending != nullptr; }
  void count_cores();
  static void init_peer(void* engine, uint32_t id, Peer& peer);
  bool poll_network(bool shm_progressed);
  PendingMessage& append_pending(uint32_t to, PendingMessage item);
  bool try_control(uint32_t to, const void* message, size_t size, uint64_t registration);
  /// `registration`: id of the registered buffer whose rkey the message carries; 0: none.
  void post_control(uint32_t to, const void* message, size_t size, uint64_t registration = 0);
  void enqueue(uint32_t to, Transfer& t);
  bool flush(uint32_t to);
  bool poll_streams();
  bool progress_stream(Transfer& t);
  Header header(const Transfer& t, Type type, uint64_t length) const;
  void consumed(uint32_t from, uint64_t bytes);
  UnexpectedMessage& store(uint32_t source, const Header& header, const std::byte* data, size_t size);
  void dispose(UnexpectedMessage& message);
  void receive_stored(Transfer& t, match::MatchEntry& entry);
  void progress_while_posting();
  void keep_running();
  /// The active send (or receive) whose memory was classified last.
  [[nodiscard]] Transfer*& cached_transfer(const Transfer& t) {
    return classification_cache_[t.kind == core::Request::Kind::receive];
  }
  void cache_classification(Transfer& t);
  void on_eager(uint32_t source, const Header& header, const std::byte* message);
  void on_rts(uint32_t source, const ReadyToSend& rts, size_t size);
  static uint64_t eager_limit(uint32_t to, Peer& peer);
  void copy_payload(std::byte* slot, const void* from, uint64_t bytes, uint32_t to, Peer& peer);
  void choose_eager_limit(uint32_t to, Peer& peer);
  static void charge(Peer& peer, uint64_t bytes);
  void register_handlers();
  template <class H, class F>
  void on(Type type, F handle);
  static void drop_malformed();
  /// Gives a request in flight with `t.peer` its id, until it ends.
  core::RequestId enlist(Transfer& t) {
    if (t.id == core::kNoRequest) t.id = requests_.insert(t, t.peer, peers_[t.peer].requests);
    return t.id;
  }
  void delist(Transfer& t);
  /// Returns the transfer that an id from `source` names if it is in `state`; else null, counted as a
  /// stale id or a malformed message.
  [[nodiscard]] Transfer* find_transfer(core::RequestId id, uint32_t source, Transfer::State state);
  void on_credit(uint32_t source, const Credit& message);
  void acknowledge(uint32_t to, core::RequestId sender);
  void on_cancelled(uint32_t source, core::RequestId sender);
  static void end(Transfer& t);
  static void complete(Transfer& t);
  static void complete(Transfer& t, Error error);
  void matched(Transfer& t, uint32_t source, int rank, int tag, uint64_t bytes);

  // protocol/eager.cpp
  [[nodiscard]] bool fits_eager(const Transfer& t, Peer& peer) const;
  [[nodiscard]] static bool has_credit(uint32_t to, uint64_t bytes, Peer& peer);
  bool try_eager(Transfer& t);
  bool send_through_bar(Transfer& t, Peer& peer);
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
  void start_rendezvous(Transfer& t, uint32_t source, const ReadyToSend& rts);
  void copy_from_self(Transfer& t, Transfer& sender);
  [[nodiscard]] bool readable(uint32_t source);
  bool get(Transfer& t, uint32_t source, const ReadyToSend& rts);
  bool get_host(Transfer& t, uint32_t source, const ReadyToSend& rts);
  bool get_host_to_device(Transfer& t, uint32_t source, const ReadyToSend& rts);
  Status get_scattered(Transfer& t, uint32_t source, const ReadyToSend& rts);
  Status get_part(Transfer& t, uint32_t source, uint64_t address, uint64_t offset, uint64_t n);
  void finish_sender(uint32_t source, core::RequestId sender, uint8_t flags = 0);
  void on_finish(uint32_t source, core::RequestId sender, bool all_consumed = false);
  void on_cancel(uint32_t source, const Reply& request);

  // protocol/staged.cpp
  void start_staged(Transfer& t, uint32_t source, const ReadyToSend& rts);
  void clear_to_send(Transfer& t, uint32_t source, core::RequestId sender, uint8_t flags = 0);
  void on_clear_to_send(uint32_t source, const ClearToSend& cts);
  bool stream(Transfer& t);
  void on_data(uint32_t source, const Data& data, const std::byte* payload);
  void abort_stream(Transfer& t, Error error);
  void on_abort(Transfer& t);
  static void wait_for_chunks(Transfer& t);
  /// Sends one fragment of at most `n` bytes at `offset`, written by fill(slot, size); an error of fill()
  /// aborts the stream. Returns the fragment's size; 0: no capacity.
  template <class Fill>
  size_t send_fragment(Transfer& t, uint64_t offset, uint64_t n, Fill&& fill) {
    Peer& peer = peers_[t.peer];
    if (blocked(peer)) return 0;
    const size_t size = std::min<uint64_t>(n, peer.transport->max_message(t.peer) - sizeof(Data));
    std::byte* slot = peer.transport->reserve(t.peer, sizeof(Data) + size);
    if (slot == nullptr) return 0;
    Data& data = *new (slot) Data{};
    data.type = Type::data;
    data.length = static_cast<uint32_t>(size);
    data.receiver = t.remote;
    data.offset = offset;
    if (Status filled = fill(slot + sizeof(Data), size); !filled) [[unlikely]] {
      data.flags = Data::kAborted;
      t.outcome = std::move(filled);
    }
    peer.transport->commit(t.peer, sizeof(Data) + size);
    return size;
  }

  // protocol/bounce.cpp
  bool get_through_bounce(Transfer& t, uint32_t source, const ReadyToSend& rts);
  bool stream_bounce(Transfer& t);
  void announce_chunk(const Transfer& t, BounceSend::Chunk& chunk);
  bool fail_bounce(Transfer& t, Error error);
  void on_chunk_ready(uint32_t source, const BounceChunk& chunk);
  bool poll_bounce_gets();
  void finish_bounce_get(const BounceGet& bounce_get, Status outcome);
  void finish_bounce_receive(Transfer& t);

  // protocol/eager_pack.cpp
  [[nodiscard]] static size_t append_eager_pack(Transfer& t, ReadyToSend& rts, std::byte* out);
  static void start_eager_pack(Transfer& t);
  void end_eager_pack(Transfer& t, bool all_consumed);
  static bool release_eager_pack(Transfer& t);
  static void cancel_eager_pack(Transfer& t);
  bool start_eager_unpack(Transfer& t, uint32_t source, const ReadyToSend& rts);
  void finish_eager_unpack(const BounceGet& bounce_get, Status outcome);
  void on_chunk_done(uint32_t source, const BounceChunk& chunk);

  // protocol/remote.cpp
  void add_remote_request(Transfer& t);
  void send_remote_rts(Transfer& t);
  [[nodiscard]] bool pack_small_device(Transfer& t, Peer& peer);
  bool get_remote(Transfer& t, const ReadyToSend& rts);
  void decline(uint32_t source, const ReadyToSend& rts);
  void request_announcements(Transfer& t, core::RequestId sender);
  void activate(Transfer& t);
  void activate_waiting();
  void issue_gets(Transfer& t);
  void issue_get(Transfer& t, uint64_t offset, size_t size, const Rkey& rkey, uint64_t rkey_offset,
                 const FragmentAnnouncement* announcement);
  static void fragment_get_done(transport::Completion& self, Status outcome);
  void finish_fragment_get(FragmentGet& get, Status outcome);
  void retire_fragment_get(FragmentGet& get);
  void continue_remote_get(Transfer& t);
  void finish_remote_get(Transfer& t);
  bool poll_fragment_gets();
  void on_fragment_announced(Transfer& t, const FragmentAnnouncement& announcement);
  bool stream_pipelined(Transfer& t);
  Status fill_fragments(Transfer& t, bool& progressed);
  Status announce_fragment(Transfer& t, StagedFragment& fragment);
  bool fail_pipelined(Transfer& t, Error error);
  static void on_fragment_done(Transfer& t, const BounceChunk& chunk);

  // protocol/loss.cpp
  [[nodiscard]] Status check_source_alive(int rank, const core::Communicator& comm);
  [[nodiscard]] bool collective_alive(Transfer& t);
  [[nodiscard]] bool source_alive(Transfer& t);
  void fail_posted(uint32_t peer);
  Error loss_error(uint32_t peer) const;

  // protocol/abort.cpp
  void abort(Transfer& t, Error error);
  void abort_send(Transfer& t);
  void abort_receive(Transfer& t);
  [[nodiscard]] bool copying(const Transfer& t) const;
  void abort_advertised(uint32_t peer);

  // protocol/gpudirect.cpp
  [[nodiscard]] bool gpudirect_usable(const device::Memory& memory, uint32_t peer);
  void start_gdr_check(const device::Memory& memory, uint32_t peer);
  void on_gdr_check_request(uint32_t source, const GdrCheckMessage& request);
  void on_gdr_check_reply(uint32_t source, const GdrCheckMessage& reply);
  void on_gdr_check_done(uint32_t source, const GdrCheckMessage& done);
  static void gdr_check_get_done(transport::Completion& self, Status outcome);
  void reply_gdr_check(GpuDirectResponse& response, Status outcome);
  void end_gdr_check(GpuDirectCheck& check, Status outcome);
  [[nodiscard]] std::string describe_gpudirect() const;

  // protocol/device.cpp
  [[nodiscard]] transport::cuda_ipc::Exporter& exporter() { return instance.memory->exporter(); }
  [[nodiscard]] transport::cuda_ipc::Importer& importer() { return instance.memory->importer(); }
  [[nodiscard]] static bool device_side(const Transfer& t) { return p2p::device_side(t.memory.kind); }
  [[nodiscard]] size_t append_region(Transfer& t, uint32_t to, ReadyToSend& rts, std::byte* out);
  [[nodiscard]] bool region_still_known(Transfer& t);
  [[nodiscard]] std::optional<size_t> append_cached_region(Transfer& t, ReadyToSend& rts, std::byte* out);
  void cache_region(Transfer& t);
  transport::cuda_ipc::Mapping* cached_mapping(const Transfer& t, uint32_t source, const ReadyToSend& rts);
  Result<size_t> append_export(const device::Memory& memory, uint32_t to, ReadyToSend& rts, std::byte* out);
  void add_region(uint32_t source, const ReadyToSend& rts);
  static transport::cuda_ipc::RegionName region_name(const ReadyToSend& rts);
  const transport::cuda_ipc::Region* find_region(uint32_t source, const ReadyToSend& rts);
  static device::Memory importing_memory(const Transfer& t);
  void cache_mapping(const Transfer& t, uint32_t peer, const transport::cuda_ipc::RegionName& peer_region,
                     transport::cuda_ipc::Mapping& mapping);
  transport::cuda_ipc::Mapping* map_region(const Transfer& t, uint32_t source, const ReadyToSend& rts);
  [[nodiscard]] std::optional<size_t> append_strides(Transfer& t, uint32_t to, ReadyToSend& rts,
                                                     std::byte* out);
  bool get_strided(Transfer& t, uint32_t source, const ReadyToSend& rts);
  bool get_device(Transfer& t, uint32_t source, const ReadyToSend& rts);
  void copy_device_self(Transfer& t, Transfer& sender);
  bool poll_device();
  void track_uploads(Transfer& t);
  void submit_gets();
  [[nodiscard]] uint64_t bytes_in_flight() const;
  void submit_batches(std::vector<DeviceCopy>& pending, device::StreamRole stream, size_t max_submissions);
  device::StreamRole next_stream(device::StreamRole first, device::StreamRole second);
  void submit_copy(const DeviceCopy& copy, device::StreamRole stream);
  void submit_batch(const DeviceCopy* copies, size_t count, device::StreamRole stream);
  void finish_copy(const DeviceCopy& copy, Status outcome);
  void finish_receive(const DeviceCopy& copy, Status outcome);
  void finish_submission(CopySubmission& submission, Status outcome);
  void finish_senders(const CopySubmission& submission);

  // protocol/put.cpp
  void advertise(Transfer& t);
  [[nodiscard]] bool may_advertise(const Transfer& t) const;
  [[nodiscard]] bool send_region(Transfer& t, const device::Memory& memory, uint32_t to);
  [[nodiscard]] bool retract(Transfer& t);
  void clear_advertised(Transfer& t);
  [[nodiscard]] Transfer* match_posted(const match::Key& key) {
    for (;;) {
      auto* t = static_cast<Transfer*>(posted_.extract(key));
      WEFT_ASSERT(t == nullptr || t->state == Transfer::State::posted);
      if (t == nullptr || t->advertised == 0 || retract_matched(*t)) [[likely]]
        return t;
    }
  }
  [[nodiscard]] bool retract_matched(Transfer& t);
  bool poll_advertised();
  void finish_advertised(Transfer& t, uint64_t state);
  [[nodiscard]] bool put(Transfer& t, Peer& peer);
  [[nodiscard]] static uint64_t find_advertised(const transport::shm::ReadyToReceive& rtr,
                                                const match::Key& key, const Transfer& t, const Peer& peer);
  transport::cuda_ipc::Mapping* map_advertised(const Transfer& t, const transport::shm::ReadyToReceive& rtr);
  void finish_put(const DeviceCopy& put, Status outcome);
  void close_puts();

  // protocol/put_bounce.cpp
  [[nodiscard]] bool reserve_put_bounce(const Transfer& t, PutBounce& bounce);
  static void advertise_put_bounce(const PutBounce& bounce, transport::shm::ReadyToReceive& rtr);
  [[nodiscard]] bool start_put_unpack(const Transfer& t, PutBounce& bounce, uint64_t bytes);
  void copy_put_bounce(const Transfer& t, PutBounce& bounce, uint64_t bytes);
  [[nodiscard]] bool poll_put_unpack(PutBounce& bounce);
  [[nodiscard]] bool progress_put_bounce(Transfer& t, PutBounce& bounce, uint64_t state);
  static void release_put_bounce(PutBounce& bounce);
  void submit_put_bounce(const DeviceCopy& put, device::StreamRole stream);
  void count_sent(Peer& peer, const match::Key& key) {
    ++peer.sent;
    if (peer.last_sent) [[unlikely]]
      record_sent(peer, key);
  }
  static void record_sent(Peer& peer, const match::Key& key);

  // protocol/device_staged.cpp
  void upload_eager(Transfer& t, const std::byte* payload, size_t size);
  bool stream_device(Transfer& t);
  bool announce_pinned_chunk(Transfer& t, unsigned number);
  bool stream_unpinned(Transfer& t);
  void read_pinned_chunk(Transfer& t, uint32_t source, const BounceChunk& chunk);
  static void on_pinned_chunk_done(Transfer& t, const BounceChunk& chunk);
  void upload_fragment(Transfer& t, uint64_t offset, const std::byte* payload, size_t size);
  bool poll_waiting_staged();
  bool lease_chunk(Transfer& t, int chunk);
  Status upload(Transfer& t, Staging::Chunk& chunk, uint64_t offset, size_t n);

  std::unique_ptr<transport::shm::Shm> shm_;         // null: no other rank on this host
  std::unique_ptr<transport::Directory> directory_;  // of the network
  std::unique_ptr<transport::Network> network_;      // null: all ranks on one host
  core::RequestTable requests_;                      // in flight with a peer: also listed in Peer::requests
  Sparse<Peer> peers_;
  std::vector<uint32_t> backlog_;     // peers with pending messages
  std::vector<Transfer*> streaming_;  // sends whose fragments are being sent
  match::Posted posted_;
  match::Unexpected unexpected_;
  std::vector<DeviceCopy> pending_gets_;  // matched, not submitted yet
  std::vector<DeviceCopy> submitting_;    // being submitted by submit_batches()
  std::vector<DeviceCopy> pending_puts_;  // RTR claimed, not submitted yet
  bool batching_ = false;                 // between start_batch() and end_batch()
  bool collecting_ = false;               // gets wait for submit_gets(), since more may follow at once
  std::deque<CopySubmission> submissions_;
  Transfer* classification_cache_[2] = {};  // the last active send and receive in cuMemAlloc memory
  std::deque<LastSent> last_sent_;          // of peers that got a put attempt
  // Indexed by RTR slot: receives advertised to their senders, and the bounce buffers of those receives.
  std::array<Transfer*, transport::shm::kRtrSlots> advertised_{};
  uint32_t advertised_mask_ = 0;  // bit i: advertised_[i] is set
  std::array<PutBounce, transport::shm::kRtrSlots> put_bounces_{};
  std::vector<WaitingStaged> waiting_staged_;
  BouncePool bounce_pool_;
  std::vector<BounceGet> bounce_gets_;
  // Kernels that wait for data from a sender. More could fill the GPU and starve this process's own packing.
  static constexpr uint32_t kMaxWaitingKernels = 2;
  uint32_t waiting_kernels_ = 0;
  device::SubmissionBatcher batcher_;
  uint32_t staged_receives_ = 0;                             // receives that hold pinned chunks
  std::vector<Transfer*> active_gets_;                       // receives that hold staging buffers
  std::deque<Transfer*> waiting_gets_;                       // receives waiting for staging buffers
  std::vector<std::pair<uint32_t, std::string>> losses_;     // lost peers and why
  std::vector<std::unique_ptr<GpuDirectCheck>> gdr_checks_;  // one per device
  std::vector<std::unique_ptr<GpuDirectResponse>> gdr_responses_;
  uint32_t network_rounds_ = 0;  // since the network was last polled
  bool check_sources_ = false;   // receives check their source: there is a network, or a peer is lost
};

}  // namespace weft::p2p
