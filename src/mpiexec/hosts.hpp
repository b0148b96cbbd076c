// SPDX-License-Identifier: BSD-3-Clause
// Hosts: the lists of hosts that a user gives, and which of them is this one.
#pragma once
#include <string>
#include <vector>

#include "base/result.hpp"

namespace weft::mpiexec {

struct Host {
  std::string name;
  int slots = 0;  ///< processes it takes; 0: not said
};

/// This host's name, as in messages.
[[nodiscard]] std::string host_name();
[[nodiscard]] bool is_this_host(const std::string& name);
/// "localhost,other:4"; `option` is named in the error. A host that is named again takes one more process.
[[nodiscard]] Status add_host_list(std::vector<Host>& hosts, const std::string& option,
                                   const std::string& list);
/// One host a line, "node1", "node1:4" or "node1 slots=4"; "#" starts a comment.
[[nodiscard]] Status add_host_file(std::vector<Host>& hosts, const std::string& option,
                                   const std::string& path);

/// The host of each rank, filled one host after the other. Where no host has slots, all take equal shares.
/// Errc::arg: the slots are too few, and `oversubscribe` does not say to start over with the first host.
[[nodiscard]] Result<std::vector<std::string>> place_ranks(const std::vector<Host>& hosts, int ranks,
                                                           bool oversubscribe);
/// The same as slots: how many of `ranks` each host takes, every host once.
[[nodiscard]] Result<std::vector<Host>> share_ranks(const std::vector<Host>& hosts, int ranks,
                                                    bool oversubscribe);

}  // namespace weft::mpiexec
