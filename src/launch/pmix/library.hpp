// SPDX-License-Identifier: BSD-3-Clause
// PMIx library: opens libpmix.so.2 at run time; it stays loaded until the process ends.
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

/// Opens the first available of: launch.pmix_library, a copy already loaded, the library of the launcher (a
/// parent process), the system library. An error lists the attempts.
[[nodiscard]] Result<Library> open_library();

/// Returns the path of the mapped file `name` in the text of /proc/PID/maps; empty if there is none.
[[nodiscard]] std::string find_mapped(const std::string& maps, const std::string& name);

}  // namespace weft::launch::pmix
