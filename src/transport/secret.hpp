// SPDX-License-Identifier: BSD-3-Clause
// Secret of a process: a random number that every network message to it contains. It is published with the
// network address, so that only processes of the job know it; other messages are dropped.
#pragma once
#include <sys/random.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "base/counters.hpp"
#include "base/result.hpp"

namespace weft::transport {

using Secret = uint64_t;

[[nodiscard]] inline Result<Secret> new_secret() {
  Secret secret = 0;
  if (::getrandom(&secret, sizeof secret, 0) != sizeof secret)
    return Error(Errc::other, "no random numbers for the secret of a process (getrandom failed)");
  return secret;
}

/// Returns the text to publish for an address.
[[nodiscard]] inline std::string with_secret(Secret secret, const std::string& address) {
  return std::string(reinterpret_cast<const char*>(&secret), sizeof secret) + address;
}

/// Returns the secret and the address in a published text.
[[nodiscard]] inline Result<std::pair<Secret, std::string>> split_secret(const std::string& published) {
  std::pair<Secret, std::string> parts{};
  if (published.size() <= sizeof parts.first)
    return Error(Errc::other, "the network address of a peer is truncated (" +
                                  std::to_string(published.size()) +
                                  " bytes): the launcher's key-value exchange lost data");
  std::memcpy(&parts.first, published.data(), sizeof parts.first);
  parts.second = published.substr(sizeof parts.first);
  return parts;
}

/// Network messages without the secret of this process: of other jobs, late or forged. They are dropped.
extern counters::Counter foreign_messages;

}  // namespace weft::transport
