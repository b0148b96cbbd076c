// SPDX-License-Identifier: BSD-3-Clause
// Device copies of requests in flight.
// Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <vector>

#include "base/trace.hpp"
#include "core/request_table.hpp"
#include "device/copy.hpp"
#include "transport/cuda_ipc/ipc.hpp"
#include "transport/shm/shm.hpp"

namespace weft::p2p {

class Transfer;

/// One device copy on behalf of a request: a receive's get, or a send's put.
struct DeviceCopy {
  Transfer* request = nullptr;
  uint32_t peer = 0;
  core::RequestId sender = core::kNoRequest;  ///< get: the sender, which awaits a FIN; none: no FIN is due
  transport::cuda_ipc::Mapping* mapping = nullptr;
  std::byte* remote = nullptr;                    ///< address in `mapping`
  transport::shm::ReadyToReceive* rtr = nullptr;  ///< put: the claimed RTR; null: a get
  bool bounce = false;                            ///< put: into a bounce buffer of the receiver
};

/// A submission in flight and the copies it serves.
struct CopySubmission {
  device::Ticket ticket;
  DeviceCopy copy;
  std::vector<DeviceCopy> rest;    ///< of a batch
  device::Ticket second_ticket{};  ///< upload of the other staging chunk
  uint64_t traced_since = trace::copy_start();
};

}  // namespace weft::p2p
