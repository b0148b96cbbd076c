// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/message/errors.hpp"

#include <string>

namespace weft::p2p {

Error truncation_error(const Transfer& t) {
  // Steps of collectives: no count of the program is surely too small.
  const bool of_program = t.comm == nullptr || t.context == t.comm->context(core::Channel::user);
  const char* const remedy =
      of_program
          ? ": receive with a larger count"
          : ": make collectives, counts and types of all ranks agree (WEFT_CHECK=on names what differs)";
  return Error(Errc::truncate, "the message has " + std::to_string(t.expected) + " bytes (source " +
                                   std::to_string(t.completion.source) + ", tag " +
                                   std::to_string(t.completion.tag) + "), the receive buffer " +
                                   std::to_string(t.bytes) + remedy);
}

Error loss_error(const core::Instance& instance, uint32_t peer) {
  if (instance.same_host(peer)) return instance.failures.error_of(peer);
  return Error(Errc::proc_aborted, "process " + std::to_string(peer) +
                                       ", on another host, has ended or is unreachable (" +
                                       instance.failures.reason_of(peer) +
                                       "): check its own error messages and the network between the hosts");
}

Error end_inside_error(const Transfer& t) {
  return Error(Errc::type, "the message has " + std::to_string(t.completion.bytes) +
                               " bytes and ends inside an element of the receive's datatype: make"
                               " the datatypes of both sides agree");
}

}  // namespace weft::p2p
