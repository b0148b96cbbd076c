// SPDX-License-Identifier: BSD-3-Clause
// Segment: the shared memory of the ranks of one host, a memfd created by local rank 0 and passed over a unix
// socket. It has no name in a file system, no /dev/shm limit, and disappears with its last process.
#pragma once
#include <string>

#include "base/result.hpp"
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
  /// Sends the segment to `ranks - 1` processes of this user; an error if none connects for `timeout_ms`.
  [[nodiscard]] Status serve(int timeout_ms);
  [[nodiscard]] int memory() const { return memory_; }

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
  [[nodiscard]] static Result<Segment> map(int memory, uint32_t ranks);
  /// Connects to the Server of that name and maps the segment it sends.
  [[nodiscard]] static Result<Segment> attach(const std::string& name, uint32_t ranks, int timeout_ms);
  [[nodiscard]] Header& header() const { return *static_cast<Header*>(base_); }
  [[nodiscard]] Area& area(uint32_t local_rank) const {
    return reinterpret_cast<Area*>(static_cast<std::byte*>(base_) + sizeof(Header))[local_rank];
  }
  [[nodiscard]] static size_t bytes(uint32_t ranks) { return sizeof(Header) + ranks * sizeof(Area); }

 private:
  void* base_ = nullptr;
  size_t size_ = 0;
};

}  // namespace weft::transport::shm
