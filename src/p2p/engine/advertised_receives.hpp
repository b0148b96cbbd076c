// SPDX-License-Identifier: BSD-3-Clause
// AdvertisedReceives: receives that are advertised to their senders (RTR), and puts into those of peers, as
// the engine sees them. Implemented by protocol/put.hpp. Threading: under the instance lock.
#pragma once
#include <cstdint>

#include "base/result.hpp"
#include "device/copy.hpp"
#include "p2p/message/transfer.hpp"

namespace weft::p2p {

struct DeviceCopy;

class AdvertisedReceives {
 public:
  virtual ~AdvertisedReceives() = default;

  // Receiver.
  /// Advertises a posted receive if that is useful.
  virtual void advertise(Transfer& t) = 0;
  /// Retracts an advertised receive. Returns false if the sender has claimed it already.
  [[nodiscard]] virtual bool retract(Transfer& t) = 0;
  /// Retracts an advertised receive that another message matched here. Returns false if its sender has
  /// claimed it for an earlier message. It has left the posted queue then, and completes when that put is
  /// done.
  [[nodiscard]] virtual bool retract_matched(Transfer& t) = 0;
  /// Returns whether the receive has ended or has made progress.
  virtual bool poll(Transfer& t) = 0;
  /// Ends the receives that the peer has claimed and retracts the others that are advertised to it, which
  /// stay posted.
  virtual void abort_peer(uint32_t peer) = 0;
  /// Retracts all advertised receives before the memory of this process is released. Receives claimed by a
  /// sender stay its own.
  virtual void close() = 0;

  // Sender.
  /// Puts the message into an advertised receive. Returns false if nothing was done: send an RTS.
  [[nodiscard]] virtual bool put(Transfer& t) = 0;
  /// Submits a put into a bounce buffer of the receiver.
  virtual void submit_to_bounce(const DeviceCopy& put, device::StreamRole stream) = 0;
  virtual void finish(const DeviceCopy& put, Status outcome) = 0;
};

}  // namespace weft::p2p
