// SPDX-License-Identifier: BSD-3-Clause
// Comparison of versions at first contact: all processes of a job must run the same version of the same
// commit.
#pragma once
#include <string>

#include "base/result.hpp"
#include "base/version.hpp"
#include "transport/transport.hpp"

namespace weft::transport {

/// `own` and `other`: version of each process, with any other difference.
[[nodiscard]] inline Error version_mismatch(Peer self, const std::string& own, Peer peer,
                                            const std::string& other, const std::string& remedy) {
  return Error(Errc::other, "process " + std::to_string(self) + " runs Weft " + own + ", but process " +
                                std::to_string(peer) + " runs Weft " + other + ": " + remedy +
                                " in all processes");
}

}  // namespace weft::transport
