// SPDX-License-Identifier: BSD-3-Clause
// The launcher over ssh that `weft hosts --setup` has installed: a Hydra in a folder of the user, under the
// same path on each host. Its files: bin/mpiexec.hydra, bin/hydra_pmi_proxy, and `hosts`, a line for each
// host.
#pragma once
#include <string>
#include <vector>

#include "mpiexec/hosts.hpp"

namespace weft::mpiexec {

struct SshLauncher {
  std::string hydra;               ///< path of mpiexec.hydra; empty: not set up
  std::vector<std::string> hosts;  ///< names with which it was set up
};

/// Reads what is set up in a folder (launch/launcher_folder.hpp).
[[nodiscard]] SshLauncher read_ssh_launcher(const std::string& folder);

/// Returns the hosts on which it is not set up; this host needs no entry.
[[nodiscard]] std::vector<std::string> missing_hosts(const SshLauncher& launcher,
                                                     const std::vector<Host>& hosts);

}  // namespace weft::mpiexec
