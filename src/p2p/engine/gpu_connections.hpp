// SPDX-License-Identifier: BSD-3-Clause
// GpuConnections: first contact of the GPUs of a host before the first message. A rank whose thread has a
// CUDA context when it connects loads Weft's kernels, allocates its bounce buffer and maps those of the other
// ranks then (docs/adr/0064). Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <vector>

#include "device/memory.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::p2p {

class Engine;

class GpuConnections {
 public:
  explicit GpuConnections(Engine& engine) : engine_(engine) {}
  /// Connects this process's GPU with those of the other ranks of the host that have one of their own. All
  /// ranks of the host call it; ranks without a context return at once. A failure leaves the pair to its
  /// first message, which reports it.
  void connect();
  /// Tells the ranks that are in connect() that this process, which could not connect, never will be.
  void give_up();
  /// A rank of the host has announced its bounce buffer.
  void announced(uint32_t source, const transport::cuda_ipc::Region& region) {
    if (!done_) announced_.push_back({source, region});
  }

 private:
  struct Announcement {
    uint32_t source;
    transport::cuda_ipc::Region region;
  };
  void connect_peers();
  [[nodiscard]] std::vector<uint32_t> peers_with_own_gpu() const;
  [[nodiscard]] bool announce(const std::vector<uint32_t>& peers, const device::Memory& near);
  void open(const std::vector<uint32_t>& peers, const device::Memory& near);

  Engine& engine_;
  std::vector<Announcement> announced_;  ///< not opened yet
  bool done_ = false;                    ///< connect() has returned
};

}  // namespace weft::p2p
