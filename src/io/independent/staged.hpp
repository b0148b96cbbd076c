// SPDX-License-Identifier: BSD-3-Clause
// Independent accesses of any memory kind as tasks. Device memory goes through host memory in two halves, so
// that the copy of one overlaps with the file access of the other. Threading: under the instance lock.
#pragma once
#include <memory>

#include "io/backend/target.hpp"
#include "io/task/operation.hpp"
#include "io/view/view.hpp"
#include "p2p/message/transfer.hpp"

namespace weft::io {

struct IndependentAccess {
  Target& target;
  std::shared_ptr<const View> view;
  int64_t stream;
  p2p::Buffer memory;
  int64_t bytes;
  bool write;
};

[[nodiscard]] Task access_independent(Operation& operation, IndependentAccess access);

/// Whether the CPU cannot access the memory.
[[nodiscard]] bool on_device(const p2p::Buffer& memory);
/// Waits for a job of this operation, which a waiting thread may run. Returns the job's outcome.
[[nodiscard]] Task finish_job(Operation& operation, FileJob& job);

}  // namespace weft::io
