// SPDX-License-Identifier: BSD-3-Clause
// Domain: what a communicator has for collectives by kernels: every rank's scratch, mapped here, and a port
// from which kernels start. Made once, when all ranks have shown operands in GPU memory, or refused once and
// for all. Threading: under the instance lock.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "coll/call.hpp"
#include "coll/gpu/plan.hpp"
#include "coll/gpu/scratch.hpp"
#include "coll/shared/channel.hpp"
#include "device/collective.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::coll::gpu {

class Domain {
 public:
  explicit Domain(core::Communicator& comm) : comm_(comm) {}
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  enum class State : uint8_t { unknown, open, refused };
  /// The same on all ranks.
  [[nodiscard]] State state() const { return state_; }
  /// Collective, all ranks with operands in GPU memory: opens the domain, or refuses it, by name. An error
  /// only where the ranks cannot talk.
  [[nodiscard]] Status connect(const device::Memory& near);
  /// Kernels of this rank can work on such memory.
  [[nodiscard]] bool reaches(const device::Memory& memory) const { return port_.reaches(memory); }
  /// Collective, after all have arrived: runs a call to its end.
  [[nodiscard]] Status run(const Call& call, uint64_t largest, shared::Channel& channel);

 private:
  struct Offer;
  [[nodiscard]] Status prepare(const device::Memory& near, Offer& offer);
  [[nodiscard]] Status map(const std::vector<Offer>& offers);
  void refuse(const std::string& reason);
  [[nodiscard]] Status next_epoch(shared::Channel& channel);
  [[nodiscard]] uint64_t own_patience() const;
  void settle();
  [[nodiscard]] Status launch(Plan& plan, uint32_t number);
  [[nodiscard]] Result<device::CollectivePort::Outcome> finish();

  core::Communicator& comm_;
  State state_ = State::unknown;
  device::CollectivePort port_;
  ScratchArea* area_ = nullptr;
  uint32_t epoch_ = 0;
  std::vector<transport::cuda_ipc::Mapping*> mappings_;
  std::array<uint64_t, device::kernel::Collective::kRanks> areas_{};
};

}  // namespace weft::coll::gpu
