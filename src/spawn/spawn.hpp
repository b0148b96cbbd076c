// SPDX-License-Identifier: BSD-3-Clause
// Spawn (MPI 5.0 section 11.8): the launcher starts the processes of a new job, which connects to the
// processes that have spawned it. Threading: under the instance lock, which waits release, but not the
// request to the launcher.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "coll/construct/connect.hpp"
#include "launch/launch.hpp"

namespace weft::spawn {

/// One program, as the root of MPI_Comm_spawn_multiple describes it.
struct Program {
  std::string command;
  std::vector<std::string> arguments;
  int processes = 1;  ///< maxprocs
  launch::Values info;
};

/// The processes that were asked for.
struct Started {
  uint64_t processes = 0;        ///< maxprocs of all programs
  std::vector<uint8_t> process;  ///< whether each is started; empty: none is
};

/// Starts the programs and returns the intercommunicator with their processes. Collective over `local`, an
/// intracommunicator; `programs`, or the error for all ranks instead, is significant at the root only.
/// `started` is filled in after an error, too. Errc::spawn: nothing is started.
[[nodiscard]] coll::NewCommunicator spawn(core::Communicator& local, int root,
                                          Result<std::vector<Program>> programs, Started& started);

/// The intercommunicator of a spawned job with its parents, null for other jobs. Collective over `world`.
[[nodiscard]] coll::NewCommunicator connect_parent(core::Communicator& world);

/// The largest number up to `most` that a value of the info key `soft` lists ("1:8:2,10"); 0: there is none.
/// Errc::info_value: malformed.
[[nodiscard]] Result<int> largest_of(const std::string& soft, int most);
/// Lines "key = value" of a file of the info key `file`; lines that begin with # are comments.
[[nodiscard]] Result<launch::Values> read_info_file(const std::string& path);

}  // namespace weft::spawn
