// SPDX-License-Identifier: BSD-3-Clause
// Hosts: parses lists of hosts and distributes ranks over them.
#pragma once
#include <string>
#include <vector>

#include "base/result.hpp"

namespace weft::mpiexec {

struct Host {
  std::string name;
  int slots = 0;  ///< number of processes; 0: unspecified
};

/// Returns this host's name.
[[nodiscard]] std::string host_name();
[[nodiscard]] bool is_this_host(const std::string& name);
/// Adds the hosts of a list such as "localhost,other:4". `option` appears in error texts. The slots of a
/// repeated host add up; an unspecified number counts as 1.
[[nodiscard]] Status add_host_list(std::vector<Host>& hosts, const std::string& option,
                                   const std::string& list);
/// Adds the hosts of a file: one host per line, "node1", "node1:4" or "node1 slots=4"; "#" starts a comment.
[[nodiscard]] Status add_host_file(std::vector<Host>& hosts, const std::string& option,
                                   const std::string& path);

/// Returns the host of each rank; ranks fill one host after the other. If no host has slots, all get equal
/// shares. Too few slots: Errc::arg, or with `oversubscribe` continues again with the first host.
[[nodiscard]] Result<std::vector<std::string>> place_ranks(const std::vector<Host>& hosts, int ranks,
                                                           bool oversubscribe);
/// Same distribution as slots: the number of ranks of each host that gets any.
[[nodiscard]] Result<std::vector<Host>> distribute_ranks(const std::vector<Host>& hosts, int ranks,
                                                         bool oversubscribe);

}  // namespace weft::mpiexec
