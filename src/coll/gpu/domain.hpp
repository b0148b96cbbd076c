// SPDX-License-Identifier: BSD-3-Clause
// Domain: the resources of a communicator for collectives by kernels: the regions of all ranks, mapped here,
// and a collective slot that launches kernels. Opened, or refused for good, when all ranks have operands in
// GPU memory. Threading: under the instance lock.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "coll/gpu/direct_buffers.hpp"
#include "coll/gpu/plan.hpp"
#include "coll/gpu/rank_gpus.hpp"
#include "coll/gpu/region_pool.hpp"
#include "coll/host/slot_channel.hpp"
#include "coll/schedule/call.hpp"
#include "device/collective.hpp"
#include "device/copy.hpp"
#include "device/pool.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::coll::gpu {

class Domain {
 public:
  explicit Domain(core::Communicator& comm) : comm_(comm), direct_buffers_(comm) {}
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  enum class State : uint8_t { unknown, open, refused };
  /// Equal on all ranks at the same call.
  [[nodiscard]] State state() const { return state_; }
  /// Collective over ranks with operands in GPU memory: opens the domain, or refuses it and reports a slow
  /// path. Never blocks; returns true once state() is known.
  [[nodiscard]] bool connect(const device::Memory& near, host::SlotChannel& channel);
  /// Collective: waits until connect() is complete. An error if a rank fails meanwhile.
  [[nodiscard]] Status connect_now(const device::Memory& near, host::SlotChannel& channel);
  /// Returns whether kernels of this rank can access `memory`.
  [[nodiscard]] bool reaches(const device::Memory& memory) const {
    return resources_.slot.can_access(memory);
  }
  /// Collective, after all ranks have entered the call: returns whether run() may store into the buffers of
  /// all ranks.
  [[nodiscard]] bool prepare_direct_buffers(const Call& call, uint64_t largest, Layouts layouts,
                                            host::SlotChannel& channel);
  /// Returns whether the resident kernel runs with all its blocks.
  [[nodiscard]] bool resident_running() const {
    return state_ == State::open && resources_.slot.resident_kernel_running();
  }
  /// Plans a call before the votes arrive, assuming that `largest` is the largest message of all ranks; 0: no
  /// plan.
  void plan_early(const Call& call, uint64_t largest, bool resident_running);
  /// Collective, after all ranks have entered the call: runs the call and waits. `resident_running`: on all
  /// ranks; `layouts`: of all ranks.
  [[nodiscard]] Status run(const Call& call, uint64_t largest, bool resident_running, Layouts layouts);
  /// Nonblocking run(): begin(), then poll() until it returns true or the error of the call. One call at a
  /// time; `plan` must stay in place.
  void begin(Plan& plan);
  /// Allocates staging memory. To be called before the vote, since allocations wait for running kernels.
  [[nodiscard]] Status reserve(const device::Memory& near, uint64_t bytes);
  /// Returns the plan of a call in this domain.
  [[nodiscard]] Plan plan(const Call& call, uint64_t largest, bool resident_running,
                          Layouts layouts = Layouts::contiguous) const;
  [[nodiscard]] bool busy() const { return running_ != nullptr; }
  [[nodiscard]] Result<bool> poll();

 private:
  struct Descriptor;
  /// Resources that the kernels use.
  struct Resources {
    device::CollectiveSlot slot;
    CollectiveRegion* region = nullptr;
    std::vector<transport::cuda_ipc::Mapping*> mappings;
    std::array<uint64_t, device::kernel::Collective::kRanks> regions{};
    bool linked = false;      ///< all ranks publish that NVLink connects all GPUs
    uint32_t max_blocks = 0;  ///< most blocks of a kernel, equal on all ranks; 0: no limit
  };
  /// Progress of opening, published by each rank.
  enum class Stage : uint32_t { nothing, published, mapped, failed };
  /// Publishes the descriptor of this rank's region.
  void publish_descriptor(const device::Memory& near, host::SlotChannel& channel);
  [[nodiscard]] bool all_ranks_prepared(host::SlotChannel& channel);
  void release();
  static constexpr uint32_t kLinked =
      1;  ///< flag beside the stage: this rank's driver reports NVLink between all GPUs
  [[nodiscard]] static uint32_t stage_word(Stage stage) { return 2 * static_cast<uint32_t>(stage); }
  [[nodiscard]] bool all_at(Stage stage, const host::SlotChannel& channel) const;
  [[nodiscard]] Status prepare(const device::Memory& near, Descriptor& descriptor);
  [[nodiscard]] Status map(const host::SlotChannel& channel);
  void finish_connect(const host::SlotChannel& channel);
  void set_stage(Stage stage, host::SlotChannel& channel);
  void fail(const std::string& reason);
  [[nodiscard]] Status restart_epochs();
  [[nodiscard]] Status stage_output(Plan& plan);
  [[nodiscard]] Result<bool> finish();
  [[nodiscard]] Result<bool> check_outcome();
  [[nodiscard]] uint64_t own_timeout_ns() const;
  void configure_slot();
  [[nodiscard]] bool ring();
  [[nodiscard]] Status launch();
  void start_resident_kernel();
  [[nodiscard]] Status start();
  void fail_call(Error error);
  void end_call();
  [[nodiscard]] Status check_peers() const;
  [[nodiscard]] bool all_ended(uint64_t call) const;
  [[nodiscard]] bool peers_ended();
  [[nodiscard]] Status run(Plan& plan);

  core::Communicator& comm_;
  DirectBuffers direct_buffers_;
  std::optional<Plan> prepared_;  // direct-buffer plan of the next run()
  State state_ = State::unknown;
  Stage stage_ = Stage::nothing;
  Status mapped_;       // outcome on this rank, until all ranks have published
  uint32_t links_ = 0;  // kLinked or 0, from the mapping on
  Resources resources_;
  uint32_t epoch_ = 0;
  host::SlotChannel* channel_ = nullptr;  // set when opening begins
  uint64_t calls_ = 0;                    // number of begun calls, equal on all ranks
  Plan* running_ = nullptr;
  Status failure_;                  // of the running call: no kernel of this rank runs
  uint64_t peers_deadline_ns_ = 0;  // of the wait for the peers after that; 0: no rank has died
  Plan early_plan_;                 // made by plan_early()
  bool early_resident_running_ = false;
  uint64_t early_largest_ = 0;      // its largest message; 0: no plan
  uint32_t launches_ = 0;           // launches of the running call
  uint64_t resident_start_at_ = 0;  // when to start the resident kernel for later calls; 0: never
  device::Workspace staging_;       // where kernels store the output of some in-place calls
  device::Ticket copy_;             // from staging_ to the output buffer
};

}  // namespace weft::coll::gpu
