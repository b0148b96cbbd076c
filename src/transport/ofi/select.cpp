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

config::Text provider{"net.ofi_provider", "",
                      "libfabric provider to use, as fi_info names it (tcp, verbs, cxi); FI_PROVIDER is "
                      "libfabric's own way to say it."};
config::Text nic{"net.ofi_nic", "",
                 "Network interface (libfabric domain) of a rank, as cxi0 or eth0; of several in a list, "
                 "local rank n takes number n."};
config::Choice hmem{
    "net.ofi_hmem",
    0,
    {"auto", "on", "off"},
    "Whether libfabric is asked to take GPU memory itself (FI_HMEM): auto, of network adapters; on, "
    "of sockets too, where it copies through the host."};

/// Best first; a provider that is not listed comes after them, before tcp.
constexpr std::array kFast = {"cxi", "opx", "psm2", "efa", "verbs", "psm3"};
/// Taken only when asked for: one host only, unreliable underneath, replaced by others, or no transport.
constexpr std::array kUnasked = {"shm", "sm2",     "udp",       "sockets", "net",
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

bool wanted(const Offer& offer, const Wishes& wishes) {
  if (!wishes.provider.empty())
    return offer.provider == wishes.provider || has_part(offer.provider, wishes.provider);
  if (wishes.environment) return true;
  return std::none_of(kUnasked.begin(), kUnasked.end(),
                      [&](const char* name) { return has_part(offer.provider, name); });
}

size_t rank_of_provider(const std::string& name) {
  for (size_t i = 0; i < kFast.size(); ++i)
    if (has_part(name, kFast[i])) return i;
  return has_part(name, "tcp") ? kFast.size() + 1 : kFast.size();
}

/// Smaller is better. Ranks of one host must agree on the network, so distance plays no part.
auto merit_over_ip(const Offer& offer, const Wishes& wishes) {
  const InterfaceKind kind = kind_of_interface(wishes.sysfs, offer.interface);
  return std::tuple(offer.loopback || kind == InterfaceKind::loopback, offer.link_local, kind,
                    -speed_of_interface(wishes.sysfs, offer.interface), offer.format != abi::kFormatIn);
}

Picked pick_over_ip(const std::vector<Offer>& offers, const std::vector<size_t>& fit, const Wishes& wishes) {
  const size_t best = *std::min_element(fit.begin(), fit.end(), [&](size_t a, size_t b) {
    return merit_over_ip(offers[a], wishes) < merit_over_ip(offers[b], wishes);
  });
  return {best, fit.size() == 1 ? "the only one" : "the fastest interface with a usable address"};
}

Distance distance_of(const Offer& offer, const Anchor& from, const std::string& sysfs) {
  return distance(place_of_pci(sysfs, offer.pci), from.place);
}

/// The nearest by PCIe; ranks that have several equally near take them in turn.
Picked pick_nearest(const std::vector<Offer>& offers, const std::vector<size_t>& fit, const Wishes& wishes) {
  const Anchor from = anchor(wishes.sysfs);
  std::vector<size_t> nearest;
  Distance least = Distance::unknown;
  for (const size_t i : fit) {
    const Distance here = distance_of(offers[i], from, wishes.sysfs);
    if (nearest.empty() || here < least) {
      nearest.clear();
      least = here;
    }
    const bool again = std::any_of(nearest.begin(), nearest.end(), [&](size_t other) {
      return offers[other].interface == offers[i].interface;
    });
    if (here == least && !again) nearest.push_back(i);
  }
  const size_t mine = nearest[static_cast<size_t>(wishes.local_rank) % nearest.size()];
  return {mine, std::string(name(least)) + " as the " + from.name + (nearest.size() > 1 ? ", in turn" : "")};
}

std::string list(const std::vector<Offer>& offers) {
  std::vector<std::string> seen;
  for (const Offer& offer : offers) {
    const std::string text = offer.provider + "/" + offer.interface;
    if (std::find(seen.begin(), seen.end(), text) == seen.end()) seen.push_back(text);
  }
  std::string all;
  for (const std::string& text : seen) all += (all.empty() ? "" : ", ") + text;
  return all.empty() ? "nothing" : all;
}

bool is_link_local(const abi::Info& info) {
  if (info.src_addr == nullptr) return false;
  if (info.addr_format == abi::kFormatIn && info.src_addrlen >= sizeof(sockaddr_in))
    return ntohl(static_cast<const sockaddr_in*>(info.src_addr)->sin_addr.s_addr) >> 16 == 0xa9fe;
  if (info.addr_format == abi::kFormatIn6 && info.src_addrlen >= sizeof(sockaddr_in6))
    return IN6_IS_ADDR_LINKLOCAL(&static_cast<const sockaddr_in6*>(info.src_addr)->sin6_addr);
  return false;
}

Offer describe(const abi::Info& info) {
  Offer offer;
  if (info.fabric_attr->prov_name != nullptr) offer.provider = info.fabric_attr->prov_name;
  if (info.domain_attr->name != nullptr) offer.interface = info.domain_attr->name;
  offer.format = info.addr_format;
  offer.loopback = is_loopback(info.addr_format, info.src_addr, info.src_addrlen);
  offer.link_local = is_link_local(info);
  if (info.nic == nullptr) return offer;
  if (info.nic->link_attr != nullptr) offer.speed = info.nic->link_attr->speed;
  if (info.nic->bus_attr != nullptr && info.nic->bus_attr->bus_type == abi::kBusPci) {
    const auto& pci = info.nic->bus_attr->pci;
    char text[32];
    std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", pci.domain_id, pci.bus_id, pci.device_id,
                  pci.function_id);
    offer.pci = text;
  }
  return offer;
}

InfoPointer ask(const Library& library, bool device_memory) {
  InfoPointer hints(library.dupinfo(nullptr), FreeInfo{&library});
  if (hints == nullptr) return hints;
  hints->caps = abi::kTagged | abi::kSend | abi::kRecv | abi::kRma | abi::kRead | abi::kRemoteRead;
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

Result<Choice> choose_from(const Library& library, InfoPointer found, const Wishes& wishes) {
  std::vector<Offer> offers;
  std::vector<abi::Info*> infos;
  for (abi::Info* info = found.get(); info != nullptr; info = info->next) {
    offers.push_back(describe(*info));
    infos.push_back(info);
  }
  auto picked = pick(offers, wishes);
  if (!picked) return std::move(picked).error();
  Choice choice;
  choice.info = InfoPointer(library.dupinfo(infos[picked->index]), FreeInfo{&library});
  if (choice.info == nullptr) return Error(Errc::no_mem, "libfabric has no memory for a description");
  choice.why = picked->why;
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

Result<Picked> pick(const std::vector<Offer>& offers, const Wishes& wishes) {
  const auto names = split(wishes.nics, ',');
  const std::string mine = names.empty() ? "" : names[static_cast<size_t>(wishes.local_rank) % names.size()];
  std::vector<size_t> fit;
  for (size_t i = 0; i < offers.size(); ++i)
    if (wanted(offers[i], wishes) && (mine.empty() || offers[i].interface == mine)) fit.push_back(i);
  if (fit.empty())
    return Error(
        Errc::unsupported,
        "libfabric offers no usable provider (" +
            (wishes.provider.empty() ? std::string() : "WEFT_NET_OFI_PROVIDER=" + wishes.provider + ", ") +
            (mine.empty() ? std::string() : "WEFT_NET_OFI_NIC=" + mine + ", ") +
            "it offers: " + list(offers) + ")");
  size_t best = offers.size();
  for (const size_t i : fit) {
    if (best == offers.size()) best = i;
    if (!wishes.environment && rank_of_provider(offers[i].provider) < rank_of_provider(offers[best].provider))
      best = i;
  }
  const std::string chosen = offers[best].provider;
  std::erase_if(fit, [&](size_t i) { return offers[i].provider != chosen; });
  Picked picked = over_ip(chosen) ? pick_over_ip(offers, fit, wishes) : pick_nearest(offers, fit, wishes);
  if (!mine.empty()) picked.why = "by the setting net.ofi_nic";
  return picked;
}

// Tried: in 1.17 messages both ways, or to a process that does not look, stop for ever; in 2.5 they do not.
Status check_provider(const std::string& provider, uint32_t version) {
  if (!has_part(provider, "shm") || version >= abi::version(2, 0)) return {};
  return Error(Errc::unsupported,
               "libfabric's provider shm stops under load before version 2: use a libfabric 2 "
               "(WEFT_NET_OFI_LIBRARY), or another provider (FI_PROVIDER=tcp)");
}

Result<Choice> choose(const Library& library, int local_rank) {
  Wishes wishes{provider.value(), nic.value(), std::getenv("FI_PROVIDER") != nullptr, local_rank};
  Error why(Errc::unsupported, "libfabric was not asked");
  for (const bool device_memory : {true, false}) {
    if (device_memory && (hmem.is("off") || !device::available())) continue;
    auto choice = choose_from(library, ask(library, device_memory), wishes);
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
