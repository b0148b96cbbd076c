// SPDX-License-Identifier: BSD-3-Clause
#include "transport/ofi/adapters.hpp"

#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <string_view>

#include "base/assert.hpp"
#include "base/config.hpp"

namespace weft::transport::ofi {
namespace {

config::Size stripe_min{
    "net.ofi_stripe_min_bytes", 256 << 10, 16 << 10, size_t{1} << 40,
    "Smallest transfer in bytes that is striped among the network adapters of a rank over libfabric "
    "(net.ofi_adapters). Smaller values use all adapters earlier, and cost more reads and registrations."};

constexpr size_t kMaxRmaBytes = size_t{1} << 30;

/// Returns the bytes of an IP address in network order; empty: another format.
std::string_view ip_bytes(uint32_t format, std::string_view address) {
  if (format == abi::kFormatIn && address.size() >= sizeof(sockaddr_in))
    return address.substr(offsetof(sockaddr_in, sin_addr), sizeof(in_addr));
  if (format == abi::kFormatIn6 && address.size() >= sizeof(sockaddr_in6))
    return address.substr(offsetof(sockaddr_in6, sin6_addr), sizeof(in6_addr));
  return {};
}

/// Returns the number of equal leading bits.
size_t common_prefix_bits(std::string_view a, std::string_view b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const auto difference = static_cast<uint8_t>(a[i] ^ b[i]);
    if (difference != 0) return 8 * i + static_cast<size_t>(std::countl_zero(difference));
  }
  return 8 * std::min(a.size(), b.size());
}

}  // namespace

size_t stripe_min_bytes() { return stripe_min; }

Result<Adapters> Adapters::open(const Library& library, std::vector<SelectedInterface> choices,
                                size_t completions) {
  WEFT_ASSERT(!choices.empty() && choices.size() <= kMaxAdapters);
  Adapters adapters;
  for (SelectedInterface& choice : choices) {
    auto endpoint = Endpoint::create(library, std::move(choice), completions);
    if (!endpoint) return std::move(endpoint).error();
    Adapter& adapter = adapters.adapters_.emplace_back();
    adapter.endpoint = std::move(*endpoint);
    HeartbeatWords& words = adapters.heartbeat_words();
    auto region = adapter.endpoint->add_memory(&words, sizeof words, abi::kRemoteRead | abi::kRead, {});
    if (!region) return std::move(region).error();
    adapter.heartbeat_region = std::move(*region);
    adapter.heartbeat_address = adapter.endpoint->remote_address(&words, &words.own);
    auto address = adapter.endpoint->name();
    if (!address) return std::move(address).error();
    adapter.address = std::move(*address);
    adapter.loopback =
        is_loopback(adapter.endpoint->info().addr_format, adapter.address.data(), adapter.address.size());
  }
  return adapters;
}

bool Adapters::wants(int mr_mode) const {
  return std::any_of(adapters_.begin(), adapters_.end(),
                     [&](const Adapter& adapter) { return adapter.endpoint->wants(mr_mode); });
}

bool Adapters::registers_local(const device::Memory& memory) const {
  return std::any_of(adapters_.begin(), adapters_.end(),
                     [&](const Adapter& adapter) { return adapter.endpoint->registers_local(memory); });
}

size_t Adapters::max_rma_bytes() const {
  size_t bytes = kMaxRmaBytes;
  for (const Adapter& adapter : adapters_)
    bytes = std::min(bytes, adapter.endpoint->info().ep_attr->max_msg_size);
  return bytes;
}

std::string Adapters::description() const {
  std::string text;
  for (const Adapter& adapter : adapters_)
    text += (text.empty() ? "" : " + ") + std::string(adapter.endpoint->info().domain_attr->name);
  text += " (" + adapters_[0].endpoint->choice().why;
  if (size() > 1)
    text += "; " + std::to_string(size()) + " adapters for transfers of " +
            std::to_string(stripe_min_bytes()) + " bytes and more";
  return text + ")";
}

void Adapters::shut() {
  for (Adapter& adapter : adapters_) adapter.endpoint->shut();
}

std::vector<AdapterIndices> pair_adapters(uint32_t format, const std::vector<std::string>& own,
                                          const std::vector<std::string>& remote) {
  std::vector<AdapterIndices> pairs = {{0, 0}};
  const auto used = [&](const AdapterIndices& candidate) {
    return std::any_of(pairs.begin(), pairs.end(), [&](const AdapterIndices& pair) {
      return pair.own == candidate.own || pair.remote == candidate.remote;
    });
  };
  const auto closeness = [&](const AdapterIndices& pair) {
    return common_prefix_bits(ip_bytes(format, own[pair.own]), ip_bytes(format, remote[pair.remote]));
  };
  std::vector<AdapterIndices> candidates;  // pairs of equal positions first, which the stable sort keeps
  const auto rows = static_cast<uint32_t>(own.size()), columns = static_cast<uint32_t>(remote.size());
  for (uint32_t i = 0; i < std::min(rows, columns); ++i) candidates.push_back({i, i});
  for (uint32_t i = 0; i < rows; ++i)
    for (uint32_t j = 0; j < columns; ++j)
      if (i != j) candidates.push_back({i, j});
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const auto& a, const auto& b) { return closeness(a) > closeness(b); });
  for (const AdapterIndices& candidate : candidates)
    if (!used(candidate)) pairs.push_back(candidate);
  std::sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.own < b.own; });
  return pairs;
}

}  // namespace weft::transport::ofi
