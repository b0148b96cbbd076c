// SPDX-License-Identifier: BSD-3-Clause
// ProtocolStates: what protocols keep for all requests of the process, opaque to the engine.
#pragma once
#include <unordered_set>

#include "p2p/bounce.hpp"
#include "p2p/gpudirect.hpp"
#include "p2p/protocol/put.hpp"
#include "p2p/protocol/regions.hpp"
#include "p2p/staging.hpp"

namespace weft::p2p {

struct ProtocolStates {
  explicit ProtocolStates(Engine& engine) : regions(engine), put(engine), gpudirect(engine) {}
  Regions regions;
  BouncePool bounce_pool;
  StagingLimits staging;
  PutProtocol put;
  GpuDirect gpudirect;
  std::unordered_set<core::ContextId> revoked;  ///< ids of revoked communicators, which are not used again
};

}  // namespace weft::p2p
