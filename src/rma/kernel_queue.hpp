// SPDX-License-Identifier: BSD-3-Clause
// KernelQueue: executes what kernels request of targets on other hosts (weft_device_queue.cuh, ADR 0061). The
// process reads the records, sends small puts as messages, starts operations of transport/rma and accumulate
// operations for the others, and writes replies. It never waits for a kernel.
// Threading: under the instance lock; the kernels write and read pinned memory at the same time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/instance.hpp"
#include "device/stream.hpp"
#include "rma/messages.hpp"
#include "weft_device.cuh"

namespace weft::rma {

class KernelQueue final : private core::Poller {
 public:
  /// `status`: of the window, in pinned memory; it outlives the queue. Errc::unsupported, with the rank, if a
  /// network cannot carry the largest record.
  [[nodiscard]] static Result<std::unique_ptr<KernelQueue>> create(Window& window,
                                                                   const device::UserStream& gpu,
                                                                   device::abi::WindowStatus& status);
  ~KernelQueue() override;
  KernelQueue(const KernelQueue&) = delete;
  KernelQueue& operator=(const KernelQueue&) = delete;

  /// A request or message of kernels has been executed: the progress thread expects more.
  void note_event() const;
  /// The part of the ring that the kernels keep in GPU memory.
  [[nodiscard]] device::abi::Queue initial() const;
  /// Waits until all that kernels have requested of `rank` is complete there. The error of a failed process
  /// or a revoked window; Errc::other if the target could not execute a put.
  [[nodiscard]] Status settle(int rank);
  /// A rank has failed: requests of it end.
  void lose(int rank, const Error& why);
  /// The window is revoked: no request begins any more, and requests that wait for messages end.
  void abandon(const Error& why);
  /// Pinned memory for the one accumulate operation of a peer that kernels execute on the window's memory.
  static constexpr size_t kStagingBytes = 3 * AccumulateMessage::kMaxBytes;
  [[nodiscard]] std::byte* staging() const { return staging_; }
  /// Number of requests in flight.
  [[nodiscard]] size_t pending() const { return requests_.live(); }
  /// A rank has received all messages of the queue before the flush `number`.
  /// `failed`: it could not execute one of them, now or earlier.
  void flushed(int rank, uint64_t number, bool failed);

 private:
  using Record = device::abi::QueueRecord;
  struct Request final : transport::Completion {
    KernelQueue* queue;
    Record record;
    int rank;
    uint64_t number;                 ///< in the order of creation
    uint64_t value = 0;              ///< result of a get into the reply, or of an atomic operation
    Operation* operation = nullptr;  ///< atomic operation
    bool flushes = false;            ///< device::flush_remote_writes() before the answer
    uint64_t flush = 0;              ///< number of the flush message that is to be answered
    uint64_t confirms = 0;           ///< Lane::sent at that message
    Request* group = nullptr;        ///< a flush of all hosts, of which this one is a part
    unsigned parts = 0;              ///< of such a flush, in flight
  };
  /// State for one target.
  struct Lane {
    std::deque<std::vector<std::byte>> backlog;  ///< messages without capacity in the transport, in order
    size_t pending = 0;                          ///< requests
    uint64_t sent = 0;                           ///< puts and signals by message
    uint64_t confirmed = 0;                      ///< of those, executed at the target
    bool failed = false;                         ///< the target could not execute one of those
    [[nodiscard]] bool unflushed() const { return sent != confirmed; }
  };

  KernelQueue(Window& window, const device::UserStream& gpu, device::abi::WindowStatus& status);
  bool poll() override;
  /// Whether a kernel has written the record.
  [[nodiscard]] bool written(uint64_t position) const;
  template <class Done>
  void wait_for(int rank, Done&& done);
  [[nodiscard]] bool take(const Record& record, const std::byte* payload);
  void put(const Record& record);
  void get(const Record& record);
  void update(const Record& record);
  /// Ends a request that the network has refused, or executed at once.
  void issued(Request& request, Result<transport::rma::Issued> outcome);
  /// The request for which matches(request) holds; null: none.
  template <class Matches>
  [[nodiscard]] Request* find(Matches&& matches);
  void flush(const Record& record);
  void flush_rank(int rank, Request* group, uint64_t reply);
  void send_put(int rank, const Record& record, const std::byte* payload);
  void send(int rank, const std::byte* header, size_t header_bytes, const std::byte* payload, size_t bytes);
  [[nodiscard]] bool send_now(int rank, const std::byte* header, size_t header_bytes,
                              const std::byte* payload, size_t bytes);
  [[nodiscard]] bool send_backlog(int rank);
  Request* create(const Record& record, int rank);
  void finish(Request& request, Status outcome);
  void reply(uint64_t number, uint64_t value, device::Error error);
  void report(int rank, device::Error error);
  void observe_waits();
  void publish_wait(uint64_t now);
  [[nodiscard]] Status usable(int rank) const;
  /// Outcome of the messages that the rank has confirmed.
  [[nodiscard]] Status outcome_of(int rank) const;
  [[nodiscard]] Peer& peer(int rank) const { return window_.peers[static_cast<size_t>(rank)]; }

  Window& window_;
  device::UserStream gpu_;
  device::abi::WindowStatus& status_;
  // One piece of pinned memory: payload, records, replies, the word of records read, and staging memory.
  std::byte* payload_ = nullptr;
  Record* records_ = nullptr;
  device::abi::QueueReply* replies_ = nullptr;
  uint64_t* read_word_ = nullptr;
  uint64_t read_ = 0;             ///< records taken
  std::vector<uint64_t> newest_;  ///< for each slot: number of the newest reply that was asked for
  std::vector<Lane> lanes_;       ///< by rank
  size_t backlogs_ = 0;           ///< lanes with a backlog
  uint64_t flushes_ = 0;          ///< number of flush messages
  uint64_t created_ = 0;          ///< number of requests
  Slab<Request> requests_{size_t{1} << 20};
  bool abandoned_ = false;
  bool counted_ = false;  ///< by the progress thread
  // Waits of kernels, for `weft hang`.
  uint32_t waits_seen_ = 0;                ///< WindowStatus::waits
  core::Operands waited_for_;              ///< what the wait is for
  uint64_t looked_ns_ = 0, waits_ns_ = 0;  ///< last look, last change of `waits`
  uint64_t waiting_since_ns_ = 0;          ///< 0: no kernel waits
  wait_table::Record* record_ = nullptr;   ///< of the published wait
  std::byte* staging_ = nullptr;
};

}  // namespace weft::rma
