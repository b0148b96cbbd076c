// SPDX-License-Identifier: BSD-3-Clause
// PMIx library: finds libpmix.so.2 at run time. It stays loaded for the life of the process.
#pragma once
#include <string>

#include "base/result.hpp"
#include "launch/pmix/abi.hpp"

namespace weft::launch::pmix {

struct Library {
  Functions call;
  std::string path;     ///< of the file
  std::string version;  ///< "4.2.2"
};

/// In this order: launch.pmix_library, one that is loaded already, the launcher's own (of a parent process),
/// the system's. The error names what was tried.
[[nodiscard]] Result<Library> open_library();

/// The mapped file called `name` in the text of a /proc/PID/maps; empty: there is none.
[[nodiscard]] std::string find_mapped(const std::string& maps, const std::string& name);

}  // namespace weft::launch::pmix
