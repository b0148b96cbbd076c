// SPDX-License-Identifier: BSD-3-Clause
#include "coll/gpu/provider.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/config.hpp"
#include "base/log.hpp"
#include "coll/circle.hpp"
#include "coll/gpu/plan.hpp"
#include "coll/hints.hpp"
#include "core/instance.hpp"

namespace weft::coll::gpu {
namespace {

config::Choice wanted{"coll.nccl",
                      0,
                      {"off", "on"},
                      "large blocking reductions of device buffers by NCCL; its order of terms is its own"};
config::Size least{"coll.nccl_min", 64 << 20, 0, size_t{1} << 40,
                   "bytes of a vector or block from which coll.nccl counts"};

log::SlowPath refused{"coll.nccl_refused", "large reductions go by Weft's own kernels, as without coll.nccl"};

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

/// What the first rank has to tell: whether it has an id.
struct Offer {
  device::Nccl::Id id;
  uint32_t good;
};

}  // namespace

Provider::~Provider() {
  if (comm_.instance.gpu_scratch == nullptr) static_cast<void>(nccl_.release());  // MPI is over
}

Status Provider::connect(const device::Memory& near) {
  Offer offer{};
  Status own;
  if (comm_.rank() == 0) {
    auto id = device::Nccl::make_id();
    offer.good = id.ok() ? 1 : 0;
    if (id)
      offer.id = *id;
    else
      own = std::move(id).error();
  }
  const Circle circle(comm_, comm_.next_collective_tag());
  WEFT_TRY(circle.broadcast(&offer, sizeof offer));
  if (offer.good == 0)
    return own.ok() ? Error(Errc::unsupported, "rank 0 cannot: see its log") : std::move(own);
  auto joined = device::Nccl::join(offer.id, comm_.rank(), comm_.size(), near);
  std::vector<uint32_t> good(static_cast<size_t>(comm_.size()));
  good[static_cast<size_t>(comm_.rank())] = joined.ok() ? 1 : 0;
  WEFT_TRY(Circle(comm_, comm_.next_collective_tag()).gather_all(good.data(), sizeof good[0]));
  if (!joined) return std::move(joined).error();
  if (std::find(good.begin(), good.end(), 0u) != good.end())
    return Error(Errc::unsupported, "another rank of the communicator cannot: see its log");
  nccl_ = std::move(*joined);
  return {};
}

bool Provider::takes(const Call& call, uint64_t largest, const device::Memory& near) {
  if (value_for(call, wanted) == 0 || largest < value_for(call, least) || !kind_of(call.what) ||
      !device::Nccl::computes(kernel_reduction(call)))
    return false;
  if (!std::exchange(tried_, true))
    if (Status connected = connect(near); !connected.ok()) refused.hit(connected.error().message());
  return nccl_ != nullptr;
}

Status Provider::run(const Call& call) {
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
