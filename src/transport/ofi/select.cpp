// SPDX-License-Identifier: BSD-3-Clause
#include "transport/ofi/select.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <tuple>

#include "base/config.hpp"
#include "device/memory.hpp"
#include "transport/ofi/nic.hpp"

namespace weft::transport::ofi {
namespace {

config::Text provider{
    "net.ofi_provider", "",
    "libfabric provider as named by fi_info (tcp, verbs, cxi); empty: the fastest usable one. The variable "
    "FI_PROVIDER of libfabric also works.",
    "the host has several providers and libfabric's first one is not the intended one"};
config::Text nic{"net.ofi_nic", "",
                 "Network interface (libfabric domain) such as cxi0 or eth0, or a list of them, which the "
                 "local ranks use round-robin; an entry eth0+eth1 gives a rank several, the first for all "
                 "messages, all for large transfers; empty: the nearest.",
                 "the host has several network adapters and the ranks are to use certain ones"};
config::Choice adapter_limit{
    "net.ofi_adapters",
    0,
    {"auto", "1", "2", "3", "4"},
    "Largest number of network adapters of one rank, among which transfers of net.ofi_stripe_min_bytes and "
    "more are striped over libfabric: auto, the rank's share of the equally near ones, and one over sockets; "
    "a number, the nearest ones."};
config::Choice hmem{
    "net.ofi_hmem",
    0,
    {"auto", "on", "off"},
    "GPU memory passed directly to libfabric (FI_HMEM): auto, with network adapters only; on, also with "
    "sockets, which copy through the host.",
    "GPU messages over libfabric fail (off), or tests need GPU memory over sockets (on)"};

/// Fastest first; unlisted providers follow, then tcp.
constexpr std::array kProvidersBySpeed = {"cxi", "opx", "psm2", "efa", "verbs", "psm3"};
/// Providers used only on request: single-host, built on datagrams, superseded, or no transport.
constexpr std::array kOnlyOnRequest = {"shm", "sm2",     "udp",       "sockets", "net",
                                       "lnx", "ofi_rxd", "ofi_mrail", "off_coll"};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

bool matches(const Candidate& candidate, const SelectionRequest& request) {
  if (!request.provider.empty())
    return candidate.provider == request.provider || has_part(candidate.provider, request.provider);
  if (request.environment) return true;
  return std::none_of(kOnlyOnRequest.begin(), kOnlyOnRequest.end(),
                      [&](const char* name) { return has_part(candidate.provider, name); });
}

size_t priority_of_provider(const std::string& name) {
  for (size_t i = 0; i < kProvidersBySpeed.size(); ++i)
    if (has_part(name, kProvidersBySpeed[i])) return i;
  return has_part(name, "tcp") ? kProvidersBySpeed.size() + 1 : kProvidersBySpeed.size();
}

/// Smaller is better. Distance is ignored, since all ranks of a host must use the same IP network.
auto cost_over_ip(const Candidate& candidate, const SelectionRequest& request) {
  const InterfaceKind kind = kind_of_interface(request.sysfs, candidate.interface);
  return std::tuple(candidate.loopback || kind == InterfaceKind::loopback, candidate.link_local, kind,
                    -speed_of_interface(request.sysfs, candidate.interface),
                    candidate.format != abi::kFormatIn);
}

/// Returns the first candidate of each interface, in order.
std::vector<size_t> without_duplicates(const std::vector<Candidate>& candidates,
                                       const std::vector<size_t>& fit) {
  std::vector<size_t> unique;
  for (const size_t i : fit)
    if (std::none_of(unique.begin(), unique.end(),
                     [&](size_t other) { return candidates[other].interface == candidates[i].interface; }))
      unique.push_back(i);
  return unique;
}

/// Selects the fastest interface, and further ones of its kind only on request: hosts may have interfaces on
/// networks that other hosts do not reach.
Selection select_over_ip(const std::vector<Candidate>& candidates, std::vector<size_t> fit,
                         const SelectionRequest& request) {
  const bool only = fit.size() == 1;
  std::stable_sort(fit.begin(), fit.end(), [&](size_t a, size_t b) {
    return cost_over_ip(candidates[a], request) < cost_over_ip(candidates[b], request);
  });
  Selection selection{fit[0], only ? "the only one" : "the fastest interface with a usable address"};
  const Candidate& first = candidates[selection.index];
  const auto is_other_kind = [&](size_t i) {
    const Candidate& other = candidates[i];
    return other.format != first.format || other.loopback != first.loopback ||
           other.link_local != first.link_local ||
           kind_of_interface(request.sysfs, other.interface) !=
               kind_of_interface(request.sysfs, first.interface);
  };
  std::erase_if(fit, is_other_kind);
  fit = without_duplicates(candidates, fit);
  for (size_t i = 1; i < std::min({request.adapters, fit.size(), kMaxAdapters}); ++i)
    selection.others.push_back(fit[i]);
  return selection;
}

Distance distance_of(const Candidate& candidate, const LocalityAnchor& from, const std::string& sysfs) {
  return distance(locality_of_pci(sysfs, candidate.pci), from.locality);
}

/// Selects the nearest interface by PCIe; equally near ones are assigned round-robin by local rank. A rank
/// with several takes its successors too, so that ranks share an adapter only if there are too few.
Selection select_nearest(const std::vector<Candidate>& candidates, const std::vector<size_t>& fit,
                         const SelectionRequest& request) {
  const LocalityAnchor from = anchor(request.sysfs);
  std::vector<std::pair<Distance, size_t>> by_distance;
  for (const size_t i : without_duplicates(candidates, fit))
    by_distance.emplace_back(distance_of(candidates[i], from, request.sysfs), i);
  std::stable_sort(by_distance.begin(), by_distance.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const Distance least = by_distance[0].first;
  const auto near = static_cast<size_t>(std::count_if(by_distance.begin(), by_distance.end(),
                                                      [&](const auto& one) { return one.first == least; }));
  const size_t share =
      request.adapters != 0
          ? request.adapters
          : std::clamp(by_distance.size() / static_cast<size_t>(request.local_size), size_t{1}, near);
  const size_t wanted = std::min({share, by_distance.size(), kMaxAdapters});
  const size_t before = static_cast<size_t>(request.local_rank) * wanted;  // adapters of lower ranks
  const size_t shift = wanted > 1 ? before + before / near : before;
  std::rotate(by_distance.begin(), by_distance.begin() + static_cast<ptrdiff_t>(shift % near),
              by_distance.begin() + static_cast<ptrdiff_t>(near));
  Selection selection{by_distance[0].second, std::string(name(least)) + " as the " + from.name +
                                                 (near > wanted ? ", round-robin" : "")};
  for (size_t i = 1; i < wanted; ++i) {
    const Candidate& other = candidates[by_distance[i].second];
    // Stripes have equal sizes, so a slow adapter would delay a fast one.
    if (request.adapters != 0 || other.speed == candidates[selection.index].speed)
      selection.others.push_back(by_distance[i].second);
  }
  return selection;
}

std::string list(const std::vector<Candidate>& candidates) {
  std::vector<std::string> seen;
  for (const Candidate& candidate : candidates) {
    const std::string text = candidate.provider + "/" + candidate.interface;
    if (std::find(seen.begin(), seen.end(), text) == seen.end()) seen.push_back(text);
  }
  std::string all;
  for (const std::string& text : seen) all += (all.empty() ? "" : ", ") + text;
  return all.empty() ? "none" : all;
}

bool is_link_local(const abi::Info& info) {
  if (info.src_addr == nullptr) return false;
  if (info.addr_format == abi::kFormatIn && info.src_addrlen >= sizeof(sockaddr_in))
    return ntohl(static_cast<const sockaddr_in*>(info.src_addr)->sin_addr.s_addr) >> 16 == 0xa9fe;
  if (info.addr_format == abi::kFormatIn6 && info.src_addrlen >= sizeof(sockaddr_in6))
    return IN6_IS_ADDR_LINKLOCAL(&static_cast<const sockaddr_in6*>(info.src_addr)->sin6_addr);
  return false;
}

Candidate describe(const abi::Info& info) {
  Candidate candidate;
  if (info.fabric_attr->prov_name != nullptr) candidate.provider = info.fabric_attr->prov_name;
  if (info.domain_attr->name != nullptr) candidate.interface = info.domain_attr->name;
  candidate.format = info.addr_format;
  candidate.loopback = is_loopback(info.addr_format, info.src_addr, info.src_addrlen);
  candidate.link_local = is_link_local(info);
  if (info.nic == nullptr) return candidate;
  if (info.nic->link_attr != nullptr) candidate.speed = info.nic->link_attr->speed;
  if (info.nic->bus_attr != nullptr && info.nic->bus_attr->bus_type == abi::kBusPci) {
    const auto& pci = info.nic->bus_attr->pci;
    char text[32];
    std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", pci.domain_id, pci.bus_id, pci.device_id,
                  pci.function_id);
    candidate.pci = text;
  }
  return candidate;
}

InfoPointer query(const Library& library, bool device_memory) {
  InfoPointer hints(library.dupinfo(nullptr), FreeInfo{&library});
  if (hints == nullptr) return hints;
  hints->caps = abi::kTagged | abi::kSend | abi::kRecv | abi::kRma | abi::kRead | abi::kRemoteRead |
                abi::kWrite | abi::kRemoteWrite;
  hints->mode = abi::kContext | abi::kContext2;
  hints->ep_attr->type = abi::kEndpointRdm;
  hints->tx_attr->msg_order = hints->rx_attr->msg_order = abi::kOrderSas;
  hints->domain_attr->mr_mode =
      abi::kMrLocal | abi::kMrVirtAddr | abi::kMrAllocated | abi::kMrProvKey | abi::kMrEndpoint;
  if (device_memory) {
    hints->caps |= abi::kHmem;
    hints->domain_attr->mr_mode |= abi::kMrHmem;
  }
  hints->domain_attr->threading = abi::kThreadDomain;
  hints->domain_attr->control_progress = hints->domain_attr->data_progress = abi::kProgressManual;
  hints->domain_attr->resource_mgmt = abi::kResourcesManaged;
  abi::Info* found = nullptr;
  if (library.getinfo(abi::kVersion, nullptr, nullptr, 0, hints.get(), &found) != 0) found = nullptr;
  return InfoPointer(found, FreeInfo{&library});
}

Result<std::vector<SelectedInterface>> select_from(const Library& library, InfoPointer found,
                                                   const SelectionRequest& request) {
  std::vector<Candidate> candidates;
  std::vector<abi::Info*> infos;
  for (abi::Info* info = found.get(); info != nullptr; info = info->next) {
    candidates.push_back(describe(*info));
    infos.push_back(info);
  }
  auto selection = select(candidates, request);
  if (!selection) return std::move(selection).error();
  std::vector<size_t> selected = {selection->index};
  selected.insert(selected.end(), selection->others.begin(), selection->others.end());
  std::vector<SelectedInterface> choices;
  for (const size_t i : selected) {
    SelectedInterface& choice = choices.emplace_back();
    choice.info = InfoPointer(library.dupinfo(infos[i]), FreeInfo{&library});
    if (choice.info == nullptr) return Error(Errc::no_mem, "fi_dupinfo failed: out of memory");
    choice.why = selection->why;
  }
  return choices;
}

}  // namespace

bool has_part(const std::string& provider_name, std::string_view part) {
  const auto parts = split(provider_name, ';');
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

bool over_ip(const std::string& name) {
  return has_part(name, "tcp") || has_part(name, "sockets") || has_part(name, "udp") || has_part(name, "net");
}

bool is_loopback(uint32_t format, const void* address, size_t size) {
  if (address == nullptr) return false;
  if (format == abi::kFormatIn && size >= sizeof(sockaddr_in))
    return ntohl(static_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == 127;
  if (format == abi::kFormatIn6 && size >= sizeof(sockaddr_in6))
    return IN6_IS_ADDR_LOOPBACK(&static_cast<const sockaddr_in6*>(address)->sin6_addr);
  return false;
}

Result<Selection> select(const std::vector<Candidate>& candidates, const SelectionRequest& request) {
  const auto names = split(request.nics, ',');
  const std::string entry =
      names.empty() ? "" : names[static_cast<size_t>(request.local_rank) % names.size()];
  const std::vector<std::string> mine = split(entry, '+');
  if (mine.size() > kMaxAdapters)
    return Error(Errc::unsupported, "WEFT_NET_OFI_NIC=" + entry + " names more than " +
                                        std::to_string(kMaxAdapters) + " adapters for one rank");
  std::vector<size_t> fit;
  for (size_t i = 0; i < candidates.size(); ++i)
    if (matches(candidates[i], request) && (mine.empty() || candidates[i].interface == mine[0]))
      fit.push_back(i);
  const auto unusable = [&](const std::string& interface) {
    return Error(
        Errc::unsupported,
        "libfabric has no usable provider (" +
            (request.provider.empty() ? std::string() : "WEFT_NET_OFI_PROVIDER=" + request.provider + ", ") +
            (interface.empty() ? std::string() : "WEFT_NET_OFI_NIC=" + interface + ", ") +
            "available: " + list(candidates) + ")");
  };
  if (fit.empty()) return unusable(mine.empty() ? "" : mine[0]);
  size_t best = candidates.size();
  for (const size_t i : fit) {
    if (best == candidates.size()) best = i;
    if (!request.environment &&
        priority_of_provider(candidates[i].provider) < priority_of_provider(candidates[best].provider))
      best = i;
  }
  const std::string chosen = candidates[best].provider;
  std::erase_if(fit, [&](size_t i) { return candidates[i].provider != chosen; });
  Selection selection =
      over_ip(chosen) ? select_over_ip(candidates, fit, request) : select_nearest(candidates, fit, request);
  if (mine.empty()) return selection;
  selection.why = "by the setting net.ofi_nic";
  const Candidate& first = candidates[selection.index];
  for (size_t n = 1; n < mine.size(); ++n) {
    const auto other = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
      return candidate.interface == mine[n] && candidate.provider == chosen &&
             candidate.format == first.format && candidate.link_local == first.link_local;
    });
    if (other == candidates.end()) return unusable(mine[n]);
    selection.others.push_back(static_cast<size_t>(other - candidates.begin()));
  }
  return selection;
}

// Measured: in 1.17 bidirectional traffic, or traffic to a process that does not progress, hangs; not in 2.5.
Status check_provider(const std::string& provider, uint32_t version) {
  if (!has_part(provider, "shm") || version >= abi::version(2, 0)) return {};
  return Error(Errc::unsupported,
               "libfabric's provider shm hangs under load before version 2: use libfabric 2 "
               "(WEFT_NET_OFI_LIBRARY), or another provider (FI_PROVIDER=tcp)");
}

Result<std::vector<SelectedInterface>> select_interfaces(const Library& library, int local_rank,
                                                         int local_size) {
  SelectionRequest request{provider.value(), nic.value(), std::getenv("FI_PROVIDER") != nullptr, local_rank};
  request.adapters = static_cast<size_t>(adapter_limit.index());
  request.local_size = local_size;
  Error why(Errc::unsupported, "libfabric was not queried");
  for (const bool device_memory : {true, false}) {
    if (device_memory && (hmem.is("off") || !device::available())) continue;
    auto choices = select_from(library, query(library, device_memory), request);
    if (choices && device_memory && hmem.is("auto") && over_ip(choices->front().info->fabric_attr->prov_name))
      continue;
    if (choices) {
      WEFT_TRY(check_provider(choices->front().info->fabric_attr->prov_name, library.version()));
      for (SelectedInterface& choice : *choices) choice.hmem = device_memory;
      return choices;
    }
    why = std::move(choices).error();
  }
  return why;
}

}  // namespace weft::transport::ofi
