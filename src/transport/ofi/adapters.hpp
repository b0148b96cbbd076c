// SPDX-License-Identifier: BSD-3-Clause
// Adapters: the endpoints of this rank, one for each of its network adapters, nearest first. All messages use
// the first; large transfers are striped among all that reach an adapter of the peer.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/ofi/endpoint.hpp"

namespace weft::transport::ofi {

/// Value of the setting net.ofi_stripe_min_bytes: transfers and registrations of so many bytes use all
/// adapters.
[[nodiscard]] size_t stripe_min_bytes();

/// Memory of heartbeats: peers read `own`, and their word is read into `received`.
struct HeartbeatWords {
  uint64_t own = 0, received = 0;
};

struct Adapter {
  std::unique_ptr<Endpoint> endpoint;
  std::string address;               ///< as returned by fi_getname
  bool loopback = false;             ///< the address belongs to a loopback interface
  Object<abi::Mr> heartbeat_region;  ///< of HeartbeatWords; destroyed before the endpoint
  uint64_t heartbeat_address = 0;    ///< for peers: of HeartbeatWords::own
};

class Adapters {
 public:
  /// `completions`: capacity of each completion queue. Precondition: `choices` is not empty.
  [[nodiscard]] static Result<Adapters> open(const Library& library, std::vector<SelectedInterface> choices,
                                             size_t completions);

  [[nodiscard]] size_t size() const { return adapters_.size(); }
  [[nodiscard]] const Adapter& operator[](size_t index) const { return adapters_[index]; }
  [[nodiscard]] Endpoint& endpoint(size_t index) const { return *adapters_[index].endpoint; }
  [[nodiscard]] HeartbeatWords& heartbeat_words() { return *words_; }
  /// Number of adapters with which a buffer of `length` bytes is registered.
  [[nodiscard]] size_t used_by(size_t length) const { return length < stripe_min_bytes() ? 1 : size(); }
  /// Returns whether a registration of an adapter has this mode (abi::kMr...).
  [[nodiscard]] bool wants(int mr_mode) const;
  /// Endpoint::registers_local() of an adapter.
  [[nodiscard]] bool registers_local(const device::Memory& memory) const;
  /// Largest RMA read or write of every adapter, in bytes.
  [[nodiscard]] size_t max_rma_bytes() const;
  /// Names of the interfaces and the reason of the choice, for humans: "cxi0 + cxi1 (...)".
  [[nodiscard]] std::string description() const;
  /// Endpoint::shut() of all.
  void shut();
  /// Precondition: the registrations with all adapters are closed.
  void close() { adapters_.clear(); }

 private:
  std::unique_ptr<HeartbeatWords> words_ = std::make_unique<HeartbeatWords>();
  std::vector<Adapter> adapters_;
};

/// An own adapter, and the adapter of a peer that it is to reach.
struct AdapterIndices {
  uint32_t own, remote;
  bool operator==(const AdapterIndices&) const = default;
};
/// Pairs the adapters of this process with those of a peer, each once. The first ones are always a pair. Over
/// IP (`format` of the addresses) the others are paired by the longest common prefix, which two addresses of
/// one network have; else by their position.
[[nodiscard]] std::vector<AdapterIndices> pair_adapters(uint32_t format, const std::vector<std::string>& own,
                                                        const std::vector<std::string>& remote);

}  // namespace weft::transport::ofi
