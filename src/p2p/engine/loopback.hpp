// SPDX-License-Identifier: BSD-3-Clause
// Loopback: messages of this process to itself. Threading: under the instance lock.
#pragma once
#include "p2p/message/transfer.hpp"

namespace weft::p2p {

class Engine;

class Loopback {
 public:
  explicit Loopback(Engine& engine) : engine_(engine) {}
  /// Copies the message into a posted receive. Else stores it as unexpected, small messages with their
  /// payload, others as an RTS.
  void send(Transfer& t);
  /// Copies a matched message and completes both sides.
  void copy(Transfer& t, Transfer& sender);

 private:
  Engine& engine_;
};

}  // namespace weft::p2p
