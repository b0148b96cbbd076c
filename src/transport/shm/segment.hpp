// SPDX-License-Identifier: BSD-3-Clause
// Segment: the shared memory of the ranks of one host, a memfd created by local rank 0 and passed over a unix
// socket. It has no name in a file system, no /dev/shm limit, and disappears with its last process.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "launch/job_id.hpp"
#include "transport/shm/layout.hpp"

namespace weft::transport::shm {

/// Listening socket from which local ranks receive the segment; local rank 0 creates it before the exchange.
class Server {
 public:
  Server() = default;
  Server(Server&& other) noexcept;
  Server& operator=(Server&& other) noexcept;
  ~Server();
  /// Creates the segment and listens under name().
  [[nodiscard]] static Result<Server> create(uint32_t ranks);
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Sends the segment to `ranks - 1` processes of this user; an error if none connects for `timeout_ms`, or
  /// that of `check`, which is called while it waits.
  [[nodiscard]] Status serve(int timeout_ms, const std::function<Status()>& check);
  /// Passes the descriptor of the segment to the caller.
  [[nodiscard]] int release_memory() { return std::exchange(memory_, -1); }

 private:
  int listener_ = -1, memory_ = -1;
  uint32_t ranks_ = 0;
  std::string name_;
};

class Segment {
 public:
  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();
  /// Takes over the descriptor.
  [[nodiscard]] static Result<Segment> map(int memory, uint32_t ranks);
  /// Connects to the Server of that name and maps the segment it sends.
  [[nodiscard]] static Result<Segment> attach(const std::string& name, uint32_t ranks, int timeout_ms);
  [[nodiscard]] Header& header() const { return *static_cast<Header*>(base_); }
  [[nodiscard]] Area& area(uint32_t local_rank) const {
    return reinterpret_cast<Area*>(static_cast<std::byte*>(base_) + sizeof(Header))[local_rank];
  }
  /// The descriptor of the segment.
  [[nodiscard]] int memory() const { return memory_; }
  [[nodiscard]] static size_t bytes(uint32_t ranks) { return sizeof(Header) + ranks * sizeof(Area); }

 private:
  void* base_ = nullptr;
  size_t size_ = 0;
  int memory_ = -1;
};

/// Listening socket from which processes of other jobs of this user receive the segment of this job.
class JobListener {
 public:
  /// `memory`: of the segment, which outlives the listener.
  [[nodiscard]] static Result<JobListener> create(const launch::JobId& job, int memory);
  JobListener(JobListener&& other) noexcept;
  JobListener& operator=(JobListener&& other) noexcept;
  ~JobListener();
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Answers the requests that have arrived; does not wait. Returns whether there was one.
  bool poll();

 private:
  JobListener() = default;
  [[nodiscard]] bool answer(int client) const;
  int listener_ = -1, memory_ = -1;
  launch::JobId job_;
  std::vector<int> clients_;  // connected; their requests have not arrived
  std::string name_;
};

/// Request for the segment of another job, sent to its JobListener. The answer needs progress there.
class SegmentRequest {
 public:
  /// `ranks`: of that job on this host.
  SegmentRequest(std::string name, const launch::JobId& job, uint32_t ranks)
      : name_(std::move(name)), job_(job), ranks_(ranks) {}
  SegmentRequest(const SegmentRequest&) = delete;
  SegmentRequest& operator=(const SegmentRequest&) = delete;
  ~SegmentRequest();
  /// Does not wait; no value: the answer has not arrived.
  [[nodiscard]] Result<std::optional<Segment>> poll();

 private:
  [[nodiscard]] Status send();
  std::string name_;
  launch::JobId job_;
  uint32_t ranks_;
  int socket_ = -1;
  bool sent_ = false;
};

}  // namespace weft::transport::shm
