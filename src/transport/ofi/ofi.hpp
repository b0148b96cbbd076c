// SPDX-License-Identifier: BSD-3-Clause
// libfabric network: tagged messages of one RDM endpoint, received into a pool of posted buffers (the tag
// names the sender); bulk data by RMA read and write, large ones striped among the endpoints of several
// adapters; peer failures by heartbeat reads. Threading: as transport.hpp; progress happens in poll() and
// close() only, never within a delivery.
#pragma once
#include <array>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/slab.hpp"
#include "launch/job_id.hpp"
#include "transport/generations.hpp"
#include "transport/network.hpp"
#include "transport/ofi/adapters.hpp"
#include "transport/ofi/buffer_pool.hpp"
#include "transport/ofi/connection.hpp"
#include "transport/ofi/endpoint.hpp"
#include "transport/ofi/get.hpp"
#include "transport/ofi/registration.hpp"

namespace weft::transport::ofi {

/// Value of the setting net.ofi_max_reads.
[[nodiscard]] size_t max_reads();

class Ofi final : public Network {
 public:
  /// Opens libfabric and an endpoint for each adapter; an error with the reason if libfabric cannot be used.
  [[nodiscard]] static Result<std::unique_ptr<Network>> open(const launch::Job& job);
  ~Ofi() override { close(); }

  [[nodiscard]] const char* name() const override { return "ofi"; }
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::string address() const override { return published_address_; }
  void start(Directory& directory) override { directory_ = &directory; }

  [[nodiscard]] size_t max_message(Peer) override { return sends_.bytes() - kPrefix; }
  [[nodiscard]] std::byte* reserve(Peer peer, size_t size) override;
  void commit(Peer peer, size_t size) override;
  size_t poll(Receiver& receiver, size_t limit) override;

  [[nodiscard]] bool supports(const device::Memory& memory) const override;
  [[nodiscard]] Result<Registered> register_buffer(Peer peer, const Buffer& buffer, std::byte* rkey,
                                                   Access access) override;
  void deregister(uint64_t id) override;
  void get(Peer peer, const Buffer& local, std::span<const std::byte> rkey, uint64_t offset,
           Completion& done) override;
  void put(Peer peer, const Buffer& local, std::span<const std::byte> rkey, uint64_t offset,
           Completion& done) override;
  void watch(Peer peer) override { connection(peer); }
  void lose(Peer peer) override {
    mark_lost(connection(peer), Error(Errc::proc_aborted, "process " + std::to_string(peer) + " has failed"),
              FoundBy::others);
  }
  [[nodiscard]] bool remove(Peer peer) override;
  void send_disconnects() override;
  [[nodiscard]] bool left(Peer peer) const override {
    if (peer == kNoPeer) return sends_.in_use() == outstanding_to_lost_ + (reserved_ != nullptr ? 1 : 0);
    const Connection* const to = peer < by_peer_.size() ? by_peer_[peer].get() : nullptr;
    return to == nullptr || to->state == Connection::State::lost ||
           (to->outstanding == 0 && to->unsent.empty());
  }
  void close() override;

 private:
  enum class FoundBy : uint8_t { libfabric, others };
  struct Losing {  // a peer that others have found dead, while libfabric may hold reads from it
    const Connection* connection;
    Error why;
    uint64_t deadline;  // ns; its gets end then
  };
  struct FinishedGet {  // its completion is fired by poll()
    Completion* done;
    Status outcome;
  };

  /// Before each message. Large messages may complete after later small ones, hence the number.
  struct Prefix {
    Secret secret;
    uint64_t number;  // in the sequence of messages to this process, with generation
    uint64_t job;     // JobId::tag() of the sender's job
  };
  static constexpr size_t kPrefix = sizeof(Prefix);
  // Bits of the tag: a disconnect notice, which a byte follows if its sender awaits an answer; the answer,
  // with Connection::received; in addition to the first: the sender has left the job.
  static constexpr uint64_t kDisconnect = uint64_t{1} << 32, kAnswer = uint64_t{1} << 33,
                            kLeft = uint64_t{1} << 34;

  Ofi(const launch::Job& job, Adapters adapters);
  Status prepare();

  // first_contact.cpp
  Connection& connection(Peer peer);
  [[nodiscard]] bool connect(Connection& connection);
  [[nodiscard]] Status resolve(Connection& connection);

  // ofi.cpp
  [[nodiscard]] bool try_send(Connection& connection, MessageBuffer& message);
  void flush();
  void post(MessageBuffer& message);
  size_t progress(Receiver* receiver, size_t limit);
  size_t drain_completions(Endpoint& endpoint, Receiver* receiver, size_t limit);
  size_t complete(const abi::CqEntry& entry, Receiver* receiver);
  size_t on_receive(const abi::CqEntry& entry, Receiver& receiver);
  void deliver_next(Connection& from, uint64_t tag, std::span<const std::byte> content, Receiver& receiver);
  void prepare(const Connection& to, MessageBuffer& message, size_t size, uint64_t flags) const;
  void enqueue(Connection& to, MessageBuffer& message, size_t size, uint64_t flags);
  void on_send_complete(MessageBuffer& message);
  void on_send_failure(MessageBuffer& message, const std::string& why);
  bool handle_cq_error(Endpoint& endpoint);
  void mark_lost(Connection& connection, Error why, FoundBy found_by = FoundBy::libfabric);
  void report_events(Receiver& receiver);

  // disconnect.cpp
  void send_disconnect(Connection& connection);
  void finish() override;
  void send_answers();

  // other_jobs.cpp
  Connection* source_of(const Prefix& prefix, const abi::CqEntry& entry, Receiver& receiver);

  // rma.cpp
  void start(bool writes, Peer peer, const Buffer& local, std::span<const std::byte> rkey, uint64_t offset,
             Completion& done);
  void start_reads();
  [[nodiscard]] bool start_reads(Connection& from);
  bool start_read(Get& get);
  void finish_read(Read* read, Status outcome);
  void finish_get(Get* get);
  void complete_get(Get* get);
  void abort_gets(const Connection& connection, const Error& why);
  void complete_deferred_gets(Connection& connection);
  void write_off_reads(Connection& connection);

  // heartbeat.cpp
  void check_peers();
  void send_heartbeat(Connection& connection);
  [[nodiscard]] bool verify_peer(AdapterPair& pair);
  void probe_listener(AdapterPair& pair);
  bool check_process(Connection& connection);
  void on_heartbeat(AdapterPair& pair);
  void on_heartbeat_failure(AdapterPair& pair, std::string why);

  const Peer self_, job_size_;
  const uint32_t job_tag_;
  const uint64_t net_namespace_;
  std::string provider_, published_address_;
  Secret secret_ = 0;
  bool over_tcp_ = false;   // peers listen on a TCP address
  bool in_memory_ = false;  // provider shm: does not report the death of a peer
  Directory* directory_ = nullptr;
  Adapters adapters_;
  Receiver* closing_ = nullptr;  // while finish() runs: discards messages
  Endpoint* endpoint_;           // of the nearest adapter, for all messages; null after close()
  Registrations remote_registrations_, writable_registrations_, local_registrations_;
  BufferPool sends_, receives_;
  MessageBuffer* reserved_ = nullptr;
  size_t outstanding_to_lost_ = 0;        // sends to lost peers still held by libfabric, ignored by idle()
  std::vector<MessageBuffer*> unposted_;  // receives to post again after -EAGAIN
  std::vector<abi::CqEntry> stored_;      // messages received while send_disconnects() flushed
  std::vector<std::unique_ptr<Connection>> by_peer_;
  Generations generations_;
  std::vector<Connection*> connections_;  // all in by_peer_, in order of creation
  std::vector<Connection*> backlog_;      // with unsent messages
  std::vector<Connection*> unanswered_;   // whose disconnect notices get an answer
  std::vector<std::pair<Peer, Error>> losses_;
  std::vector<FinishedGet> finished_, reporting_;

  std::deque<Read> reads_;
  std::vector<Read*> free_reads_;
  size_t outstanding_reads_ = 0;     // of all Connection::reads
  std::deque<Connection*> waiting_;  // with gets whose reads are still to be issued
  std::vector<Get*> gets_;
  Slab<Get> get_slab_{1 << 18};
  size_t max_read_bytes_;       // largest RMA read
  size_t reads_by_others_ = 0;  // outstanding, not by the nearest adapter
  uint32_t progress_calls_ = 0;

  std::vector<Connection*> suspects_;
  std::vector<Losing> losing_;
  uint32_t polls_ = 0;
  int64_t next_heartbeat_ms_ = 0;
  size_t next_checked_ = 0;  // index into connections_
};

/// Entry in select/table.cpp.
[[nodiscard]] inline Result<std::unique_ptr<Network>> open(const launch::Job& job) { return Ofi::open(job); }

}  // namespace weft::transport::ofi
