// SPDX-License-Identifier: BSD-3-Clause
// Version, compared at first contact: all processes of a job must run the same Weft.
#pragma once
#include <string>

#include "base/result.hpp"
#include "transport/transport.hpp"

namespace weft::transport {

inline constexpr char kVersion[] = WEFT_VERSION;

/// `own` and `other`: version of each process, with any other difference.
[[nodiscard]] inline Error version_mismatch(Peer self, const std::string& own, Peer peer,
                                            const std::string& other, const std::string& remedy) {
  return Error(Errc::other, "process " + std::to_string(self) + " runs Weft " + own + ", but process " +
                                std::to_string(peer) + " runs Weft " + other + ": " + remedy +
                                " in all processes");
}

}  // namespace weft::transport
