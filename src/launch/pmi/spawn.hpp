// SPDX-License-Identifier: BSD-3-Clause
// The PMI-1 command that starts further processes: one block of lines per program, and its reply. Weft's
// mpiexec gets escaped values, other launchers get them as they are.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "launch/launch.hpp"
#include "launch/pmi/wire.hpp"

namespace weft::launch::pmi {

/// Key of the value that the new processes read (Exchange::parent_value).
inline constexpr const char* kParentKey = "weft-parent";

/// The lines of a request. Errc::spawn: a value cannot be sent to this launcher.
[[nodiscard]] Result<std::string> spawn_lines(const SpawnRequest& request, bool weft_mpiexec);

/// Collects the lines of a request to Weft's mpiexec.
class SpawnReader {
 public:
  /// A line between "mcmd=spawn" and "endcmd". False: malformed.
  [[nodiscard]] bool add(std::string_view line);
  /// Ends a block. Returns the request after its last block.
  [[nodiscard]] std::optional<SpawnRequest> end_block();
  /// The parent's value of the request that has ended, as the key-value space of the new job stores it.
  [[nodiscard]] Values take_stored();

 private:
  SpawnProgram program_;
  SpawnRequest request_;
  Values stored_;
  size_t programs_ = 0;  // of the request
};

[[nodiscard]] Message spawn_reply(const Spawned& spawned);
/// Reads a reply of any launcher. `processes`: of the request.
[[nodiscard]] Spawned parse_spawn_reply(const Message& reply, int processes);

}  // namespace weft::launch::pmi
