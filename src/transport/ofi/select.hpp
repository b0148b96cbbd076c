// SPDX-License-Identifier: BSD-3-Clause
// Which provider and which of its interfaces this rank uses, of what libfabric offers.
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

struct Choice {
  InfoPointer info;
  bool hmem = false;  ///< it was asked for, and takes, device memory
  std::string why;    ///< how the interface was chosen, for a human
};

/// One of what is offered, as far as choosing needs it. Separate from libfabric's structure for tests.
struct Offer {
  std::string provider;                       ///< "tcp;ofi_rxm"
  std::string interface;                      ///< domain name: "eth0", "cxi0", "mlx5_0"
  std::string pci;                            ///< of the NIC: "0000:17:00.0"; empty: not told
  uint32_t format = 0;                        ///< of its addresses
  bool loopback = false, link_local = false;  ///< by its address
  size_t speed = 0;                           ///< bits a second; 0: not told
};
/// What the user asked for.
struct Wishes {
  std::string provider;  ///< setting net.ofi_provider
  std::string nics;      ///< setting net.ofi_nic
  bool environment;      ///< FI_PROVIDER is set: libfabric has filtered already
  int local_rank = 0;
  std::string sysfs = "/sys";
};
struct Picked {
  size_t index;
  std::string why;
};
/// The offer to take. Errc::unsupported: none fits; says what there was.
[[nodiscard]] Result<Picked> pick(const std::vector<Offer>& offers, const Wishes& wishes);

/// Whether "tcp;ofi_rxm" is made of, for example, "tcp".
[[nodiscard]] bool has_part(const std::string& provider, std::string_view part);
/// Providers whose addresses are those of the IP stack: which interface is taken decides who can be reached.
[[nodiscard]] bool over_ip(const std::string& provider);
/// Whether an address in this format is one of the loopback interface.
[[nodiscard]] bool is_loopback(uint32_t format, const void* address, size_t size);

/// An error where this provider does not work in that version of libfabric (major and minor as
/// abi::version()).
[[nodiscard]] Status check_provider(const std::string& provider, uint32_t version);

/// Asks libfabric and picks.
[[nodiscard]] Result<Choice> choose(const Library& library, int local_rank);

}  // namespace weft::transport::ofi
