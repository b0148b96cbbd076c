// SPDX-License-Identifier: BSD-3-Clause
// KernelQueue: executes what kernels request of targets on other hosts (weft_device_queue.cuh, ADR 0061). The
// process reads the records, sends puts as messages, starts operations of transport/rma and accumulate
// operations for the others, and writes replies. It never waits for a kernel.
// Threading: under the instance lock; the kernels write and read pinned memory at the same time.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
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
  /// Whether blocks put data for a target on another host into stages: its network does not access GPU
  /// memory, so the data pass the CPU in any case.
  [[nodiscard]] static bool stages(const Peer& target);
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
  static constexpr size_t kMaxHeader = std::max(sizeof(KernelPutMessage), sizeof(KernelFlushMessage));
  /// A message, whose data are those of a record, or a put from its buffer.
  struct Outgoing {
    std::array<std::byte, kMaxHeader> header;
    size_t header_bytes;
    const std::byte* data;
    size_t bytes;
    uint64_t position;       ///< of the record; without meaning if there are no data
    Request* put = nullptr;  ///< the put
  };
  /// State for one target.
  struct Lane {
    std::deque<Outgoing> backlog;  ///< messages without capacity in the transport and puts behind them
    size_t pending = 0;            ///< requests
    uint64_t sent = 0;             ///< puts and signals by message
    uint64_t confirmed = 0;        ///< of those, executed at the target
    uint64_t flush = 0;            ///< number of the last flush message
    uint64_t asked = 0;            ///< `sent` at that message
    bool failed = false;           ///< the target could not execute one of those
    [[nodiscard]] bool unflushed() const { return sent != confirmed; }
  };

  KernelQueue(Window& window, const device::UserStream& gpu, device::abi::WindowStatus& status);
  bool poll() override;
  /// Whether a kernel has written the record.
  [[nodiscard]] bool written(uint64_t position) const;
  [[nodiscard]] const std::byte* data_of(const Record& record, uint64_t position) const;
  template <class Done>
  void wait_for(int rank, Done&& done);
  uint64_t take(uint64_t position);
  void free_records();
  void put(const Record& record);
  void start_put(Request& request);
  void get(const Record& record);
  void update(const Record& record);
  /// Ends a request that the network has refused, or executed at once.
  void issued(Request& request, Result<transport::rma::Issued> outcome);
  /// The request for which matches(request) holds; null: none.
  template <class Matches>
  [[nodiscard]] Request* find(Matches&& matches);
  void flush(const Record& record);
  void flush_rank(int rank, Request* group, uint64_t reply);
  void send_put(const Record& record, const std::byte* data, uint64_t position);
  void send(int rank, std::span<const std::byte> header, const std::byte* data = nullptr, size_t bytes = 0,
            uint64_t position = 0);
  [[nodiscard]] bool send_now(int rank, const Outgoing& message);
  [[nodiscard]] bool send_backlog(int rank);
  [[nodiscard]] Request* drop_first(Lane& lane);
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
  // One piece of pinned memory: payload, records, replies, the word of records read, staging memory, stages.
  std::byte* payload_ = nullptr;
  Record* records_ = nullptr;
  device::abi::QueueReply* replies_ = nullptr;
  uint64_t* read_word_ = nullptr;
  std::byte* stages_ = nullptr;   ///< null: no target takes them
  uint64_t taken_ = 0;            ///< records taken
  uint64_t read_ = 0;             ///< of those, the first ones, whose data are sent: kernels may write there
  std::vector<uint8_t> unsent_;   ///< for each slot: messages with the record's data in a backlog
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
