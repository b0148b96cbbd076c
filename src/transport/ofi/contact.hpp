// SPDX-License-Identifier: BSD-3-Clause
// A peer that this process has talked to, or watches.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "transport/ofi/knock.hpp"
#include "transport/ofi/messages.hpp"
#include "transport/ofi/witness.hpp"

namespace weft::transport::ofi {

struct Contact {
  explicit Contact(Peer process) : peer(process) {
    beat.kind = Operation::Kind::beat;
    beat.contact = this;
  }
  enum class State : uint8_t {
    unknown,  ///< its address was not read yet
    open,
    left,  ///< it said goodbye, and nothing since: its end is no failure
    lost   ///< it died or cannot be reached; what is sent to it is dropped
  };
  struct Beat : Operation {
    Contact* contact = nullptr;
  };

  Peer peer;
  State state = State::unknown;
  bool listed = false;   ///< has unsent messages and is in the list of those
  bool told = false;     ///< we said goodbye, and nothing since
  bool beating = false;  ///< the read of its pulse is under way
  abi::Address address = abi::kNoAddress;
  uint64_t pulse = 0, pulse_key = 0;  ///< where a word of its memory can be read
  std::string where;                  ///< its address as its provider wrote it
  std::unique_ptr<Knock> knock;
  std::unique_ptr<Witness> witness;  ///< of a process of this machine, where the provider does not tell
  bool doubted = false;              ///< a fetch from it has failed: its pulse tells whether it died
  bool doubt_asked = false;          ///< the read of its pulse began after that
  int64_t suspect_since = 0;         ///< milliseconds; when its pulse could not be read; 0: no suspicion
  std::string suspicion;
  uint32_t sent = 0, received = 0;         ///< messages: their numbers
  std::map<uint32_t, abi::CqEntry> ahead;  ///< came, but those before them are still under way
  std::deque<Message*> unsent;             ///< libfabric had no room for them, in order
  size_t out = 0;                          ///< messages that libfabric has
  Beat beat;
};

/// What a process publishes about itself.
struct Card {
  uint64_t place = 0;    ///< names the network stack: processes with the same one share a loopback interface
  uint64_t machine = 0;  ///< as own_machine() names it
  pid_t process = 0;
  uint64_t pulse = 0, pulse_key = 0;
  bool loopback = false;  ///< the address is one of the loopback interface
  std::string provider;
  std::string address;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] static Result<Card> parse(const std::string& text);
};
/// A number for this boot of the machine and one of this process's namespaces, by its path in /proc.
[[nodiscard]] uint64_t boot_and(const char* name);
/// This process's Card::place.
[[nodiscard]] uint64_t own_place();

}  // namespace weft::transport::ofi
