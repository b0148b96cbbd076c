// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/hosts.hpp"

#include <unistd.h>

#include <fstream>
#include <sstream>

namespace weft::mpiexec {

namespace {

bool is_this_host(const std::string& host) {
  const std::string mine = host_name();
  return host == "localhost" || host == "127.0.0.1" || host == mine ||
         host == mine.substr(0, mine.find('.')) || mine == host.substr(0, host.find('.'));
}

Status check_host(const std::string& option, const std::string& entry) {
  const std::string host = entry.substr(0, entry.find(':'));
  if (is_this_host(host)) return {};
  return Error(Errc::unsupported,
               option + ": host '" + host + "' is not this host (" + host_name() +
                   "). Weft's mpiexec starts processes on one host; use mpiexec.hydra to start "
                   "them on several.");
}

}  // namespace

std::string host_name() {
  char name[256] = "localhost";
  ::gethostname(name, sizeof name - 1);
  return name;
}

Status check_host_list(const std::string& option, const std::string& list) {
  if (list.empty()) return Error(Errc::arg, option + " needs a list of hosts, such as localhost:4");
  std::stringstream stream(list);
  for (std::string entry; std::getline(stream, entry, ',');) WEFT_TRY(check_host(option, entry));
  return {};
}

Status check_host_file(const std::string& option, const std::string& path) {
  std::ifstream file(path);
  if (!file) return Error(Errc::file, option + ": cannot read '" + path + "'");
  for (std::string line; std::getline(file, line);) {
    std::stringstream words(line.substr(0, line.find('#')));
    std::string host;
    if (words >> host) WEFT_TRY(check_host(option, host));
  }
  return {};
}

}  // namespace weft::mpiexec
