// SPDX-License-Identifier: BSD-3-Clause
// CUDA IPC between processes of one host: exported regions and the importer's bounded cache of mappings.
// Knows nothing of MPI. Threading: serialised by the caller.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/counters.hpp"
#include "base/result.hpp"
#include "device/info.hpp"
#include "device/ipc.hpp"
#include "device/memory.hpp"
#include "transport/cuda_ipc/mailbox.hpp"
#include "transport/cuda_ipc/mapping_time.hpp"

namespace weft::transport::cuda_ipc {

using Peer = uint32_t;  ///< the caller's id of another process, stable while both live

/// One exported allocation; copied verbatim into RTS headers (same host, same byte order).
struct Region {
  device::IpcHandle handle;  ///< of cuMemMap memory: begins with the address of its DescriptorList
  uint64_t base;             ///< address of the allocation in the exporter
  uint64_t size;             ///< bytes
  uint64_t buffer_id;        ///< in the exporter
  uint64_t epoch;            ///< unique per exporter process
  device::GpuId device;
  uint16_t descriptors;  ///< number of descriptors of cuMemMap memory; 0: `handle` is a legacy handle
  int32_t pid;           ///< of the exporter; cuMemMap memory only
};
static_assert(sizeof(Region) == 120);

/// Names a region that was sent to the peer before.
struct RegionName {
  uint64_t base, buffer_id, epoch;
  bool operator==(const RegionName&) const = default;
};

/// Bytes of known content in the exporter's device memory, by which an importer tests the path.
struct Probe {
  Region region;
  uint64_t address;  ///< of the content, in the exporter
  std::array<uint8_t, 16> content;
};
static_assert(sizeof(Probe) == 144);

/// Request to an importer to drop a mapping.
struct Drop {
  Peer peer;
  uint64_t epoch, base, buffer_id;
};

/// Descriptors of a region of cuMemMap memory. Peers read the list from the exporter's memory before and
/// after duplicating the descriptors: an unchanged list proves that they belong to the region.
class DescriptorList {
 public:
  DescriptorList(uint64_t epoch, uint64_t buffer_id, std::vector<device::ShareableHandle> descriptors);
  ~DescriptorList();
  DescriptorList(const DescriptorList&) = delete;
  DescriptorList& operator=(const DescriptorList&) = delete;
  /// Sets the region's fields that refer to this list.
  void put_into(Region& region) const;
  [[nodiscard]] size_t size() const { return words_[kCount]; }
  /// Sends the descriptors to an importer's mailbox.
  [[nodiscard]] Status send(uint64_t mailbox) const;
  /// Importer side: returns duplicates of the region's descriptors, to be closed by the caller.
  /// Errc::unsupported with the reason if the exporter's process is not accessible.
  [[nodiscard]] static Result<std::vector<device::ShareableHandle>> acquire(const Region& region);

 private:
  static constexpr size_t kEpoch = 0, kBufferId = 1, kCount = 2,
                          kFirstDescriptor = 3;  // then pairs of descriptor and size
  [[nodiscard]] static std::vector<uint64_t> read(const Region& region);
  std::vector<uint64_t> words_;
};

/// Returns whether cuMemMap memory is shared by file descriptors (gpu.ipc_fd).
[[nodiscard]] bool descriptor_sharing_enabled();
/// Returns the limit of open descriptors of the exporter, and of the importer.
[[nodiscard]] size_t max_open_descriptors();

/// The process whose memory is mapped: assigns region ids and withdraws regions.
class Exporter {
 public:
  Exporter();
  ~Exporter();
  struct ExportedRegion {
    const Region* region;  ///< valid until the next sweep
    bool sent_before;      ///< the region was sent to this peer: its name suffices
  };
  /// Returns the region of the allocation of `memory`; one driver call the first time, a look-up afterwards.
  /// Errc::unsupported with the reason for memory that cannot be shared (pool, managed, some cuMemMap
  /// memory), or not with this peer.
  [[nodiscard]] Result<ExportedRegion> export_region(const device::Memory& memory, Peer peer) {
    Export* const last = most_recent_;
    if (last == nullptr || last->memory.buffer_id != memory.buffer_id || memory.mapped ||
        !last->sent_to(peer)) [[unlikely]]
      return find_or_export(memory, peer);
    last->used = ++clock_;
    return ExportedRegion{&last->region, true};
  }
  /// Returns the probe of `memory`'s device, to be sent with the first region of a (peer, device) pair. It
  /// has an allocation of its own unless place_probe() was called before.
  [[nodiscard]] Result<Probe> probe(const device::Memory& memory);
  /// Places the probe of a device into `block`, an allocation of the library that peers map anyhow, at
  /// kProbeBytes unused bytes from `address`: they test the path with the mapping of the block. Nothing is
  /// done if the device has a probe. The block lives until close().
  [[nodiscard]] Status place_probe(const device::Memory& block, uint64_t address);
  static constexpr size_t kProbeBytes = sizeof(Probe::content);
  /// Returns true until probe_sent() for this peer and device.
  [[nodiscard]] bool probe_due(const device::Memory& memory, Peer peer) const;
  void probe_sent(const device::Memory& memory, Peer peer);
  /// The peer cannot acquire descriptors from this process: sends them to its mailbox, for known regions at
  /// once. 0: the peer has no mailbox, and cuMemMap memory is no longer exported to it.
  void use_mailbox(Peer peer, uint64_t mailbox);
  /// Withdraws freed allocations, and the least recently used above gpu.ipc_max_exports. The caller sends the
  /// returned drops. Call after exporting and periodically from progress.
  [[nodiscard]] std::vector<Drop> sweep_freed();
  /// Forgets a peer that is lost.
  void forget_peer(Peer peer);
  void close();  ///< frees the probes; call after all importers have closed
  [[nodiscard]] uint64_t epoch() const { return epoch_; }
  [[nodiscard]] size_t exported() const { return exports_.size(); }
  /// Calls `watch` once, when the first descriptor is opened: sweep_freed() is due regularly from then on.
  void on_descriptors(std::function<void()> watch) { watch_ = std::move(watch); }
  /// Number of open descriptors; they keep cuMemMap memory alive that the program may have freed.
  [[nodiscard]] size_t descriptors() const { return descriptors_; }
  /// Incremented whenever a region sent to a peer becomes invalid.
  [[nodiscard]] uint64_t withdrawals() const { return withdrawals_; }

 private:
  struct Export {
    Region region;
    device::Memory memory;
    std::vector<Peer> peers;
    uint64_t used;
    std::unique_ptr<DescriptorList> descriptors;  // of cuMemMap memory
    [[nodiscard]] bool sent_to(Peer peer) const {
      return std::find(peers.begin(), peers.end(), peer) != peers.end();
    }
  };
  [[nodiscard]] Result<ExportedRegion> find_or_export(const device::Memory& memory, Peer peer);
  [[nodiscard]] Result<Export> make(const device::Memory& memory);
  [[nodiscard]] Result<std::unique_ptr<DescriptorList>> descriptors_of(const device::Memory& memory);
  [[nodiscard]] Status check_descriptor_export(Peer peer) const;
  [[nodiscard]] Status send_descriptors(const Export& entry, Peer peer) const;
  [[nodiscard]] Result<Probe> write_probe(const device::Memory& block, uint64_t address) const;
  using Table = std::map<uint64_t, Export>;  // by buffer id
  Table::iterator withdraw(Table::iterator at);
  [[nodiscard]] Table::iterator least_recent(bool with_descriptors);
  bool withdraw_idle();
  Table exports_;
  std::vector<Drop> drops_;        // returned by the next sweep_freed()
  Export* most_recent_ = nullptr;  // null if withdrawn
  struct PlacedProbe {
    Probe probe;
    device::Memory block;
    bool own;  ///< the block holds nothing else
  };
  void drop_probe(std::map<int, PlacedProbe>::iterator at);
  std::map<int, PlacedProbe> probes_;  // by device
  std::vector<std::pair<Peer, int>> probes_sent_;
  std::map<Peer, uint64_t> mailboxes_;           // of peers that cannot acquire descriptors
  std::map<uint64_t, std::string> unsupported_;  // by buffer id: reason
  size_t descriptors_ = 0;                       // open
  std::function<void()> watch_;                  // null: none, or it has been called
  uint64_t epoch_ = 0, clock_ = 0, withdrawals_ = 0;
};

/// Mapping of a peer's allocation in this process. Valid while referenced.
class Mapping {
 public:
  /// Returns the local address of `remote`, which must be within [base, base + size).
  [[nodiscard]] void* at(uint64_t remote) const {
    return reinterpret_cast<void*>(memory_.base + (remote - base_));
  }
  /// Returns whether [remote, remote + bytes) lies within the allocation.
  [[nodiscard]] bool contains(uint64_t remote, uint64_t bytes) const {
    return remote - base_ <= size() && bytes <= size() - (remote - base_);
  }
  /// Memory description for copies: device memory in the importer's context.
  [[nodiscard]] const device::Memory& memory() const { return memory_; }
  [[nodiscard]] size_t size() const { return memory_.size; }
  /// Returns whether it is a mapping of this allocation of its peer.
  [[nodiscard]] bool is_of(const RegionName& name) const {
    return buffer_id_ == name.buffer_id && base_ == name.base && epoch_ == name.epoch;
  }

 private:
  friend class Importer;
  uint64_t base_ = 0, buffer_id_ = 0, epoch_ = 0, used_ = 0;
  Peer peer_ = 0;
  int local_device_ = -1;
  uint32_t references_ = 0;
  bool retired_ = false;  // removed from the cache, not closed yet
  device::Memory memory_;
};

extern counters::Counter mapping_hits;  ///< importer.cpp

/// The process that maps: opens each allocation once and keeps at most gpu.ipc_max_mappings mappings.
class Importer {
 public:
  Importer();
  ~Importer() { close(); }
  Importer(const Importer&) = delete;
  Importer& operator=(const Importer&) = delete;

  /// Returns a new or cached mapping of `region` with a reference added. The context of the local buffer
  /// `local` opens the mapping ({.device = ordinal} suffices for a host buffer). The first call for a peer
  /// and pair of devices tests the path with `probe` (null if stored before) and caches the result.
  /// Errc::unsupported with the reason if the path does not work: the caller stages and reports a slow path.
  [[nodiscard]] Result<Mapping*> open(Peer peer, const Region& region, const Probe* probe,
                                      const device::Memory& local);
  /// Returns the mapping that open() has found last, with a reference added, if it is of this allocation and
  /// was opened on this local device and in this context; else null.
  [[nodiscard]] Mapping* opened_last(Peer peer, const RegionName& name, int device, const void* context) {
    Mapping* const last = most_recent_;
    if (last == nullptr || last->peer_ != peer || last->local_device_ != device || !last->is_of(name) ||
        (context != nullptr && context != last->memory_.context))
      return nullptr;
    retain(*last);
    return last;
  }
  /// Returns whether the region is mapped for a local device.
  [[nodiscard]] bool maps(Peer peer, const Region& region, int device) const {
    return mappings_.contains({peer, region.base, region.buffer_id, device});
  }
  /// Stores a region received from a peer until its drop.
  void store_region(Peer peer, const Region& region) {
    regions_.insert_or_assign({peer, region.base, region.buffer_id}, region);
  }
  /// Returns the mailbox address to be sent to the peer (Exporter::use_mailbox) once after its descriptors
  /// could not be acquired, and 0 once after the mailbox failed too.
  [[nodiscard]] std::optional<uint64_t> take_mailbox_request(Peer peer);
  /// Returns the stored region of that name, or null.
  [[nodiscard]] const Region* find(Peer peer, const RegionName& name) const;
  /// Returns the stored region of the peer's current process, or null.
  [[nodiscard]] const Region* find(Peer peer, uint64_t base, uint64_t buffer_id) const;
  /// Stores a probe received before the first open().
  void store_probe(Peer peer, const Probe& probe) {
    probes_.insert_or_assign({peer, probe.region.device}, probe);
  }
  /// Adds a reference to a mapping returned by open(), if closures() has not changed since.
  void retain(Mapping& mapping) {
    ++mapping.references_;
    mapping.used_ = ++clock_;
    mapping_hits.add();
  }
  /// Incremented whenever a mapping leaves the cache.
  [[nodiscard]] uint64_t closures() const { return closures_; }
  /// Removes a reference. No copy may still use the mapping.
  void release(Mapping* mapping);
  /// Handles the exporter's drop: the mapping leaves the cache. One of cuMemMap memory is closed at once or
  /// with its last reference; one of an IPC handle when open() maps another region, by close(), or when more
  /// than 256 MiB wait. Closing waits for all kernels of the GPU and blocks all submissions meanwhile, so a
  /// kernel of the program that waits for a message would never end.
  void drop(Peer peer, uint64_t epoch, uint64_t base, uint64_t buffer_id);
  /// The next open() for this peer and pair of devices tests the path.
  void forget_path_test(Peer peer, const device::GpuId& remote, int local) {
    path_tests_.erase({peer, remote, local});
  }
  /// Drops all mappings, probes and test results of a lost peer.
  void drop_peer(Peer peer);
  /// Closes all mappings, which must be unused; destroyed contexts are tolerated.
  void close();
  [[nodiscard]] size_t mapped() const { return mappings_.size(); }
  [[nodiscard]] size_t mapped_bytes() const { return bytes_; }
  [[nodiscard]] const MappingTime& mapping_time() const { return time_; }

 private:
  // The key is peer, base and buffer id in the exporter, local device. Runs of cuMemMap mappings can share a
  // base.
  using Key = std::tuple<Peer, uint64_t, uint64_t, int>;
  using Table = std::map<Key, std::unique_ptr<Mapping>>;
  using PairKey = std::tuple<Peer, device::GpuId, int>;  // peer, its device, local device
  struct PathTest {
    bool works;
    std::string reason;
  };
  [[nodiscard]] Status test_path(Peer peer, const Region& region, const device::Memory& local);
  [[nodiscard]] Result<Mapping*> map_tested(const Key& key, const Probe& probe, const device::Memory& local);
  [[nodiscard]] Mapping* cached(const Key& key, const Region& region);
  Mapping* drop_lost(Table::iterator at);
  void retire_stale(const Key& key, const Region& region);
  [[nodiscard]] Result<Mapping*> map_region(const Key& key, const Region& region,
                                            const device::Memory& local);
  [[nodiscard]] Result<device::Memory> open_memory(Peer peer, const Region& region,
                                                   const device::Memory& local);
  struct PeerDescriptors;
  [[nodiscard]] Result<std::vector<device::ShareableHandle>> descriptors_of(const Region& region,
                                                                            PeerDescriptors& state);
  void close_mapping(Mapping& mapping);
  Table::iterator retire(Table::iterator at);
  enum class Closing : uint8_t { all, mapped_only };  // mapped_only: of cuMemMap memory
  void close_retired(Closing which);
  bool retire_block(Peer peer, const Region& region);
  void evict_for(size_t bytes);

  Table mappings_;
  Mapping* most_recent_ = nullptr;                 // null if retired
  std::vector<std::unique_ptr<Mapping>> retired_;  // not in the cache, and not closed yet
  std::map<PairKey, PathTest> path_tests_;
  std::map<std::pair<Peer, device::GpuId>, Probe> probes_;
  std::map<std::tuple<Peer, uint64_t, uint64_t>, Region> regions_;  // by base and buffer id
  /// How the descriptors of a peer are received.
  struct PeerDescriptors {
    enum class Source : uint8_t { pidfd, mailbox, none };
    Source source = Source::pidfd;
    bool succeeded = false;    // pidfd_getfd has worked
    bool notify_peer = false;  // take_mailbox_request() is due
  };
  std::map<Peer, PeerDescriptors> descriptors_;
  Mailbox mailbox_;
  MappingTime time_;
  size_t bytes_ = 0;
  uint64_t clock_ = 0, closures_ = 0;
};

}  // namespace weft::transport::cuda_ipc
