// SPDX-License-Identifier: BSD-3-Clause
// GPUDirect RDMA check: verifies that the network reads and writes the memory of a GPU. A peer gets a test
// block from it, and this process gets a block of the peer into it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "device/memory.hpp"

namespace weft::p2p {

class Engine;
struct GdrCheckMessage;

class GpuDirect {
 public:
  explicit GpuDirect(Engine& engine);
  ~GpuDirect();
  /// Returns whether the network accesses GPU memory directly; starts the check of its device if that is not
  /// known yet, with this peer.
  [[nodiscard]] bool usable(const device::Memory& memory, uint32_t peer);
  void on_request(uint32_t source, const GdrCheckMessage& request);
  void on_reply(uint32_t source, const GdrCheckMessage& reply);
  void on_done(uint32_t source, const GdrCheckMessage& done);
  void forget_peer(uint32_t peer);
  [[nodiscard]] std::string describe() const;

 private:
  struct Check;
  struct Response;
  void start(const device::Memory& memory, uint32_t peer);
  void reply(Response& response, Status outcome);
  void end(Check& check, Status outcome);
  void release(Response& response);

  Engine& engine_;
  std::vector<std::unique_ptr<Check>> checks_;  // one per device
  std::vector<std::unique_ptr<Response>> responses_;
  uint64_t last_response_ = 0;  // id
};

}  // namespace weft::p2p
