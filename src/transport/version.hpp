// SPDX-License-Identifier: BSD-3-Clause
// Version: what processes compare at their first contact. All of a job run the same Weft.
#pragma once
#include <string>

#include "base/result.hpp"
#include "transport/transport.hpp"

namespace weft::transport {

inline constexpr char kVersion[] = WEFT_VERSION;

/// `own` and `other`: the version of each process, and what else differs.
[[nodiscard]] inline Error disagreement(Peer self, const std::string& own, Peer peer,
                                        const std::string& other, const std::string& remedy) {
  return Error(Errc::other, "process " + std::to_string(self) + " runs Weft " + own + ", but process " +
                                std::to_string(peer) + " runs Weft " + other + ": " + remedy +
                                " in all processes");
}

}  // namespace weft::transport
