// SPDX-License-Identifier: BSD-3-Clause
// Access to the members of tickets, for their submission (copy.cpp) and completion (completion.cpp).
#pragma once
#include <cstdint>

#include "device/copy.hpp"
#include "device/cuda/context.hpp"

namespace weft::device {

struct TicketAccess {
  static void set(Ticket& ticket, cuda::TrackedStream& tracked, uint32_t sequence, cuda::Event event) {
    ticket.owner_ = &tracked;
    ticket.sequence_ = sequence;
    ticket.event_ = event;
  }
  using Executor = Ticket::Executor;
  static Ticket make(Executor executor, cuda::State& state, uint32_t number) {
    Ticket ticket;
    ticket.owner_ = &state;
    ticket.sequence_ = number;
    ticket.executor_ = executor;
    return ticket;
  }
  static Executor executor(const Ticket& ticket) { return ticket.executor_; }
  static cuda::State& state(const Ticket& ticket) { return *static_cast<cuda::State*>(ticket.owner_); }
  static cuda::TrackedStream& tracked(const Ticket& ticket) {
    return *static_cast<cuda::TrackedStream*>(ticket.owner_);
  }
  static uint32_t sequence(const Ticket& ticket) { return ticket.sequence_; }
  static cuda::Event event(const Ticket& ticket) { return ticket.event_; }
  static uint64_t& fault_check_at(Ticket& ticket) { return ticket.fault_check_at_; }
};

}  // namespace weft::device
