// SPDX-License-Identifier: BSD-3-Clause
// SlotChannel: leases the slot areas of a communicator's ranks in shared memory for SlotSteps. Threading:
// under the instance lock.
#pragma once
#include <cstdint>
#include <vector>

#include "coll/host/slot_steps.hpp"

namespace weft::coll::host {

class SlotChannel final : public core::CollectiveState, public SlotSteps {
 public:
  explicit SlotChannel(core::Communicator& comm) : SlotSteps(comm) {}
  ~SlotChannel() override;
  /// Collective, in MPI's order of collectives: leases a slot area and starts the allgather of the areas'
  /// numbers.
  [[nodiscard]] Status connect();
  /// True once that allgather has completed; open() is then equal on all ranks. Needs progress until then.
  [[nodiscard]] bool connected() { return exchange_ == nullptr || finish_exchange(); }
  /// Waits until connected(); returns the error of the allgather.
  /// Afterwards open() is false if a rank got no slot area.
  [[nodiscard]] Status wait_connected();
  [[nodiscard]] bool open() const { return !slot_areas_.empty(); }
  /// All ranks can read each other's memory with read_remote().
  [[nodiscard]] bool single_copy() const { return single_copy_; }
  /// At least one rank has a CUDA driver, so operands may be in GPU memory.
  [[nodiscard]] bool any_gpus() const { return any_gpus_; }
  /// The slot area of a rank, also for nonblocking collectives (coll/gpu). After a store to its own area a
  /// rank calls wake_peers().
  [[nodiscard]] SlotArea& slot_area(int rank) const { return *slot_areas_[static_cast<size_t>(rank)]; }
  void wake_peers() {
    if (instance_.oversubscribed) [[unlikely]]
      wake_waiting(nullptr);
  }

 private:
  struct SlotAreaRecord {
    uint32_t slot_area, readable, devices;  // readable: this rank can read the memory of all others
  };
  [[nodiscard]] bool finish_exchange();
  void map_slot_areas();

  SlotArea* leased_ = nullptr;           // by this rank
  std::vector<SlotAreaRecord> records_;  // during the allgather
  core::Request* exchange_ = nullptr;    // the allgather
  Status outcome_;                       // of the allgather
  bool single_copy_ = false, any_gpus_ = false;
};

}  // namespace weft::coll::host
