// SPDX-License-Identifier: BSD-3-Clause
// Regions: GPU allocations that messages name: exported to peers of this host, and their mappings here (CUDA
// IPC). Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/result.hpp"
#include "device/memory.hpp"
#include "p2p/message/transfer.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::p2p {

class Engine;

struct ReadyToSend;

/// State that a persistent request on device memory keeps between starts: its buffer stays classified, and
/// its region and mapping stay valid until the IPC caches withdraw them.
struct PersistentBuffer {
  transport::cuda_ipc::RegionName name{};           ///< this process's allocation
  uint64_t withdrawals = 0;                         ///< Exporter::withdrawals() when `name` was sent
  bool known_to_peer = false;                       ///< the peer has the region of `name`
  transport::cuda_ipc::Mapping* mapping = nullptr;  ///< of `peer_region`, an allocation of `peer`
  transport::cuda_ipc::RegionName peer_region{};
  uint64_t closures = 0;  ///< Importer::closures() when `mapping` was opened
  uint32_t peer = 0;
};

class Regions {
 public:
  explicit Regions(Engine& engine) : engine_(engine) {}

  // Sender.
  /// Appends the region of an allocation to an RTS, or its name if the peer has the region. Returns the
  /// appended bytes.
  Result<size_t> append_export(const device::Memory& memory, uint32_t to, ReadyToSend& rts, std::byte* out);
  /// Appends the name of the region of a persistent request that the peer has; nullopt: the peer needs the
  /// region itself.
  std::optional<size_t> append_cached(Transfer& t, ReadyToSend& rts, std::byte* out);
  void cache(Transfer& t);
  /// Sends the peer the region of the buffer of `t`, once. Returns false if the peer cannot map it.
  [[nodiscard]] bool send(Transfer& t, uint32_t to);
  /// The same for an allocation. `flags`: of ReadyToSend.
  [[nodiscard]] bool send(const device::Memory& memory, uint32_t to, uint8_t flags = 0);
  /// Sends the peer the region of a new bounce buffer, which it maps at once (GpuConnections). Returns false
  /// if the buffer cannot be exported.
  [[nodiscard]] bool announce_bounce(const device::Memory& bounce, uint32_t to);

  // Receiver.
  /// Stores the region of an RTS. Called on arrival, before matching: a later RTS of the peer, which only
  /// names the region, may be matched first.
  void add(uint32_t source, const ReadyToSend& rts);
  /// Maps the region of the sender; null if that is impossible, reported as a slow path.
  [[nodiscard]] transport::cuda_ipc::Mapping* map(const Transfer& t, const ReadyToSend& rts);
  /// Returns the mapping of an allocation of the peer of `t`, for a put; null: it is not mapped.
  [[nodiscard]] transport::cuda_ipc::Mapping* mapped(const Transfer& t, uint64_t base, uint64_t buffer_id);
  /// Maps an allocation of the peer of `t`, for a put; null: unknown, not mappable, or the mapping does not
  /// pay yet. `extra_ns`: the time that the message takes longer without it (core::MappingRule).
  [[nodiscard]] transport::cuda_ipc::Mapping* map(const Transfer& t, uint64_t base, uint64_t buffer_id,
                                                  uint64_t extra_ns);

 private:
  [[nodiscard]] bool still_known(Transfer& t);
  [[nodiscard]] Result<transport::cuda_ipc::Mapping*> open(const Transfer& t,
                                                           const transport::cuda_ipc::Region& region);
  [[nodiscard]] transport::cuda_ipc::Mapping* open_for_put(const Transfer& t,
                                                           const transport::cuda_ipc::Region& region);
  void cache_mapping(const Transfer& t, const transport::cuda_ipc::RegionName& peer_region,
                     transport::cuda_ipc::Mapping& mapping);

  Engine& engine_;
};

}  // namespace weft::p2p
