// SPDX-License-Identifier: BSD-3-Clause
// Hardware resource types for MPI_Comm_split_type (MPI 5.0 section 7.4.2), with hwloc names, read from sysfs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weft::api {

struct HardwareResource {
  const char* type;      ///< "hwloc://Package"
  int64_t instance = 0;  ///< instance that this process is restricted to; -1: several
};

/// Resource types of the host from the largest to the smallest. `sys`: "/sys", or a copy in tests; `cpus`:
/// affinity of the process. Types that sysfs does not report are left out.
[[nodiscard]] std::vector<HardwareResource> hardware_resources(const std::string& sys,
                                                               const std::vector<int>& cpus);

}  // namespace weft::api
