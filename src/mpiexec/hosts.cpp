// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/hosts.hpp"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/text_file.hpp"
#include "launch/environment.hpp"

namespace weft::mpiexec {

namespace {

constexpr int kMaxSlots = 1 << 20;

Status add_host(std::vector<Host>& hosts, const std::string& option, const std::string& name,
                const std::string& slots) {
  const auto number = slots.empty() ? 0 : launch::parse_int(slots, 1, kMaxSlots);
  if (name.empty() || !number)
    return Error(Errc::arg, option + ": '" + name + (slots.empty() ? "" : ":" + slots) +
                                "' is not a host with a number of processes, such as node1:4");
  const auto known = std::find_if(hosts.begin(), hosts.end(), [&](const Host& h) { return h.name == name; });
  if (known == hosts.end())
    hosts.push_back({name, *number});
  else
    known->slots = std::max(known->slots, 1) + std::max(*number, 1);
  return {};
}

/// Parses "node1:4". An entry with more than one colon is an IPv6 address without a number.
Status add_entry(std::vector<Host>& hosts, const std::string& option, const std::string& entry,
                 const std::string& slots) {
  const size_t colon = entry.find(':');
  if (colon == entry.npos) return add_host(hosts, option, entry, slots);
  if (entry.find(':', colon + 1) != entry.npos) {
    in6_addr address;
    if (::inet_pton(AF_INET6, entry.substr(0, entry.find('%')).c_str(), &address) != 1)
      return Error(Errc::arg,
                   option + ": '" + entry + "' is neither an IPv6 address nor a host such as node1:4");
    return add_host(hosts, option, entry, slots);
  }
  return add_host(hosts, option, entry.substr(0, colon), entry.substr(colon + 1));
}

}  // namespace

std::string host_name() {
  char name[256] = "localhost";
  ::gethostname(name, sizeof name - 1);
  return name;
}

bool is_this_host(const std::string& name) {
  const std::string mine = host_name();
  return name == "localhost" || name == "127.0.0.1" || name == mine ||
         name == mine.substr(0, mine.find('.')) || mine == name.substr(0, name.find('.'));
}

Status add_host_list(std::vector<Host>& hosts, const std::string& option, const std::string& list) {
  if (list.empty()) return Error(Errc::arg, option + " needs a list of hosts, such as localhost:4");
  std::stringstream stream(list);
  for (std::string entry; std::getline(stream, entry, ',');) WEFT_TRY(add_entry(hosts, option, entry, ""));
  return {};
}

Status add_host_file(std::vector<Host>& hosts, const std::string& option, const std::string& path) {
  auto text = read_text_file(path, Errc::file);
  if (!text) return Error(Errc::file, option + ": " + text.error().message());
  std::istringstream file(*text);
  for (std::string line; std::getline(file, line);) {
    std::stringstream words(line.substr(0, line.find('#')));
    std::string host, slots;
    if (!(words >> host)) continue;
    for (std::string word; words >> word;)
      if (word.starts_with("slots=")) slots = word.substr(6);
    WEFT_TRY(add_entry(hosts, option + " " + path, host, slots));
  }
  if (hosts.empty()) return Error(Errc::arg, option + ": '" + path + "' names no host");
  return {};
}

Result<std::vector<Host>> distribute_ranks(const std::vector<Host>& hosts, int ranks, bool oversubscribe) {
  const auto count = static_cast<int>(hosts.size());
  std::vector<Host> shares = hosts;
  int slots = 0;
  for (const Host& host : hosts) slots += host.slots;
  if (slots == 0)
    for (int i = 0; i < count; ++i)
      shares[static_cast<size_t>(i)].slots = ranks / count + (i < ranks % count);
  else
    for (Host& share : shares) share.slots = std::max(share.slots, 1);
  slots = 0;
  for (const Host& share : shares) slots += share.slots;
  if (slots < ranks && !oversubscribe)
    return Error(Errc::arg, std::to_string(ranks) + " processes, but the hosts have only " +
                                std::to_string(slots) + " slots (add slots, or use --oversubscribe)");
  int left = ranks;
  std::vector<int> counts(shares.size());
  while (left > 0)
    for (size_t i = 0; i < shares.size(); ++i) {
      const int added = std::min(left, shares[i].slots);
      counts[i] += added;
      left -= added;
    }
  for (size_t i = 0; i < shares.size(); ++i) shares[i].slots = counts[i];
  std::erase_if(shares, [](const Host& share) { return share.slots == 0; });
  return shares;
}

Result<std::vector<std::string>> place_ranks(const std::vector<Host>& hosts, int ranks, bool oversubscribe) {
  auto shares = distribute_ranks(hosts, ranks, oversubscribe);
  if (!shares) return std::move(shares).error();
  std::vector<std::string> names;
  for (const Host& share : *shares) names.insert(names.end(), static_cast<size_t>(share.slots), share.name);
  return names;
}

}  // namespace weft::mpiexec
