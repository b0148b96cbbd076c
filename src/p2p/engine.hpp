// SPDX-License-Identifier: BSD-3-Clause
// Engine: the state of all point-to-point traffic of this process. Protocols (protocol/*.cpp) are its
// members, grouped by file; p2p.hpp is its public face. Threading: under the instance lock.
#pragma once
#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/instance.hpp"
#include "p2p/buffered.hpp"
#include "p2p/header.hpp"
#include "p2p/match/queue.hpp"
#include "p2p/p2p.hpp"
#include "p2p/proof.hpp"
#include "p2p/protocol/choice.hpp"
#include "p2p/sparse.hpp"
#include "transport/cuda_ipc/ipc.hpp"
#include "transport/network.hpp"
#include "transport/shm/shm.hpp"

namespace weft::p2p {

/// A message that came before its receive: an eager one with its data, or a ready-to-send with its header.
struct Message : match::Entry {
  core::Completion completion;  ///< source and tag as the receiver sees them, bytes
  uint32_t peer = 0;
  Type type = Type::eager;
  uint64_t sender = 0;                 ///< the sender's transfer, for ready_to_send and eager_sync
  size_t size = 0;                     ///< bytes stored: payload (eager) or header (ready_to_send)
  bool matched = false;                ///< taken by a matched probe
  core::Communicator* comm = nullptr;  ///< set by a matched probe
  alignas(8) std::byte inlined[384];
  std::unique_ptr<std::byte[]> heap;
  [[nodiscard]] const std::byte* data() const { return heap ? heap.get() : inlined; }
  static Slab<Message>& slab();
};
static_assert(sizeof(Message::inlined) >= kMaxControl);

class Engine final : public core::Poller, private transport::Receiver {
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
  /// A persistent request again whose buffer was described when it was made.
  static void start_resolved(Transfer& t);
  void send(Transfer& t);
  [[nodiscard]] bool send_now(const Buffer& buffer, uint32_t to, int tag, core::Communicator& comm);
  void receive(Transfer& t) {
    if (match::Entry* entry = unexpected_.find(t.key)) return receive_stored(t, *entry);
    if (network_ != nullptr && !awaits_living(t)) [[unlikely]]
      return;
    t.state = Transfer::State::posted;
    posted_.add(t);
    if (device_side(t)) [[unlikely]] {
      show(t);
      look_while_posting();
    }
  }
  void receive_message(Transfer& t, Message& message);
  [[nodiscard]] Status check_source(int rank, const core::Communicator& comm) {
    if (network_ == nullptr) [[likely]]
      return {};
    return find_source(rank, comm);
  }
  void cancel(Transfer& t);
  /// Between the two, sends that write into their receives are collected.
  void start_together() { together_ = true; }
  void end_together() {
    together_ = false;
    if (!puts_.empty()) submit_puts();
  }
  [[nodiscard]] Message* find(const match::Key& wanted) const;
  void take(Message& message) { unexpected_.remove(message); }
  /// Drops a matched message whose receive cannot start.
  void discard(Message& message);
  void buffered_send(Transfer& t);
  /// All of a buffer's data to host memory, whatever its kind; waits.
  static Status pack_out(const Transfer& t, std::byte* to);
  /// Progresses until nothing of ours is on its way out.
  void drain();
  void close_device();
  /// No traffic for now: peers may see this process end. It closes the network when it does.
  void leave_network();
  /// Lines "part\ttext" for a human: what carries this job's messages.
  [[nodiscard]] std::string describe() const;
  [[nodiscard]] transport::cuda_ipc::Exporter& exporter();
  [[nodiscard]] transport::cuda_ipc::Importer& importer();
  /// Of a transfer that ends: what its memory is, is not known any more.
  void dismiss(Transfer& t);
  /// Tells the peers which exported allocations were freed, now and then.
  void look_for_freed();

  SendBuffers buffers;
  core::Instance& instance;

 private:
  struct Pending {       // waits for room in the transport
    Transfer* transfer;  // an eager send; or null: a control message
    size_t size = 0;
    uint64_t exposed = 0;  // the buffer that it announces, if any
    alignas(8) std::byte control[kMaxControl];
  };
  using SentAt = std::array<uint64_t, transport::shm::kReadies>;
  struct Peer {
    transport::Transport* transport = nullptr;  // null: this process
    bool met = false;                           // the entry is made: Sparse
    bool remote = false;                        // on another host: the transport is the network
    bool lost = false;                          // and it is gone
    uint64_t eager_max = 0;                     // as known now: payload that its transport takes at once
    uint64_t eager_cap = UINT64_MAX;            // less where one copy by the kernel is quicker
    uint64_t copy_ns = UINT64_MAX;              // quickest copy to it of 8 KiB, of so many timed (eager.cpp)
    uint32_t copies_timed = 0;
    uint64_t eager_sent = 0, eager_credited = 0;  // unexpected bytes that the peer may hold for us
    uint64_t consumed = 0, reported = 0;          // the same, of theirs here
    std::unique_ptr<std::deque<Pending>> pending;
    bool listed = false;  // in backlog_
    // Messages that matching sees, as they were posted to the peer and came from it; and when the last one
    // of each hash of keys was posted, from the first look at the peer's receives on (put.cpp).
    uint64_t sent = 0, arrived = 0;
    SentAt* sent_at = nullptr;
    bool answers = false;  // its last device message was received, and nothing was sent to it since
    uint32_t late = 0;     // times in a row that a receive was waited for in vain
    uint32_t untaken = 0;  // receives in a row that were shown to it in vain
  };
  struct Get {  // one receive served by a copy engine, or a send that writes into one
    Transfer* receiver = nullptr;
    uint32_t source = 0;
    uint64_t sender = 0;  // to be told when done; 0: was told already
    transport::cuda_ipc::Mapping* mapping = nullptr;
    std::byte* theirs = nullptr;                       // in the mapping
    transport::shm::ReadyToReceive* target = nullptr;  // of a send; `receiver` is the send then
    bool aside = false;                                // of a send: not into the receive itself
  };
  struct DeviceCopy {  // a submission under way, and what it serves
    device::Ticket ticket;
    Get get;
    std::vector<Get> more;   // of a batch
    device::Ticket other{};  // of the staging chunk that `ticket` is not of
  };
  struct Starved {  // a staged receive into device memory that waits for its turn and for a pinned chunk
    Transfer* receiver;
    uint32_t source;
    uint64_t sender;
  };

  explicit Engine(core::Instance& owner);
  static void go(Transfer& t);
  void deliver(uint32_t source, const std::byte* message, size_t size) override;
  void lost(uint32_t peer, const Error& why) override;

  // engine.cpp: messages out and in.
  [[nodiscard]] static bool blocked(const Peer& peer) { return peer.pending != nullptr; }
  void count_cores();
  static void meet(void* engine, uint32_t id, Peer& peer);
  bool poll_network(bool moved);
  Pending& wait_for_room(uint32_t to, Pending item);
  bool try_control(uint32_t to, const void* message, size_t size, uint64_t exposed);
  /// `exposed`: a buffer whose key the message brings to another host.
  void post_control(uint32_t to, const void* message, size_t size, uint64_t exposed = 0);
  void enqueue(uint32_t to, Transfer& t);
  bool flush(uint32_t to);
  bool poll_streams();
  bool move_stream(Transfer& t);
  Header header(const Transfer& t, Type type, uint64_t length) const;
  void consumed(uint32_t from, uint64_t bytes);
  Message& store(uint32_t source, const Header& header, const std::byte* data, size_t size);
  void dispose(Message& message);
  void receive_stored(Transfer& t, match::Entry& entry);
  void look_while_posting();
  void keep_awake();
  void release_unmapped();
  /// The active send, or receive, whose memory was looked at last.
  [[nodiscard]] Transfer*& witness_of(const Transfer& t) {
    return witness_[t.kind == core::Request::Kind::receive];
  }
  void call_witness(Transfer& t);
  void eager_arrived(uint32_t source, const Header& header, const std::byte* message);
  void announcement_arrived(uint32_t source, const ReadyToSend& rts, size_t size);
  static uint64_t eager_limit(uint32_t to, Peer& peer);
  void copy_payload(std::byte* room, const void* from, uint64_t bytes, uint32_t to, Peer& peer);
  void choose_limit(uint32_t to, Peer& peer);
  static void charge(Peer& peer, uint64_t bytes);
  void acknowledge(uint32_t to, uint64_t sender);
  void on_withdrawn(uint64_t sender);
  void on_drop(uint32_t source, const DropMapping& drop);
  static void end(Transfer& t);
  static void complete(Transfer& t);
  static void complete(Transfer& t, Error error);
  void matched(Transfer& t, uint32_t source, int rank, int tag, uint64_t bytes);

  // protocol/eager.cpp
  [[nodiscard]] bool fits_eager(const Transfer& t, Peer& peer) const;
  [[nodiscard]] static bool has_credit(uint32_t to, uint64_t bytes, Peer& peer);
  bool try_eager(Transfer& t);
  bool send_through_bar(Transfer& t, Peer& peer);
  void take_eager(Transfer& t, const std::byte* payload, size_t size) {
    if (!t.contiguous || size > t.bytes || device_side(t)) [[unlikely]]
      return take_odd_eager(t, payload, size);
    copy_small(t.data(), payload, size);
    complete(t);
  }
  void take_odd_eager(Transfer& t, const std::byte* payload, size_t size);
  void send_to_self(Transfer& t);

  // protocol/rendezvous.cpp
  void announce(Transfer& t);
  void start_rendezvous(Transfer& t, uint32_t source, const ReadyToSend& rts);
  void copy_from_self(Transfer& t, Transfer& sender);
  [[nodiscard]] bool readable(uint32_t source);
  bool get(Transfer& t, uint32_t source, const ReadyToSend& rts);
  bool get_host(Transfer& t, uint32_t source, const ReadyToSend& rts);
  bool get_host_to_device(Transfer& t, uint32_t source, const ReadyToSend& rts);
  Status get_scattered(Transfer& t, uint32_t source, const ReadyToSend& rts);
  Status get_part(Transfer& t, uint32_t source, uint64_t address, uint64_t offset, uint64_t n);
  void finish_sender(uint32_t source, uint64_t sender, uint8_t flags = 0);
  void on_finish(uint64_t sender, bool taken = false);
  void on_cancel(uint32_t source, const Reply& request);

  // protocol/staged.cpp
  void ask_fragments(Transfer& t, uint32_t source, const ReadyToSend& rts);
  void clear_to_send(Transfer& t, uint32_t source, uint64_t sender, uint8_t flags = 0);
  void on_clear_to_send(const ClearToSend& cts);
  bool stream(Transfer& t);
  void on_data(const Data& data, const std::byte* payload);
  void abort_stream(Transfer& t, Error error);
  void on_abort(Transfer& t);
  static void settle(Transfer& t);
  /// One fragment of at most `n` bytes at `offset`, filled in by fill(room, size), whose error makes it the
  /// last one. Returns its size; 0: no room.
  template <class Fill>
  size_t send_fragment(Transfer& t, uint64_t offset, uint64_t n, Fill&& fill) {
    Peer& peer = peers_[t.peer];
    if (blocked(peer)) return 0;
    const size_t size = std::min<uint64_t>(n, peer.transport->max_message(t.peer) - sizeof(Data));
    std::byte* room = peer.transport->reserve(t.peer, sizeof(Data) + size);
    if (room == nullptr) return 0;
    Data& data = *new (room) Data{};
    data.type = Type::data;
    data.length = static_cast<uint32_t>(size);
    data.receiver = t.remote;
    data.offset = offset;
    if (Status filled = fill(room + sizeof(Data), size); !filled) [[unlikely]] {
      data.flags = Data::kAborted;
      t.outcome = std::move(filled);
    }
    peer.transport->commit(t.peer, sizeof(Data) + size);
    return size;
  }

  // protocol/scratch.cpp
  struct Fetch {  // of a chunk
    device::Ticket ticket;
    Transfer* receiver;
    uint32_t source;
    ScratchChunk chunk;
    bool ahead = false;  // all of it, packed as we go
  };
  bool get_through_scratch(Transfer& t, uint32_t source, const ReadyToSend& rts);
  bool stream_scratch(Transfer& t);
  void offer(const Transfer& t, ScratchSend::Chunk& chunk);
  bool fail_scratch(Transfer& t, Error error);
  void on_scratch_ready(uint32_t source, const ScratchChunk& chunk);
  bool poll_fetches();
  void finish_fetch(const Fetch& fetch, Status outcome);
  void finish_through_scratch(Transfer& t);

  // protocol/ahead.cpp
  [[nodiscard]] static size_t append_ahead(Transfer& t, ReadyToSend& rts, std::byte* room);
  static void pack_ahead(Transfer& t);
  void settle_ahead(Transfer& t, bool taken);
  static bool release_ahead(Transfer& t);
  static void abandon_ahead(Transfer& t);
  bool follow_ahead(Transfer& t, uint32_t source, const ReadyToSend& rts);
  void finish_ahead(const Fetch& fetch, Status outcome);
  static void on_scratch_done(const ScratchChunk& chunk);

  // protocol/remote.cpp
  void announce_remote(Transfer& t);
  [[nodiscard]] bool pack_small(Transfer& t, Peer& peer);
  bool get_remote(Transfer& t, const ReadyToSend& rts);
  void decline(uint32_t source, const ReadyToSend& rts);
  void ask_offers(Transfer& t, uint64_t sender);
  void activate(Transfer& t);
  void activate_waiting();
  void pull(Transfer& t);
  void read(Transfer& t, uint64_t offset, size_t size, const Key& key, uint64_t key_offset,
            const KeyedChunk* offer);
  static void reading_done(transport::Completion& self, Status outcome);
  void arrived(Reading& reading, Status outcome);
  void drop_reading(Reading& reading);
  void finish_pull(Transfer& t);
  bool poll_pulls();
  void on_offer(Transfer& t, const KeyedChunk& offer);
  bool stream_offers(Transfer& t);
  Status fill_offerings(Transfer& t, bool& moved);
  Status tell_offer(Transfer& t, Offering& offering);
  bool fail_offers(Transfer& t, Error error);
  static void on_offer_fetched(Transfer& t, const ScratchChunk& chunk);

  // protocol/loss.cpp
  void cross(Transfer& t);
  void uncross(Transfer& t);
  [[nodiscard]] Status find_source(int rank, const core::Communicator& comm);
  [[nodiscard]] bool awaits_living(Transfer& t);
  void give_up(Transfer& t);
  void fail_posted(uint32_t peer);
  Error loss_of(uint32_t peer) const;

  // protocol/proof.cpp
  [[nodiscard]] bool direct(const device::Memory& memory, uint32_t peer);
  void start_proof(const device::Memory& memory, uint32_t peer);
  void on_proof_ask(uint32_t source, const Proof& ask);
  void on_proof_answer(uint32_t source, const Proof& answer);
  void on_proof_done(const Proof& done);
  static void proof_read(transport::Completion& self, Status outcome);
  void answer_proof(ProofHelp& help, Status outcome);
  void end_proof(DirectProof& proof, Status outcome);
  [[nodiscard]] std::string describe_direct() const;

  // protocol/device.cpp
  [[nodiscard]] static bool device_side(const Transfer& t) { return p2p::device_side(t.memory.kind); }
  [[nodiscard]] size_t append_region(Transfer& t, uint32_t to, ReadyToSend& rts, std::byte* room);
  [[nodiscard]] bool still_told(Transfer& t);
  [[nodiscard]] std::optional<size_t> append_resolved(Transfer& t, ReadyToSend& rts, std::byte* room);
  void remember_export(Transfer& t);
  transport::cuda_ipc::Mapping* mapped_before(const Transfer& t, uint32_t source, const ReadyToSend& rts);
  Result<size_t> append_export(const device::Memory& memory, uint32_t to, ReadyToSend& rts, std::byte* room);
  void learn_region(uint32_t source, const ReadyToSend& rts);
  static transport::cuda_ipc::RegionName name_of(const ReadyToSend& rts);
  const transport::cuda_ipc::Region* region_of(uint32_t source, const ReadyToSend& rts);
  static device::Memory mapping_side(const Transfer& t);
  void remember_mapping(const Transfer& t, uint32_t peer, const transport::cuda_ipc::RegionName& theirs,
                        transport::cuda_ipc::Mapping& mapping);
  [[nodiscard]] Result<transport::cuda_ipc::Mapping*> open_region(uint32_t source,
                                                                  const transport::cuda_ipc::Region& region,
                                                                  const Transfer& t);
  transport::cuda_ipc::Mapping* map_region(const Transfer& t, uint32_t source, const ReadyToSend& rts);
  [[nodiscard]] std::optional<size_t> append_strides(Transfer& t, uint32_t to, ReadyToSend& rts,
                                                     std::byte* room);
  bool get_strided(Transfer& t, uint32_t source, const ReadyToSend& rts);
  bool get_device(Transfer& t, uint32_t source, const ReadyToSend& rts);
  void device_self(Transfer& t, Transfer& sender);
  bool poll_device();
  void follow_uploads(Transfer& t);
  [[nodiscard]] bool holds() const;
  void submit_gets();
  [[nodiscard]] uint64_t under_way() const;
  [[nodiscard]] size_t joining(const Get* gets, size_t count) const;
  device::Lane next_lane(device::Lane first);
  void submit_get(const Get& get, device::Lane lane);
  void submit_batch(const Get* gets, size_t count, device::Lane lane);
  void finish_get(const Get& get, Status outcome);
  void finish_receiver(const Get& get, Status outcome);
  void finish_copy(DeviceCopy& copy, Status outcome);
  void finish_senders(const DeviceCopy& copy);
  void sweep_exports();

  // protocol/put.cpp
  void show(Transfer& t);
  [[nodiscard]] bool may_show(const Transfer& t) const;
  [[nodiscard]] bool show_allocation(Transfer& t, const device::Memory& memory, uint32_t to);
  [[nodiscard]] bool take_back(Transfer& t);
  void hide(Transfer& t);
  [[nodiscard]] Transfer* take_posted(const match::Key& key) {
    for (;;) {
      auto* t = static_cast<Transfer*>(posted_.take(key));
      if (t == nullptr || t->shown == 0 || is_ours(*t)) [[likely]]
        return t;
    }
  }
  [[nodiscard]] bool is_ours(Transfer& t);
  bool poll_shown();
  void finish_shown(Transfer& t, uint64_t state);
  [[nodiscard]] bool put(Transfer& t, Peer& peer);
  [[nodiscard]] static uint64_t open_receive(const transport::shm::ReadyToReceive& ready,
                                             const match::Key& key, const Transfer& t, const Peer& peer);
  transport::cuda_ipc::Mapping* map_target(const Transfer& t, const transport::shm::ReadyToReceive& ready);
  [[nodiscard]] bool holds_puts();
  void end_put_row();
  void submit_puts();
  void finish_put(const Get& put, Status outcome);
  void end_puts();

  // protocol/aside.cpp
  struct Aside {  // of a receive that is shown and cannot be mapped: where its sender writes, and what then
    enum class Stage : uint8_t { open, following, late, copying, done };
    ScratchPool::Area* area = nullptr;  // null: the sender writes into the receive itself
    uint32_t number = 0, count = 0;     // chunks
    uint64_t epoch = 0;
    Stage stage = Stage::open;
    device::Ticket unpacked{};
    Status outcome;
  };
  [[nodiscard]] bool reserve_aside(const Transfer& t, Aside& aside);
  static void show_aside(const Aside& aside, transport::shm::ReadyToReceive& ready);
  [[nodiscard]] bool follow_aside(const Transfer& t, Aside& aside, uint64_t bytes);
  void copy_aside(const Transfer& t, Aside& aside, uint64_t bytes);
  [[nodiscard]] bool look_aside(Aside& aside);
  [[nodiscard]] bool move_aside(Transfer& t, Aside& aside, uint64_t state);
  static void release_aside(Aside& aside);
  void submit_aside(const Get& put, device::Lane lane);
  void count_sent(Peer& peer, const match::Key& key) {
    ++peer.sent;
    if (peer.sent_at) [[unlikely]]
      note_sent(peer, key);
  }
  static void note_sent(Peer& peer, const match::Key& key);

  // protocol/device_staged.cpp
  void device_eager(Transfer& t, const std::byte* payload, size_t size);
  bool stream_device(Transfer& t);
  bool offer(Transfer& t, unsigned number);
  bool stream_unpinned(Transfer& t);
  void read_offer(Transfer& t, uint32_t source, const ScratchChunk& chunk);
  static void on_offer_done(Transfer& t, const ScratchChunk& chunk);
  void device_data(Transfer& t, uint64_t offset, const std::byte* payload, size_t size);
  bool poll_starved();
  bool lease(Transfer& t, int chunk);
  Status upload(Transfer& t, Staging::Chunk& chunk, uint64_t offset, size_t n);

  std::unique_ptr<transport::shm::Shm> shm_;         // null: alone on this host
  std::unique_ptr<transport::Directory> directory_;  // of the network
  std::unique_ptr<transport::Network> network_;      // null: all on one host
  Sparse<Peer> peers_;
  std::vector<uint32_t> backlog_;     // peers with pending messages
  std::vector<Transfer*> streaming_;  // sends of fragments under way
  match::Posted posted_;
  match::Unexpected unexpected_;
  std::vector<Get> gets_;   // matched, not submitted yet
  std::vector<Get> round_;  // being submitted
  std::vector<Get> puts_;   // that have their receives, not submitted yet
  bool together_ = false;   // more of them are being started
  struct PutRow {           // of them, posted one right after the other
    uint32_t now = 0, last = 0, before = 0;
    uint64_t at = 0;    // ns, the end of the latest
    bool quick = true;  // so far
  } put_row_;
  bool collecting_ = false;  // more may come at once: gets wait for submit_gets()
  std::deque<DeviceCopy> copies_;
  Transfer* witness_[2] = {};   // the last active send and receive in memory that cuMemAlloc made
  std::deque<SentAt> sent_at_;  // of the peers whose receives were looked at
  std::array<Transfer*, transport::shm::kReadies> shown_{};  // receives that their senders see, by place
  uint32_t showing_ = 0;                                     // bits of these places
  std::array<Aside, transport::shm::kReadies> asides_{};     // by place, too
  struct {
    uint64_t shown = 0, taken_back = 0;         // receives
    uint64_t puts = 0, waits = 0, in_vain = 0;  // sends; waits for a receive to be shown
  } put_counters_;
  std::vector<Starved> starved_;
  ScratchPool scratch_;
  std::vector<Fetch> fetches_;
  // Kernels that wait for data of a sender. More could fill the GPU, and keep its own packing from it.
  static constexpr uint32_t kFollowing = 2;
  uint32_t following_ = 0;
  bool posting_ = false;  // a receive is being posted: look at copies now and then only
  uint32_t posts_ = 0, looks_ = 0;
  struct Row {  // receives into device memory, posted one after the other
    uint32_t now = 0, last = 0;
    static constexpr uint32_t kLeast = 8;  // that make a row
  } row_;
  /// A receive is being posted, probably in such a row.
  [[nodiscard]] bool in_row() const { return posting_ && row_.last >= Row::kLeast; }
  uint32_t staged_receives_ = 0;  // that hold pinned chunks
  uint32_t sends_since_sweep_ = 0, looks_for_unmapped_ = 0;
  uint64_t next_release_ = 0;  // ns
  size_t exported_ = 0;        // allocations known to peers at the last sweep
  bool odd_copy_ = false;
  std::unique_ptr<transport::cuda_ipc::Exporter> exporter_;
  std::unique_ptr<transport::cuda_ipc::Importer> importer_;
  Transfer* crossings_ = nullptr;  // all transfers with other hosts, that the engine knows by address only
  std::vector<Transfer*> pulls_;   // receives that hold rooms
  std::deque<Transfer*> waiting_pulls_;                   // and those that will
  std::vector<std::pair<uint32_t, std::string>> losses_;  // why peers were lost
  std::vector<std::unique_ptr<DirectProof>> proofs_;      // by device
  std::vector<std::unique_ptr<ProofHelp>> proof_helps_;
  uint32_t network_rounds_ = 0;  // since the network was polled last
};

}  // namespace weft::p2p
