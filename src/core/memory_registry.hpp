// SPDX-License-Identifier: BSD-3-Clause
// Memory registry: owns the caches of exported and imported GPU memory of this process, which p2p, coll and
// rma share, and exchanges the messages that keep the caches of peers valid. Threading: instance lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "base/result.hpp"
#include "core/instance.hpp"
#include "core/mapping_rule.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::core {

class MemoryRegistry final : private Poller {
 public:
  /// Registers the handlers of its messages in `instance.handlers`.
  explicit MemoryRegistry(Instance& instance);
  ~MemoryRegistry() override;
  MemoryRegistry(const MemoryRegistry&) = delete;

  /// One of each per process, since an allocation can be opened only once; created at first use.
  [[nodiscard]] transport::cuda_ipc::Exporter& exporter() {
    return exporter_ != nullptr ? *exporter_ : create_exporter();
  }
  [[nodiscard]] transport::cuda_ipc::Importer& importer() { return importer_; }

  /// Importer::open(). If the descriptors of cuMemMap memory cannot be duplicated, asks the peer to send
  /// them: a later attempt may succeed.
  [[nodiscard]] Result<transport::cuda_ipc::Mapping*> open(ProcessId peer,
                                                           const transport::cuda_ipc::Region& region,
                                                           const transport::cuda_ipc::Probe* probe,
                                                           const device::Memory& local);
  /// Returns whether an access shall use a mapping of an allocation, which may have to be opened first
  /// (MappingRule). `extra_ns()`, called only while the mapping is not bought, returns the time in ns that
  /// this access takes longer without the mapping.
  template <class ExtraNs>
  [[nodiscard]] bool mapping_pays(const MappingRule::Key& key, ExtraNs&& extra_ns,
                                  MappingRule::Alternative alternative = MappingRule::Alternative::none) {
    return mapping_rule_.bought(key) || mapping_rule_.pays(key, extra_ns(), mapping_ns(), alternative);
  }
  /// Returns whether mapping_pays() has returned true for a mapping.
  [[nodiscard]] bool mapping_bought(const MappingRule::Key& key) { return mapping_rule_.bought(key); }
  /// Withdraws exported allocations that the program has freed and notifies the peers; call before an export.
  /// Sweeps only once in many calls.
  void withdraw_freed();
  /// Drops everything of a process that has failed.
  void forget(ProcessId peer);
  /// Closes all mappings and exports, which no copy may use any more. Exports may start again afterwards.
  void close();

 private:
  struct Drop;
  struct Mailbox;
  bool poll() override;
  [[nodiscard]] bool idle() const override { return true; }
  /// Whether messages on mapped memory may come from this process; counted if not.
  [[nodiscard]] bool accepts(ProcessId source) const;
  transport::cuda_ipc::Exporter& create_exporter();
  void sweep();
  void note_shared_gpu(ProcessId peer, int device);
  [[nodiscard]] uint64_t mapping_ns() const;

  Instance& instance_;
  std::unique_ptr<transport::cuda_ipc::Exporter> exporter_;
  transport::cuda_ipc::Importer importer_;
  MappingRule mapping_rule_;
  uint32_t calls_since_sweep_ = 0, polls_ = 0;
  uint64_t next_sweep_ns_ = 0;
  size_t exported_ = 0;                              ///< allocations known to peers at the last sweep
  std::map<int, std::set<ProcessId>> peers_on_gpu_;  ///< peers whose memory is on a device of this process
};

}  // namespace weft::core
