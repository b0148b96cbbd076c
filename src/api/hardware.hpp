// SPDX-License-Identifier: BSD-3-Clause
// Hardware resources that MPI_Comm_split_type divides by (MPI 5.0 section 7.4.2), named as hwloc names them
// and read from sysfs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weft::api {

struct HardwareResource {
  const char* type;      ///< "hwloc://Package"
  int64_t instance = 0;  ///< number of the one that this process is restricted to; -1: it may use several
};

/// From wide to narrow, those that the host tells of. `sys` is "/sys", or a copy of it in tests; `cpus` those
/// that the process may use.
[[nodiscard]] std::vector<HardwareResource> hardware_resources(const std::string& sys,
                                                               const std::vector<int>& cpus);

}  // namespace weft::api
