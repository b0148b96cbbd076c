// SPDX-License-Identifier: BSD-3-Clause
// Selection of the libfabric provider and network interfaces of this rank.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "transport/ofi/library.hpp"

namespace weft::transport::ofi {

struct FreeInfo {
  const Library* library = nullptr;
  void operator()(abi::Info* info) const { library->freeinfo(info); }
};
using InfoPointer = std::unique_ptr<abi::Info, FreeInfo>;

inline constexpr size_t kMaxAdapters = 4;  ///< of one rank

struct SelectedInterface {
  InfoPointer info;
  bool hmem = false;  ///< FI_HMEM was requested and granted
  std::string why;    ///< reason of the choice, for humans
};

/// A provider and interface reported by fi_getinfo, reduced to the fields that selection needs.
struct Candidate {
  std::string provider;                       ///< "tcp;ofi_rxm"
  std::string interface;                      ///< domain name: "eth0", "cxi0", "mlx5_0"
  std::string pci;                            ///< of the NIC: "0000:17:00.0"; empty: unknown
  uint32_t format = 0;                        ///< address format
  bool loopback = false, link_local = false;  ///< of its address
  size_t speed = 0;                           ///< bit/s; 0: unknown
};
/// Settings and environment that constrain the selection.
struct SelectionRequest {
  std::string provider;  ///< setting net.ofi_provider
  std::string nics;      ///< setting net.ofi_nic
  bool environment;      ///< FI_PROVIDER is set: libfabric has already filtered
  int local_rank = 0;
  std::string sysfs = "/sys";
  size_t adapters = 0;  ///< setting net.ofi_adapters: largest number of adapters; 0: auto
  int local_size = 1;
};
struct Selection {
  size_t index;  ///< of the adapter of all messages
  std::string why;
  /// Further adapters among which large transfers are striped, at most kMaxAdapters - 1.
  std::vector<size_t> others = {};
};
/// Returns the best candidates. Errc::unsupported: none matches; the error lists the candidates.
[[nodiscard]] Result<Selection> select(const std::vector<Candidate>& candidates,
                                       const SelectionRequest& request);

/// Returns whether a layered provider name such as "tcp;ofi_rxm" contains `part`.
[[nodiscard]] bool has_part(const std::string& provider, std::string_view part);
/// Returns whether a provider uses IP addresses: the interface then determines which hosts are reachable.
[[nodiscard]] bool over_ip(const std::string& provider);
/// Returns whether an address of this format belongs to a loopback interface.
[[nodiscard]] bool is_loopback(uint32_t format, const void* address, size_t size);

/// Returns an error if this provider does not work in that version of libfabric (see abi::version()).
[[nodiscard]] Status check_provider(const std::string& provider, uint32_t version);

/// Queries libfabric and selects provider and interfaces: the first one of all messages, and further ones for
/// large transfers. `local_size`: ranks of this host.
[[nodiscard]] Result<std::vector<SelectedInterface>> select_interfaces(const Library& library, int local_rank,
                                                                       int local_size);

}  // namespace weft::transport::ofi
