// SPDX-License-Identifier: BSD-3-Clause
// Mailbox: a rank's region in GPU memory for the messages of one communicator, and the mapped regions of the
// other ranks. Created and closed collectively. Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "coll/gpu/rank_gpus.hpp"
#include "core/communicator.hpp"
#include "device/kernel/collective.hpp"
#include "device/stream.hpp"

namespace weft::stream {

class RetiredRegions;

class Mailbox {
 public:
  /// Collective over `comm`; every rank gets the same outcome. Errc::unsupported, with the rank and its
  /// reason, if the GPU of some rank cannot map the regions of all others. `own_gpus`: also if ranks share a
  /// GPU without MPS, whose kernels would wait for each other in time slices.
  [[nodiscard]] static Result<std::unique_ptr<Mailbox>> create(core::Communicator& comm,
                                                               const device::UserStream& stream,
                                                               bool own_gpus);
  ~Mailbox();  ///< unmaps the peers' regions only: peers may still use the own region
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  /// Collective, when no kernel uses the regions any more. Unmaps the peers' regions, then frees the own
  /// region; if that fails, as close_alone().
  [[nodiscard]] Status close(core::Communicator& comm);
  /// Instead of close() when a rank has failed or the communicator is revoked. Kernels of peers may still
  /// write to the own region: it is freed when they have unmapped it (retired_regions.hpp).
  void close_alone(const core::Communicator& comm);
  /// Makes the kernels of the communicator leave, now and later.
  void cancel() { __atomic_store_n(&fault_->cancelled, 1, __ATOMIC_RELEASE); }

  /// Written by kernels, in pinned host memory.
  [[nodiscard]] device::kernel::enqueue::Fault& fault() const { return *fault_; }
  /// Written by kernels that wait, one for each state of an operation.
  [[nodiscard]] const uint32_t* beats() const;
  /// Written by kernels that wait in a collective; null without has_collectives().
  [[nodiscard]] uint64_t* collective_beat() const;
  /// Statuses that kernels write, one for each state of an operation.
  [[nodiscard]] uint32_t* status_of(uint32_t state) const;
  /// Whether a kernel has begun the operation with a state, which no kernel may access now. Reads GPU memory.
  [[nodiscard]] Result<bool> has_begun(uint32_t state) const;
  /// Returns whether a peer has died: the kernels leave, and nothing can be enqueued any more.
  [[nodiscard]] bool cancelled() const { return __atomic_load_n(&fault_->cancelled, __ATOMIC_ACQUIRE) != 0; }
  /// Address of the own region.
  [[nodiscard]] uint64_t region() const { return region_.base; }
  /// A peer's region as mapped here.
  [[nodiscard]] uint64_t region_of(int peer) const { return peers_[static_cast<size_t>(peer)].base; }
  /// Counters and regions of enqueued collectives; only up to Collective::kRanks ranks.
  [[nodiscard]] bool has_collectives() const { return ranks_ <= device::kernel::Collective::kRanks; }
  [[nodiscard]] uint64_t control_of(int peer) const;
  [[nodiscard]] uint64_t collective_region_of(int peer) const { return control_of(peer) + kControl; }
  [[nodiscard]] static uint64_t simple_capacity();
  /// Most blocks of a collective such that the kernels of all ranks run at the same time; 0: no limit.
  [[nodiscard]] uint32_t max_blocks() const { return max_blocks_; }
  /// Memory that no peer writes to, for messages to oneself.
  [[nodiscard]] uint64_t self_buffer(uint32_t rank) const;
  static constexpr uint64_t kSelfBufferBytes = sizeof(device::kernel::enqueue::PeerChannel::payload);

 private:
  Mailbox(const core::Communicator& comm, const device::UserStream& stream);
  static constexpr uint64_t kControl = device::kernel::StreamControl::kSpace;
  [[nodiscard]] uint64_t bytes() const;
  [[nodiscard]] Status allocate(core::Communicator& comm);
  [[nodiscard]] Status clear(uint64_t first, uint64_t n) const;
  struct Descriptor;
  [[nodiscard]] Status describe(Descriptor& descriptor) const;
  [[nodiscard]] Status map(uint32_t peer, const Descriptor& descriptor);
  [[nodiscard]] Status initialize_counters();
  void unmap();
  void release();
  [[nodiscard]] RetiredRegions& retired() const;

  core::Instance& instance_;
  const core::ContextId context_;
  const uint32_t ranks_;
  const device::UserStream stream_;
  int self_ = 0;             // rank
  uint32_t max_blocks_ = 0;  // 0: no limit
  device::kernel::enqueue::Fault* fault_ = nullptr;
  device::Memory region_;
  std::vector<device::Memory> peers_;  // base 0: not mapped
};

}  // namespace weft::stream
