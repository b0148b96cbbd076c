// SPDX-License-Identifier: BSD-3-Clause
// The networks there are, the choice among them, and what is published about it.
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
#include "transport/ucx/ucx.hpp"
#include "transport/version.hpp"

namespace weft::transport {
namespace {

config::Choice setting_net{"net",
                           0,
                           {"auto", "ucx", "ofi", "none"},
                           "The network library between hosts: UCX, libfabric (ofi), or the first usable."};

struct Entry {
  const char* name;
  Result<std::unique_ptr<Network>> (*open)(const launch::Job& job);
};
constexpr Entry kNetworks[] = {{"ucx", ucx::open}, {"ofi", ofi::open}};

/// UCX would work on Slingshot too, by sockets. All ranks see the same kind of host.
bool libfabric_first() {
  return std::getenv("FI_PROVIDER") != nullptr || ::access("/sys/class/cxi", F_OK) == 0;
}

/// In the order in which `auto` tries them.
std::vector<Entry> in_order() {
  std::vector<Entry> order(std::begin(kNetworks), std::end(kNetworks));
  if (libfabric_first()) std::reverse(order.begin(), order.end());
  return order;
}

std::string key_of(Peer peer) { return "net." + std::to_string(peer); }

/// Version, network, settings and the address, behind a newline each.
std::string card_of(const Network& network) {
  return std::string(kVersion) + "\n" + network.name() + "\n" + config::common_values(config::Scope::job) +
         "\n" + network.address();
}

struct Card {
  std::string version, network, settings, address;
};

Result<Card> parse(const std::string& text, Peer peer) {
  std::string lines[3];
  size_t at = 0;
  for (std::string& line : lines) {
    const size_t end = text.find('\n', at);
    if (end == std::string::npos)
      return Error(Errc::other, "process " + std::to_string(peer) +
                                    " published something about its network that this version of Weft (" +
                                    kVersion + ") cannot read: start all ranks with the same Weft");
    line = text.substr(at, end - at);
    at = end + 1;
  }
  return Card{std::move(lines[0]), std::move(lines[1]), std::move(lines[2]), text.substr(at)};
}

class Cards final : public Directory {
 public:
  Cards(const Network& network, launch::Exchange& exchange) : network_(network), exchange_(exchange) {}
  Result<std::string> address(Peer peer) override {
    auto text = exchange_.get(key_of(peer), static_cast<int>(peer));
    if (!text) return std::move(text).error();
    auto card = parse(*text, peer);
    if (!card) return std::move(card).error();
    if (card->version != kVersion || card->network != network_.name())
      return disagreement(static_cast<Peer>(exchange_.job().rank),
                          std::string(kVersion) + " with the network " + network_.name(), peer,
                          card->version + " with " + card->network, "use one Weft, and the same WEFT_NET,");
    if (card->settings != settings_)
      return config::difference(settings_, exchange_.job().rank, card->settings, static_cast<int>(peer));
    return std::move(card->address);
  }

 private:
  const std::string settings_ = config::common_values(config::Scope::job);
  const Network& network_;
  launch::Exchange& exchange_;
};

}  // namespace

Result<std::unique_ptr<Network>> open_network(launch::Exchange& exchange) {
  const launch::Job& job = exchange.job();
  std::string tried;
  for (const Entry& entry : in_order()) {
    if (!setting_net.is("auto") && !setting_net.is(entry.name)) continue;
    auto network = entry.open(job);
    if (network) {
      WEFT_TRY(exchange.put(key_of(static_cast<Peer>(job.rank)), card_of(**network)));
      return network;
    }
    tried += std::string("\n  ") + entry.name + ": " + network.error().message();
  }
  if (tried.empty())
    tried = "\n  WEFT_NET=" + setting_net.value_text() +
            (setting_net.is("none") ? " allows no network" : ": this build has no such network");
  return Error(Errc::unsupported,
               "the job spans several hosts (" + std::to_string(job.local_size) + " of " +
                   std::to_string(job.size) +
                   " ranks are on this one) and there is no network between them:" + tried);
}

std::string describe_networks() {
  std::string lines;
  launch::Job job;
  job.size = 2;
  for (const Entry& entry : kNetworks) {
    auto network = entry.open(job);
    lines += std::string("network\t") + entry.name + ": " +
             (network ? (*network)->description() : "not usable: " + network.error().message()) + "\n";
  }
  return lines;
}

// All compare themselves with the same process, so all agree.
Status start_network(Network& network, launch::Exchange& exchange, std::unique_ptr<Directory>& directory) {
  directory = std::make_unique<Cards>(network, exchange);
  const int reference = exchange.job().rank == 0 ? exchange.job().size - 1 : 0;
  auto agreed = directory->address(static_cast<Peer>(reference));
  if (!agreed) return std::move(agreed).error();
  network.start(*directory);
  return {};
}

}  // namespace weft::transport
