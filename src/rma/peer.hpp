// SPDX-License-Identifier: BSD-3-Clause
// Peer: state of this process for one process of a window.
// Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/process_table.hpp"
#include "rma/arguments.hpp"
#include "rma/control.hpp"
#include "transport/rma/rma.hpp"

namespace weft::rma {

/// Lock of this process on a target.
enum class Lock : uint8_t { none, shared, exclusive };

/// Memory that a peer has attached to a dynamic window.
struct RemoteRegion {
  transport::rma::Id region;  ///< of the peer
  uint64_t address, length;   ///< in the peer
  bool on_device;
  bool gpu_atomics;
  std::unique_ptr<Target> target;
};

/// State of this process for one target. The first cache line has all that the common cases (now.hpp) need.
struct alignas(64) Peer {
  /// Address at which the CPU accesses its memory; null: not mapped, or not to be accessed any more.
  std::byte* host = nullptr;
  /// Bytes at `host` that operations may access now: its size in an access epoch of MPI that covers it, if
  /// its control block is mapped, too; else 0. Window::update_access() keeps it.
  uint64_t accessible = 0;
  int64_t disp_unit = 1;
  size_t pending = 0;          ///< operations of Operation that are not complete
  Control* control = nullptr;  ///< null: only messages reach the peer's control block
  Status outcome;              ///< the first error of an operation by Operation since the last flush
  core::ProcessId process = 0;
  Lock lock = Lock::none;
  bool checked = true;    ///< false: locked with MPI_MODE_NOCHECK, which takes no lock
  bool granted = false;   ///< a lock requested by message
  bool started = false;   ///< in the group of MPI_Win_start
  bool detached = false;  ///< of a revoked window: it accesses no memory of this process any more
  bool on_device = false;
  bool gpu_atomics = false;  ///< its memory is on a GPU that executes gpu_accumulate.hpp
  uint64_t size = 0;
  Target* memory = nullptr;                     ///< null: no memory, or a dynamic window
  uint64_t offset = 0;                          ///< of its window memory in `memory`
  uint32_t posts_made = 0, completes_made = 0;  ///< values of this process's words in `control`
  uint32_t posts_seen = 0;      ///< MPI_Win_post calls of the peer that MPI_Win_start has matched
  uint32_t completes_seen = 0;  ///< MPI_Win_complete calls of the peer that MPI_Win_wait has matched
  uint32_t version = 0;         ///< of `regions`
  bool queried = false;         ///< a query for a region is answered in `answer`
  bool answer_gpu_atomics = false;
  std::unique_ptr<transport::rma::Key> answer;
  std::vector<RemoteRegion> regions;
  OperationSlot* slot = nullptr;  ///< in which this process posts small operations; null: it posts none
  PostedState posted;
  bool copies = false;  ///< this process can copy from and to its memory by system calls
};

}  // namespace weft::rma
