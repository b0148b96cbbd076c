// SPDX-License-Identifier: BSD-3-Clause
#include "coll/gpu/nccl.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/config.hpp"
#include "base/log.hpp"
#include "coll/algorithm/order.hpp"
#include "coll/bootstrap/group.hpp"
#include "coll/gpu/plan.hpp"
#include "coll/schedule/hints.hpp"
#include "core/instance.hpp"

namespace weft::coll::gpu {
namespace {

config::Choice enabled{
    "coll.nccl",
    0,
    {"off", "on"},
    "Large blocking reductions of device buffers by NCCL, which chooses the order of the terms.",
    "large reductions are faster with NCCL on this machine (on)"};
config::Size min_bytes{"coll.nccl_min_bytes", 64 << 20, 0, size_t{1} << 40,
                       "Smallest vector or block in bytes that coll.nccl hands to NCCL."};

log::SlowPath refused{"coll.nccl_refused", "large reductions use Weft's own kernels, as without coll.nccl"};

using Kind = device::Nccl::Kind;

std::optional<Kind> kind_of(Collective what) {
  switch (what) {
    case Collective::allreduce:
      return Kind::all_reduce;
    case Collective::reduce:
      return Kind::reduce;
    case Collective::reduce_scatter_block:
      return Kind::reduce_scatter;
    default:
      return std::nullopt;
  }
}

/// Broadcast by rank 0: the id, and whether it exists.
struct Invitation {
  device::Nccl::Id id;
  uint32_t good;
};

}  // namespace

NcclProvider::~NcclProvider() {
  if (comm_.instance.gpu_regions == nullptr) static_cast<void>(nccl_.release());  // after MPI_Finalize
}

Status NcclProvider::connect(const device::Memory& near) {
  Invitation invitation{};
  Status own;
  if (comm_.rank() == 0) {
    auto id = device::Nccl::make_id();
    invitation.good = id.ok() ? 1 : 0;
    if (id)
      invitation.id = *id;
    else
      own = std::move(id).error();
  }
  const BootstrapGroup bootstrap(comm_, comm_.next_collective_tag());
  WEFT_TRY(bootstrap.broadcast(&invitation, sizeof invitation));
  if (invitation.good == 0)
    return own.ok() ? Error(Errc::unsupported, "rank 0 cannot create an NCCL id: see its log")
                    : std::move(own);
  auto joined = device::Nccl::join(invitation.id, comm_.rank(), comm_.size(), near);
  std::vector<uint32_t> good(static_cast<size_t>(comm_.size()));
  good[static_cast<size_t>(comm_.rank())] = joined.ok() ? 1 : 0;
  WEFT_TRY(BootstrapGroup(comm_, comm_.next_collective_tag()).allgather(good.data(), sizeof good[0]));
  if (!joined) return std::move(joined).error();
  if (std::find(good.begin(), good.end(), 0u) != good.end())
    return Error(Errc::unsupported, "another rank of the communicator cannot join NCCL: see its log");
  nccl_ = std::move(*joined);
  return {};
}

bool NcclProvider::accepts(const Call& call, uint64_t largest, const device::Memory& near) {
  if (value_for(call, enabled) == 0 || largest < value_for(call, min_bytes) || !kind_of(call.what) ||
      algorithm::rank_order(call) || !device::Nccl::computes(kernel_reduction(call)))
    return false;
  if (!std::exchange(tried_, true))
    if (Status connected = connect(near); !connected.ok()) refused.hit(connected.error().message());
  return nccl_ != nullptr;
}

Status NcclProvider::run(const Call& call) {
  const int64_t count = call.what == Collective::reduce_scatter_block ? call.recv.count : call.send.count;
  const device::kernel::Reduction reduction = kernel_reduction(call);
  const auto bytes = static_cast<size_t>(count * call.send.type->size());
  const int64_t first = call.send.type->true_lb();
  WEFT_TRY(nccl_->start(*kind_of(call.what), advance(call.send.address, first),
                        advance(call.recv.address, first),
                        bytes / device::kernel::element_size(reduction.element), reduction, call.root));
  core::Instance& instance = comm_.instance;
  Result<bool> over = false;
  core::wait_until(instance, [&] {
    over = nccl_->done();
    return !over.ok() || *over;
  });
  return over.ok() ? Status() : Status(std::move(over).error());
}

}  // namespace weft::coll::gpu
