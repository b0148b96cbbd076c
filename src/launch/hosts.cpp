// SPDX-License-Identifier: BSD-3-Clause
#include "launch/hosts.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "launch/cpus.hpp"

namespace weft::launch {

std::string this_host() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return first_line("/proc/sys/kernel/random/boot_id") + "/" + name;
}

void set_local_rank(Job& job) {
  const auto begin = job.host_of_rank.begin();
  const int mine = job.host_of_rank[static_cast<size_t>(job.rank)];
  job.local_rank = static_cast<int>(std::count(begin, begin + job.rank, mine));
  job.local_size = static_cast<int>(std::count(begin, job.host_of_rank.end(), mine));
}

Status gather_hosts(Exchange& exchange, Job& job) {
  WEFT_TRY(exchange.put("host." + std::to_string(job.rank), this_host()));
  WEFT_TRY(exchange.share());
  std::map<std::string, int> numbers;
  std::vector<int> hosts;
  hosts.reserve(static_cast<size_t>(job.size));
  for (int rank = 0; rank < job.size; ++rank) {
    auto host = exchange.get("host." + std::to_string(rank), rank);
    if (!host) return std::move(host).error();
    hosts.push_back(numbers.emplace(*host, static_cast<int>(numbers.size())).first->second);
  }
  job.host_of_rank = std::move(hosts);
  set_local_rank(job);
  return {};
}

}  // namespace weft::launch
