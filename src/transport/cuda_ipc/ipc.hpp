// SPDX-License-Identifier: BSD-3-Clause
// CUDA IPC between processes of one host: what an exporter tells about an allocation, and the importer's
// bounded cache of mappings. Knows nothing of MPI. Threading: serialised by the caller.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "device/info.hpp"
#include "device/ipc.hpp"
#include "device/memory.hpp"
#include "transport/cuda_ipc/mailbox.hpp"

namespace weft::transport::cuda_ipc {

using Peer = uint32_t;  ///< the caller's number for another process, stable while both live

/// One exported allocation; travels as it is in a ready-to-send header (same host, same byte order).
struct Region {
  device::IpcHandle handle;  ///< of cuMemMap memory: begins with the address of its DescriptorList
  uint64_t base;             ///< allocation's address in the exporter
  uint64_t size;             ///< bytes
  uint64_t buffer_id;        ///< in the exporter
  uint64_t epoch;            ///< which life of the exporter: no two processes have the same
  device::Uuid device;
  uint32_t descriptors;  ///< of cuMemMap memory, how many; 0: `handle` is a legacy handle
  int32_t pid;           ///< of cuMemMap memory: the exporter
};
static_assert(sizeof(Region) == 120);

/// Names a region that the peer was told about before.
struct RegionName {
  uint64_t base, buffer_id, epoch;
  bool operator==(const RegionName&) const = default;
};

/// A few bytes of known content in the exporter's device memory, by which an importer proves the path.
struct Probe {
  Region region;
  std::array<uint8_t, 16> content;
};
static_assert(sizeof(Probe) == 136);

/// Tells an importer to forget a mapping.
struct Drop {
  Peer peer;
  uint64_t epoch, base, buffer_id;
};

/// The descriptors of a region of cuMemMap memory. Peers read it from the exporter's memory before and after
/// they take the descriptors: while it says the same, they are the region's.
class DescriptorList {
 public:
  DescriptorList(uint64_t epoch, uint64_t buffer_id, std::vector<device::Descriptor> pieces);
  ~DescriptorList();
  DescriptorList(const DescriptorList&) = delete;
  DescriptorList& operator=(const DescriptorList&) = delete;
  /// Has the region name this list.
  void put_into(Region& region) const;
  [[nodiscard]] size_t size() const { return words_[kCount]; }
  /// To an importer's mailbox.
  [[nodiscard]] Status send(uint64_t mailbox) const;
  /// The exporter's side of `region`, opened in this process; the caller closes them. Errc::unsupported, with
  /// the reason, where the exporter's process cannot be reached.
  [[nodiscard]] static Result<std::vector<device::Descriptor>> fetch(const Region& region);

 private:
  static constexpr size_t kEpoch = 0, kBufferId = 1, kCount = 2,
                          kPieces = 3;  // then a descriptor and a size each
  [[nodiscard]] static std::vector<uint64_t> read(const Region& region);
  std::vector<uint64_t> words_;
};

/// cuMemMap memory goes to other processes as file descriptors: gpu.ipc_fd.
[[nodiscard]] bool shares_descriptors();
/// How many descriptors a process keeps open at most, as exporter and again as importer.
[[nodiscard]] size_t most_descriptors();

/// The side whose memory is mapped: owns the identity of what was exported and says when it ends.
class Exporter {
 public:
  Exporter();
  ~Exporter();
  struct Told {
    const Region* region;  ///< valid until the next sweep
    bool before;           ///< the peer was told already: its name will do
  };
  /// Describes the allocation of `memory` for a peer; one driver call the first time, a look-up afterwards.
  /// Errc::unsupported, with the reason, for memory that cannot be shared (pool, managed, some of cuMemMap)
  /// or not with this peer.
  [[nodiscard]] Result<Told> export_region(const device::Memory& memory, Peer peer);
  /// The probe for `memory`'s device; the caller sends it along with the first region of a (peer, device).
  [[nodiscard]] Result<Probe> probe(const device::Memory& memory);
  /// True until probe_sent() was called for this peer and device.
  [[nodiscard]] bool probe_due(const device::Memory& memory, Peer peer) const;
  void probe_sent(const device::Memory& memory, Peer peer);
  /// The peer cannot take descriptors from here: they are sent to its mailbox, those of what it was told
  /// already at once. 0: it has none, and cuMemMap memory is not exported to it any more.
  void no_descriptors(Peer peer, uint64_t mailbox);
  /// Forgets allocations that were freed, and the least recently used above gpu.ipc_exports; the caller sends
  /// the drops. Call at registration and now and then from progress.
  [[nodiscard]] std::vector<Drop> sweep_freed();
  /// The peer is gone: nothing more will be sent to it.
  void forget_peer(Peer peer);
  void close();  ///< frees the probes; call after the peers have closed theirs
  [[nodiscard]] uint64_t epoch() const { return epoch_; }
  [[nodiscard]] size_t exported() const { return exports_.size(); }
  /// Open now: they keep cuMemMap memory alive that the program may have let go.
  [[nodiscard]] size_t descriptors() const { return descriptors_; }
  /// Changes whenever something that a peer was told does not hold any more.
  [[nodiscard]] uint64_t withdrawals() const { return withdrawals_; }

 private:
  struct Export {
    Region region;
    device::Memory memory;
    std::vector<Peer> peers;
    uint64_t used;
    std::unique_ptr<DescriptorList> descriptors;  // of cuMemMap memory
    [[nodiscard]] bool knows(Peer peer) const {
      return std::find(peers.begin(), peers.end(), peer) != peers.end();
    }
  };
  [[nodiscard]] Result<Export> make(const device::Memory& memory);
  [[nodiscard]] Result<std::unique_ptr<DescriptorList>> descriptors_of(const device::Memory& memory);
  [[nodiscard]] Status may_take_descriptors(Peer peer) const;
  [[nodiscard]] Status send_descriptors(const Export& entry, Peer peer) const;
  using Table = std::map<uint64_t, Export>;  // by buffer id
  Table::iterator withdraw(Table::iterator at);
  [[nodiscard]] Table::iterator least_recent(bool with_descriptors);
  bool withdraw_idle();
  Table exports_;
  std::vector<Drop> drops_;                                 // to be told with the next sweep
  Export* latest_ = nullptr;                                // the one described last, if it is still there
  std::map<int, std::pair<Probe, device::Memory>> probes_;  // by device
  std::vector<std::pair<Peer, int>> probes_sent_;
  std::map<Peer, uint64_t> mailboxes_;        // of those that cannot take descriptors
  std::map<uint64_t, std::string> unshared_;  // by buffer id: why cuMemMap memory cannot be exported
  size_t descriptors_ = 0;                    // open
  uint64_t epoch_ = 0, clock_ = 0, withdrawals_ = 0;
};

/// One mapping of a peer's allocation here. Valid while referenced.
class Mapping {
 public:
  /// The local address of a byte of the exporter; the caller keeps within [base, base + size).
  [[nodiscard]] void* at(uint64_t remote) const {
    return reinterpret_cast<void*>(memory_.base + (remote - base_));
  }
  /// What copies are given: device memory in the importer's context.
  [[nodiscard]] const device::Memory& memory() const { return memory_; }
  [[nodiscard]] size_t size() const { return memory_.size; }

 private:
  friend class Importer;
  uint64_t base_ = 0, buffer_id_ = 0, epoch_ = 0, used_ = 0;
  Peer peer_ = 0;
  int local_device_ = -1;
  uint32_t references_ = 0;
  bool retired_ = false;  // out of the cache, closed with the last reference
  device::Memory memory_;
};

struct Counters {
  uint64_t opens = 0, hits = 0, closes = 0, evictions = 0, drops = 0, refusals = 0;
};

/// The side that maps: opens each allocation once, keeps it until told, at most gpu.ipc_mappings of them.
class Importer {
 public:
  Importer() = default;
  ~Importer() { close(); }
  Importer(const Importer&) = delete;
  Importer& operator=(const Importer&) = delete;

  /// Maps `region`, or takes it from the cache, and adds a reference. `local` is the local device buffer: its
  /// context opens the mapping ({.device = ordinal} will do for a host buffer). The first call for a (peer,
  /// pair of devices) proves the path with `probe` (may be null once one has come from this peer and device);
  /// the verdict is kept. Errc::unsupported with the reason when the path cannot work: the caller stages, by
  /// name.
  [[nodiscard]] Result<Mapping*> open(Peer peer, const Region& region, const Probe* probe,
                                      const device::Memory& local);
  /// Keeps what a peer told about an allocation of its own, until its drop.
  void learn(Peer peer, const Region& region) {
    regions_.insert_or_assign({peer, region.base, region.buffer_id}, region);
  }
  /// Once after it turned out that the descriptors of a peer cannot be taken, and once that they are no use:
  /// what it is to be told (Exporter::no_descriptors).
  [[nodiscard]] std::optional<uint64_t> refused_descriptors(Peer peer);
  /// What was learnt under this name; null when nothing was.
  [[nodiscard]] const Region* find(Peer peer, const RegionName& name) const;
  /// The same for the peer's latest life.
  [[nodiscard]] const Region* find(Peer peer, uint64_t base, uint64_t buffer_id) const;
  /// Keeps a probe that came before its first open().
  void learn(Peer peer, const Probe& probe) { probes_.insert_or_assign({peer, probe.region.device}, probe); }
  /// Adds a reference to a mapping that open() gave, while closures() has not changed since.
  void retain(Mapping& mapping) {
    ++mapping.references_;
    mapping.used_ = ++clock_;
    ++counters_.hits;
  }
  /// Changes whenever a mapping leaves the cache.
  [[nodiscard]] uint64_t closures() const { return closures_; }
  /// Gives a reference back. No copy may still be using it.
  void release(Mapping* mapping);
  /// The exporter's word: closes the mapping, or marks it to be closed with its last reference.
  void drop(Peer peer, uint64_t epoch, uint64_t base, uint64_t buffer_id);
  /// The peer is gone: drops all of its mappings, probes and verdicts.
  void drop_peer(Peer peer);
  /// Closes everything; dead contexts are tolerated. Mappings must not be used any more.
  void close();
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] size_t mapped() const { return mappings_.size(); }
  [[nodiscard]] size_t mapped_bytes() const { return bytes_; }

 private:
  // Peer, base and buffer id in the exporter, local device. Runs of cuMemMap memory can begin alike.
  using Key = std::tuple<Peer, uint64_t, uint64_t, int>;
  using Table = std::map<Key, std::unique_ptr<Mapping>>;
  using PairKey = std::tuple<Peer, device::Uuid, int>;  // peer, its device, local device
  struct Verdict {
    bool works;
    std::string reason;
  };
  [[nodiscard]] Status prove(Peer peer, const Region& region, const device::Memory& local);
  [[nodiscard]] Mapping* cached(const Key& key, const Region& region);
  void retire_older(const Key& key, const Region& region);
  [[nodiscard]] Result<Mapping*> map_region(const Key& key, const Region& region,
                                            const device::Memory& local);
  [[nodiscard]] Result<device::Memory> open_memory(Peer peer, const Region& region,
                                                   const device::Memory& local);
  struct Descriptors;
  [[nodiscard]] Result<std::vector<device::Descriptor>> descriptors_of(const Region& region,
                                                                       Descriptors& state);
  void close_mapping(Mapping& mapping);
  Table::iterator retire(Table::iterator at);
  bool retire_block(Peer peer, const Region& region);
  void make_room(size_t bytes);

  Table mappings_;
  Mapping* latest_ = nullptr;  // the one opened last, if it is in the cache: messages come in runs
  std::vector<std::unique_ptr<Mapping>> retired_;  // dropped while referenced
  std::map<PairKey, Verdict> verdicts_;
  std::map<std::pair<Peer, device::Uuid>, Probe> probes_;
  std::map<std::tuple<Peer, uint64_t, uint64_t>, Region> regions_;  // by base and buffer id
  /// How a peer's descriptors come here.
  struct Descriptors {
    enum class Way : uint8_t { taken, sent, none };
    Way way = Way::taken;
    bool worked = false;  // once, by taking them
    bool due = false;     // the peer has not been told how they are to come
  };
  std::map<Peer, Descriptors> descriptors_;
  Mailbox mailbox_;
  Counters counters_;
  size_t bytes_ = 0;
  uint64_t clock_ = 0, closures_ = 0;
};

}  // namespace weft::transport::cuda_ipc
