// SPDX-License-Identifier: BSD-3-Clause
// State of the UCX network; members are grouped by file: ucx.cpp (start, progress), connection.cpp,
// messages.cpp, disconnect.cpp (notices at the end, close), get.cpp, put.cpp. UCX callbacks run only within
// progress() and never call it.
#pragma once
#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "launch/job_id.hpp"
#include "transport/generations.hpp"
#include "transport/network.hpp"
#include "transport/ucx/connection.hpp"
#include "transport/ucx/library.hpp"

namespace weft::transport::ucx {

inline constexpr size_t kMaxMessageBytes = (size_t{64} << 10) + 64;  ///< eager payload of 64 KiB plus header
inline constexpr uint64_t kNsPerSecond = 1'000'000'000;

/// Returns the number of the buffer that an rkey names.
[[nodiscard]] inline uint64_t buffer_id_in(std::span<const std::byte> rkey) {
  uint64_t buffer_id = 0;
  std::memcpy(&buffer_id, rkey.data(), std::min(rkey.size(), sizeof buffer_id));
  return buffer_id;
}

class Ucx final : public Network {
 public:
  Ucx(const Library& library, const launch::Job& job)
      : api_(library),
        self_(static_cast<Peer>(job.rank)),
        job_size_(static_cast<Peer>(job.size)),
        job_tag_(launch::JobId::of(job.id).tag()),
        connections_(static_cast<size_t>(job.size)) {}
  ~Ucx() override { close(); }
  [[nodiscard]] Status create(const launch::Job& job);

  [[nodiscard]] const char* name() const override { return "ucx"; }
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::string address() const override { return address_; }
  void start(Directory& directory) override { directory_ = &directory; }

  [[nodiscard]] size_t max_message(Peer) override { return kMaxMessageBytes; }
  [[nodiscard]] std::byte* reserve(Peer peer, size_t size) override;
  void commit(Peer peer, size_t size) override;
  size_t poll(Receiver& receiver, size_t limit) override;

  [[nodiscard]] bool supports(const device::Memory& memory) const override {
    return memory.kind == device::MemoryKind::cuda_device && (memory_types_ >> api::kCuda & 1) != 0;
  }
  /// UCX's memory type. Managed memory is host memory for a UCX that does not know it.
  [[nodiscard]] int type_of(const device::Memory& memory) const {
    if (memory.kind == device::MemoryKind::cuda_managed && (memory_types_ >> api::kCudaManaged & 1) != 0)
      return api::kCudaManaged;
    WEFT_ASSERT(!memory.on_device() || supports(memory));
    return memory.on_device() ? api::kCuda : api::kHost;
  }
  [[nodiscard]] Result<Registered> register_buffer(Peer peer, const Buffer& buffer, std::byte* rkey,
                                                   Access access) override;
  void send_rts(Peer peer, size_t size, uint64_t id) override;
  void discard_rts(Peer peer, std::span<const std::byte> rkey) override;
  void deregister(uint64_t id) override { registrations_.erase(id); }
  [[nodiscard]] bool receiving(uint64_t id) const override;
  void get(Peer peer, const Buffer& local, std::span<const std::byte> rkey, uint64_t offset,
           Completion& done) override;
  void put(Peer peer, const Buffer& local, std::span<const std::byte> rkey, uint64_t offset,
           Completion& done) override;
  void watch(Peer peer) override;
  void lose(Peer peer) override;
  [[nodiscard]] bool remove(Peer peer) override;
  [[nodiscard]] bool left(Peer peer) const override {
    if (peer == kNoPeer) return outstanding_bytes_ == 0;
    const Connection* const to = peer < connections_.size() ? connections_[peer].get() : nullptr;
    return to == nullptr || to->outstanding_bytes == 0 || to->state != Connection::State::open;
  }
  void send_disconnects() override;
  void close() override;

 private:
  struct Registration {
    Peer peer;
    Buffer buffer;
    Access access;
  };
  struct FinishedOperation {
    Completion* done;
    Status outcome;
  };

  [[nodiscard]] Error failure(const char* what, api::Code code) const {
    return Error(Errc::other, std::string(what) + " failed (" + api_.ucs_status_string(code) + ")");
  }
  [[nodiscard]] Status create_context(const launch::Job& job);
  [[nodiscard]] Status create_worker();
  [[nodiscard]] Status register_handlers();

  Connection& connection_of(Peer peer);
  /// Returns the sender of a message; null: unknown.
  Connection* source_of(uint32_t job, uint32_t rank) {
    if (job == 0) [[likely]]
      return rank < job_size_ ? &connection_of(rank) : nullptr;
    return source_in_other_job(job, rank);
  }
  Connection* source_in_other_job(uint32_t job, uint32_t rank);
  [[nodiscard]] bool in_generation(Connection* connection, const MessageHeader& head, const void* data,
                                   size_t size);
  /// The tag by which this process names its job to a peer.
  [[nodiscard]] uint32_t job_for(Peer peer) const { return peer < job_size_ ? 0 : job_tag_; }
  bool connect(Connection& connection);
  [[nodiscard]] Status open_endpoint(Connection& connection);
  [[nodiscard]] bool transports_report_failures();
  void fail(Connection& connection, std::string reason);
  void finish_failure(Connection& connection, Receiver& receiver);
  void close_endpoint(Connection& connection);
  void close(api::Endpoint endpoint, bool by_force);
  [[nodiscard]] bool messages_ended(Connection& connection);

  SendBuffer* acquire_send_buffer(Connection& connection, size_t capacity);
  void release_send_buffer(SendBuffer* buffer);
  void send(SendBuffer* buffer, unsigned id, size_t head_size, const void* data, size_t size, uint32_t flags,
            int type);
  void assign_sequence(SendBuffer& buffer);
  void send_disconnect(Connection& connection);
  void finish() override;
  void send_answers();

  /// Copies the header of an active message; false: too short, or without the secret of this process.
  template <class Head>
  [[nodiscard]] bool is_authentic(const void* header, size_t size, Head& head) const {
    Secret secret = 0;  // every header begins with it
    if (size >= sizeof head) {
      std::memcpy(&head, header, sizeof head);
      std::memcpy(&secret, header, sizeof secret);
      if (secret == secret_) [[likely]]
        return true;
    }
    foreign_messages.add();
    return false;
  }
  /// The part of an active message behind its header.
  struct Arrival {
    std::span<const std::byte> rest;  ///< of UCX's header
    void* data;                       ///< rendezvous: UCX's descriptor
    size_t size;
    bool rendezvous;
  };
  template <class Head, api::Code (Ucx::*Method)(const Head&, const Arrival&)>
  static api::Code handle(void* self, const void* header, size_t header_size, void* data, size_t size,
                          const api::AmReceiveParameters* parameters);
  api::Code on_message(const MessageHeader& head, const Arrival& arrival);
  void take_message(Connection& connection, const MessageHeader& head, const void* data, size_t size);
  api::Code on_answer(const AnswerHeader& answer, const Arrival& arrival);
  api::Code on_rts(const RtsHeader& head, const Arrival& arrival);
  api::Code on_get_request(const RmaRequest& request, const Arrival& arrival);
  api::Code on_get_reply(const RmaReply& head, const Arrival& arrival);
  Operation* start(Peer peer, const Buffer& local, Completion& done);
  api::Code on_put_request(const RmaRequest& request, const Arrival& arrival);
  api::Code on_put_reply(const RmaReply& head, const Arrival& arrival);
  void finish_put(IncomingPut& incoming, bool good);
  void reply_put(Peer to, uint64_t put, bool good);
  [[nodiscard]] std::optional<Buffer> registered(const RmaRequest& request, Peer peer, Access access) const;
  [[nodiscard]] Status copy_to(const Buffer& target, const Arrival& arrival) const;
  void* receive_data(void* descriptor, const Buffer& target, api::ReceiveCallback done, void* user);
  void deliver(Connection& connection, uint32_t kind, const std::byte* data, size_t size);
  void deliver_in_order(Connection& connection);
  void receive(Operation& get, void* descriptor);
  std::optional<PendingRts> take_rts(Connection& connection, uint64_t buffer_id);
  void release(void* descriptor);
  [[nodiscard]] bool begin_gpu_operation(const device::Memory& memory);
  void send_bulk(SendBuffer* buffer, unsigned id, size_t head_size, const Buffer& data);
  void release_pending_rts(Connection& connection);
  void complete(Operation& get, Status outcome);
  void fire_completions();
  unsigned progress();

  static void on_sent(void* request, api::Code status, void* user);
  static void on_received(void* request, api::Code status, size_t length, void* user);
  static void on_put_received(void* request, api::Code status, size_t length, void* user);
  static void on_error(void* argument, api::Endpoint endpoint, api::Code status);

  const Library& api_;
  const Peer self_, job_size_;
  const uint32_t job_tag_;
  Directory* directory_ = nullptr;
  api::Context context_ = nullptr;
  api::Worker worker_ = nullptr;
  std::string address_;
  Secret secret_ = 0;
  uint64_t memory_types_ = 0;
  bool peer_errors_ = true;
  bool reports_failures_ = false;  // transports_report_failures() has said so
  std::vector<std::unique_ptr<Connection>> connections_;
  Generations generations_;
  std::vector<Connection*> failing_, ready_;  // ready: with stored messages to deliver
  std::vector<Connection*> unanswered_;       // whose disconnect notices get an answer
  bool closing_ = false;                      // no completion fires
  std::vector<SendBuffer*> free_buffers_[2];  // small, large
  SendBuffer* reserved_ = nullptr;
  size_t outstanding_bytes_ = 0;  // of committed messages still held by UCX
  uint64_t last_buffer_id_ = 0, last_operation_ = 0;
  std::unordered_map<uint64_t, Registration> registrations_;
  std::unordered_map<uint64_t, std::unique_ptr<Operation>> operations_;  // and puts
  std::unordered_map<uint64_t, std::unique_ptr<IncomingPut>> incoming_puts_;
  std::vector<FinishedOperation> finished_;  // completions fired by poll()
  Receiver* receiver_ = nullptr;             // non-null during poll()
  Receiver* owner_ = nullptr;                // the receiver of the last poll()
  size_t delivered_ = 0;                     // messages in this poll()
  void* current_descriptor_ = nullptr;       // of the running callback; UCX releases it
  size_t max_am_header_ = 0;                 // largest active message header, in bytes
  device::Memory gpu_;                       // most recently used GPU memory
  uint32_t gpu_operations_ = 0;              // outstanding
  std::vector<std::byte> aligned_copy_;      // for messages that UCX delivers unaligned
};

}  // namespace weft::transport::ucx
