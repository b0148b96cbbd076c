// SPDX-License-Identifier: BSD-3-Clause
// List of networks, selection, and the address record that each process publishes.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/config.hpp"
#include "base/scope.hpp"
#include "transport/network.hpp"
#include "transport/ofi/ofi.hpp"
#include "transport/secret.hpp"
#include "transport/ucx/ucx.hpp"
#include "transport/version.hpp"

namespace weft::transport {

counters::Counter foreign_messages("net.foreign_messages", counters::Unit::events,
                                   "network messages without the secret of this process, dropped");

namespace {

config::Choice setting_net{
    "net",
    0,
    {"auto", "ucx", "ofi", "none"},
    "Network library between hosts: UCX, libfabric (ofi), none, or auto for the first usable one.",
    "the automatic choice is not the intended library, or a problem may be in that library"};

struct NetworkEntry {
  const char* name;
  Result<std::unique_ptr<Network>> (*open)(const launch::Job& job);
};
constexpr NetworkEntry kNetworks[] = {{"ucx", ucx::open}, {"ofi", ofi::open}};

/// On Slingshot (cxi) UCX would only find sockets. All hosts are assumed to be alike.
bool prefers_libfabric() {
  return std::getenv("FI_PROVIDER") != nullptr || ::access("/sys/class/cxi", F_OK) == 0;
}

/// In the order that `auto` tries.
std::vector<NetworkEntry> networks_by_priority() {
  std::vector<NetworkEntry> order(std::begin(kNetworks), std::end(kNetworks));
  if (prefers_libfabric()) std::reverse(order.begin(), order.end());
  return order;
}

std::string key_of(Peer peer) { return "net." + std::to_string(peer); }

struct AddressRecord {
  std::string version, network, settings, address;
};

Error malformed_record(Peer peer) {
  return Error(Errc::other, "process " + std::to_string(peer) +
                                " published a network address that this version of Weft (" + kBuildVersion +
                                ") cannot parse: start all ranks with the same Weft");
}

/// Of a record by another version, only the first two lines have a known meaning.
Result<AddressRecord> parse(const std::string& text, Peer peer) {
  const size_t first = text.find('\n');
  const size_t second = first == std::string::npos ? first : text.find('\n', first + 1);
  if (second == std::string::npos) return malformed_record(peer);
  AddressRecord record{text.substr(0, first), text.substr(first + 1, second - first - 1), {}, {}};
  if (record.version != kBuildVersion) return record;
  const size_t third = text.find('\n', second + 1);
  if (third == std::string::npos) return malformed_record(peer);
  record.settings = text.substr(second + 1, third - second - 1);
  record.address = text.substr(third + 1);
  return record;
}

}  // namespace

std::string address_record(const Network& network) {
  return std::string(kBuildVersion) + "\n" + network.name() + "\n" +
         config::common_values(config::Scope::job) + "\n" + network.address();
}

AddressBook::AddressBook(const Network& network, launch::Exchange& exchange)
    : settings_(config::common_values(config::Scope::job)), network_(network), exchange_(exchange) {}

Result<std::string> AddressBook::address(Peer peer) {
  if (const auto known = others_.find(peer); known != others_.end()) return known->second;
  auto text = exchange_.get(key_of(peer), static_cast<int>(peer));
  if (!text) return std::move(text).error();
  auto record = parse(*text, peer);
  if (!record) return std::move(record).error();
  if (record->version != kBuildVersion || record->network != network_.name())
    return version_mismatch(static_cast<Peer>(exchange_.job().rank),
                            std::string(kBuildVersion) + " with the network " + network_.name(), peer,
                            record->version + " with " + record->network,
                            "use one Weft, and the same WEFT_NET,");
  if (record->settings != settings_)
    return config::difference(settings_, exchange_.job().rank, record->settings, static_cast<int>(peer));
  return std::move(record->address);
}

Status AddressBook::add(Peer peer, std::string text) {
  auto record = parse(text, peer);
  if (!record) return std::move(record).error();
  if (record->version != kBuildVersion || record->network != network_.name())
    return Error(Errc::unsupported, "the other job uses Weft " + record->version + " with the network " +
                                        record->network + ", and this one " + kBuildVersion + " with " +
                                        network_.name() + ": use one Weft, and the same WEFT_NET, in both");
  others_.insert_or_assign(peer, std::move(record->address));
  return {};
}

Result<std::unique_ptr<Network>> open_network(const launch::Job& job, const std::string& need) {
  std::string attempts;
  for (const NetworkEntry& candidate : networks_by_priority()) {
    if (!setting_net.is("auto") && !setting_net.is(candidate.name)) continue;
    auto network = candidate.open(job);
    if (network) return network;
    attempts += std::string("\n  ") + candidate.name + ": " + network.error().message();
  }
  if (attempts.empty())
    attempts = "\n  WEFT_NET=" + setting_net.value_text() +
               (setting_net.is("none") ? " allows no network" : ": this build has no such network");
  return Error(Errc::unsupported, need + attempts);
}

Status publish_address(const Network& network, launch::Exchange& exchange) {
  return exchange.put(key_of(static_cast<Peer>(exchange.job().rank)), address_record(network));
}

std::string describe_networks() {
  std::string lines;
  launch::Job job;
  job.size = 2;
  for (const NetworkEntry& candidate : kNetworks) {
    auto network = candidate.open(job);
    lines += std::string("network\t") + candidate.name + ": " +
             (network ? (*network)->description() : "not usable: " + network.error().message()) + "\n";
  }
  for (const std::string& other : ucx::other_libraries()) lines += "other network library\t" + other + "\n";
  return lines;
}

// All processes of a host compare with the first one of other hosts, so all of them reach the same result.
Status check_addresses(AddressBook& addresses, launch::Exchange& exchange) {
  const launch::Job& job = exchange.job();
  int reference = 0;
  while (job.same_host(reference, job.rank)) ++reference;
  auto agreed = addresses.address(static_cast<Peer>(reference));
  return agreed ? Status() : std::move(agreed).error();
}

}  // namespace weft::transport
