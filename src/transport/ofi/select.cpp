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
                 "local ranks use round-robin; empty: the nearest.",
                 "the host has several network adapters and the ranks are to use certain ones"};
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

Selection select_over_ip(const std::vector<Candidate>& candidates, const std::vector<size_t>& fit,
                         const SelectionRequest& request) {
  const size_t best = *std::min_element(fit.begin(), fit.end(), [&](size_t a, size_t b) {
    return cost_over_ip(candidates[a], request) < cost_over_ip(candidates[b], request);
  });
  return {best, fit.size() == 1 ? "the only one" : "the fastest interface with a usable address"};
}

Distance distance_of(const Candidate& candidate, const LocalityAnchor& from, const std::string& sysfs) {
  return distance(locality_of_pci(sysfs, candidate.pci), from.locality);
}

/// Selects the nearest interface by PCIe; equally near ones are assigned round-robin by local rank.
Selection select_nearest(const std::vector<Candidate>& candidates, const std::vector<size_t>& fit,
                         const SelectionRequest& request) {
  const LocalityAnchor from = anchor(request.sysfs);
  std::vector<size_t> nearest;
  Distance least = Distance::unknown;
  for (const size_t i : fit) {
    const Distance here = distance_of(candidates[i], from, request.sysfs);
    if (nearest.empty() || here < least) {
      nearest.clear();
      least = here;
    }
    const bool again = std::any_of(nearest.begin(), nearest.end(), [&](size_t other) {
      return candidates[other].interface == candidates[i].interface;
    });
    if (here == least && !again) nearest.push_back(i);
  }
  const size_t mine = nearest[static_cast<size_t>(request.local_rank) % nearest.size()];
  return {mine,
          std::string(name(least)) + " as the " + from.name + (nearest.size() > 1 ? ", round-robin" : "")};
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

Result<SelectedInterface> select_from(const Library& library, InfoPointer found,
                                      const SelectionRequest& request) {
  std::vector<Candidate> candidates;
  std::vector<abi::Info*> infos;
  for (abi::Info* info = found.get(); info != nullptr; info = info->next) {
    candidates.push_back(describe(*info));
    infos.push_back(info);
  }
  auto selection = select(candidates, request);
  if (!selection) return std::move(selection).error();
  SelectedInterface choice;
  choice.info = InfoPointer(library.dupinfo(infos[selection->index]), FreeInfo{&library});
  if (choice.info == nullptr) return Error(Errc::no_mem, "fi_dupinfo failed: out of memory");
  choice.why = selection->why;
  return choice;
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
  const std::string mine = names.empty() ? "" : names[static_cast<size_t>(request.local_rank) % names.size()];
  std::vector<size_t> fit;
  for (size_t i = 0; i < candidates.size(); ++i)
    if (matches(candidates[i], request) && (mine.empty() || candidates[i].interface == mine))
      fit.push_back(i);
  if (fit.empty())
    return Error(
        Errc::unsupported,
        "libfabric has no usable provider (" +
            (request.provider.empty() ? std::string() : "WEFT_NET_OFI_PROVIDER=" + request.provider + ", ") +
            (mine.empty() ? std::string() : "WEFT_NET_OFI_NIC=" + mine + ", ") +
            "available: " + list(candidates) + ")");
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
  if (!mine.empty()) selection.why = "by the setting net.ofi_nic";
  return selection;
}

// Measured: in 1.17 bidirectional traffic, or traffic to a process that does not progress, hangs; not in 2.5.
Status check_provider(const std::string& provider, uint32_t version) {
  if (!has_part(provider, "shm") || version >= abi::version(2, 0)) return {};
  return Error(Errc::unsupported,
               "libfabric's provider shm hangs under load before version 2: use libfabric 2 "
               "(WEFT_NET_OFI_LIBRARY), or another provider (FI_PROVIDER=tcp)");
}

Result<SelectedInterface> select_interface(const Library& library, int local_rank) {
  SelectionRequest request{provider.value(), nic.value(), std::getenv("FI_PROVIDER") != nullptr, local_rank};
  Error why(Errc::unsupported, "libfabric was not queried");
  for (const bool device_memory : {true, false}) {
    if (device_memory && (hmem.is("off") || !device::available())) continue;
    auto choice = select_from(library, query(library, device_memory), request);
    if (choice && device_memory && hmem.is("auto") && over_ip(choice->info->fabric_attr->prov_name)) continue;
    if (choice) {
      WEFT_TRY(check_provider(choice->info->fabric_attr->prov_name, library.version()));
      choice->hmem = device_memory;
      return choice;
    }
    why = std::move(choice).error();
  }
  return why;
}

}  // namespace weft::transport::ofi
