// SPDX-License-Identifier: BSD-3-Clause
// File systems: their kinds, and the layout of files over the servers of Lustre.
// Threading: any thread.
#pragma once
#include <cstdint>
#include <string>

#include "io/backend/descriptor.hpp"

namespace weft::io {

/// Name of the file system of an open file, such as "ext4" or "type 0x1234".
[[nodiscard]] std::string file_system_name(const Descriptor& file);
/// Whether all processes that access the file share one page cache, in which mappings and writes are
/// coherent: a file system of one host.
[[nodiscard]] bool on_local_file_system(const Descriptor& file);

/// Whether the pages of the file are the file, and may be mapped and written without a notification: tmpfs.
[[nodiscard]] bool in_memory(const Descriptor& file);

/// Whether each host keeps pages of the file until it asks the server for a lock: NFS.
[[nodiscard]] bool cached_by_hosts(const Descriptor& file);

/// How a file is spread over servers (object storage targets).
struct Stripes {
  int64_t count = 0;  ///< servers; 0: unknown, or the default of the folder
  int64_t bytes = 0;  ///< adjacent bytes on one server; 0: as `count`
};

/// The layout of an open file; {}: the file is not on Lustre, or has several layouts.
[[nodiscard]] Stripes stripes_of(const Descriptor& file);
/// Flags of open(2) with which a new file at `path` gets its layout by set_stripes(); 0: not on Lustre.
[[nodiscard]] int stripe_later(const std::string& path);
/// Sets the layout of a new file on Lustre. A file that has a layout keeps it.
void set_stripes(const Descriptor& file, const Stripes& wanted);

}  // namespace weft::io
