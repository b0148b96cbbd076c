// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/ssh_launcher.hpp"

#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/text_file.hpp"

namespace weft::mpiexec {

SshLauncher read_ssh_launcher(const std::string& folder) {
  SshLauncher launcher;
  const std::string hydra = folder + "/bin/mpiexec.hydra";
  if (folder.empty() || ::access(hydra.c_str(), X_OK) != 0) return launcher;
  launcher.hydra = hydra;
  const auto text = read_text_file(folder + "/hosts", Errc::file);
  std::istringstream lines(text ? *text : "");
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) launcher.hosts.push_back(line);
  return launcher;
}

std::vector<std::string> missing_hosts(const SshLauncher& launcher, const std::vector<Host>& hosts) {
  std::vector<std::string> missing;
  for (const Host& host : hosts)
    if (!is_this_host(host.name) &&
        std::find(launcher.hosts.begin(), launcher.hosts.end(), host.name) == launcher.hosts.end())
      missing.push_back(host.name);
  return missing;
}

}  // namespace weft::mpiexec
