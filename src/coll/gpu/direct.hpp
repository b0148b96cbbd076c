// SPDX-License-Identifier: BSD-3-Clause
// Direct: large blocking calls whose kernels store in the other ranks' buffers, which are mapped for it by
// the caches that messages use. Threading: under the instance lock.
#pragma once
#include <vector>

#include "base/result.hpp"
#include "coll/call.hpp"
#include "coll/gpu/plan.hpp"
#include "coll/shared/channel.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::coll::gpu {

/// Whether a call is large enough, and of a kind, to be tried so; sees only what is equal on all ranks.
[[nodiscard]] bool wants_direct(const Call& call, uint64_t largest);

/// The plan of such a call, without addresses of other ranks; an area has `room` for pieces.
[[nodiscard]] Plan direct_plan(const Call& call, uint64_t largest, uint64_t room);

class Direct {
 public:
  explicit Direct(core::Communicator& comm) : comm_(comm) {}
  ~Direct() { release(); }
  Direct(const Direct&) = delete;
  Direct& operator=(const Direct&) = delete;

  /// Collective, while all ranks are in the call: two steps of the channel. True, on all ranks, when each has
  /// mapped where it stores; `plan` is the call's then, and the mappings stay until release().
  [[nodiscard]] bool prepare(const Call& call, uint64_t largest, const device::Memory& area,
                             shared::Channel& channel, Plan& plan);
  void release();

 private:
  struct Card;
  [[nodiscard]] Status describe(const Call& call, const device::kernel::Collective& c, Card& own) const;
  [[nodiscard]] Status show(const device::Memory& memory, transport::cuda_ipc::Region& region) const;
  void learn(uint32_t rank, const transport::cuda_ipc::Region& region) const;
  [[nodiscard]] Status map(const Call& call, const std::vector<Card>& cards, const device::Memory& near,
                           device::kernel::Direct& direct);

  core::Communicator& comm_;
  std::vector<transport::cuda_ipc::Mapping*> mappings_;
};

}  // namespace weft::coll::gpu
