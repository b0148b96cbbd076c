// SPDX-License-Identifier: BSD-3-Clause
// Accesses through mappings of pages that a file has in memory (tmpfs). Processes that write by system calls
// wait for each other at the lock of the file; writers to mapped pages do not. Pages stay mapped until the
// file is closed, and later accesses are copies without system calls. If pages are not mapped yet and no
// process waits, the processor decides which is faster, so both are measured for each file, and methods of
// copying for each process. Threading: any thread, without the instance lock.
#pragma once
#include "io/backend/target.hpp"
#include "io/independent/runs.hpp"
#include "io/view/view.hpp"

namespace weft::io {

/// When an access uses mappings of resident pages.
enum class UseResident {
  never,
  measured,  ///< where they have been faster for this file, and where pages are mapped
  always,
  cached,  ///< all pages are mapped
};

/// Whether an access is one of pages in memory that may be mapped: bytes of the file on tmpfs, without holes.
[[nodiscard]] bool is_resident(const Target& target, const View& view, int64_t stream, int64_t bytes);
/// Whether a write of these bytes may replace them through mappings.
[[nodiscard]] bool may_write_resident(const Target& target, const View& view, int64_t stream, int64_t bytes);
/// `parallel`: other threads of this process write at the same time.
[[nodiscard]] UseResident use_of_write(const Target& target, const View& view, int64_t stream, int64_t bytes,
                                       const MemoryStream& memory, bool parallel);
[[nodiscard]] UseResident use_of_read(const Target& target, const View& view, int64_t stream, int64_t bytes,
                                      const MemoryStream& memory);

/// Limits of the batches of these accesses.
[[nodiscard]] Limits resident_limits();
/// Whether a mapping of the batch pays: few enough of the pages that it needs belong to others.
[[nodiscard]] bool maps_resident(const Batch& batch, UseResident use);
/// Reads or writes a batch. Returns the bytes moved, fewer if the file has been truncated.
[[nodiscard]] Result<int64_t> access_resident(Target& target, const MemoryStream& memory, const Batch& batch,
                                              bool write, UseResident use, Block& block);

}  // namespace weft::io
