// SPDX-License-Identifier: BSD-3-Clause
// Network: the transports between hosts, on top of libraries that are opened at run time. Beside messages
// they move bulk data: the owner exposes a buffer, its key travels in the caller's own message, the peer
// fetches. Threading: as transport.hpp. Nothing here calls poll() from within a completion or a delivery.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "device/memory.hpp"
#include "launch/launch.hpp"
#include "transport/transport.hpp"

namespace weft::transport {

/// A contiguous buffer and where it is.
struct Buffer {
  std::byte* address;
  size_t length;
  device::Memory memory;
};

/// The end of a fetch: fired exactly once, from poll() only.
struct Completion {
  void (*done)(Completion& self, Status outcome);
};

inline constexpr size_t kMaxKey = 128;  ///< bytes of a key, at most

/// A buffer that a peer may read until conceal(id).
struct Exposed {
  uint64_t id = 0;  ///< never 0 for one that exists
  size_t key_size = 0;
};

/// What the processes of the job published about their networks.
class Directory {
 public:
  virtual ~Directory() = default;
  /// The peer's address(), read from the exchange: once, when it is first talked to. An error names what
  /// does not agree: Weft's version or the network.
  [[nodiscard]] virtual Result<std::string> address(Peer peer) = 0;
};

class Network : public Transport {
 public:
  [[nodiscard]] virtual const char* name() const = 0;  ///< "ucx", "ofi"
  /// Version, devices, what of GPUs it takes: for a human.
  [[nodiscard]] virtual std::string description() const = 0;
  /// How peers reach this process: any bytes, published before anything else is called.
  [[nodiscard]] virtual std::string address() const = 0;
  /// The job's addresses are there from now on. `directory` lives as long as the network.
  virtual void start(Directory& directory) = 0;

  // As for every transport, and: reserve() is nullptr also while too much is on its way out; what is sent to
  // a lost peer is dropped.

  /// Whether expose() and fetch() take this memory as it is; host memory they always take.
  [[nodiscard]] virtual bool takes(const device::Memory& memory) const = 0;
  /// Makes `buffer` readable by `peer` until conceal(); `key` has room for kMaxKey bytes.
  [[nodiscard]] virtual Result<Exposed> expose(Peer peer, const Buffer& buffer, std::byte* key) = 0;
  /// commit() of a message that brings the peer the key of exposed buffer `id`. The network may send the way
  /// to the data along: a fetch of all of it then does not wait for this process.
  virtual void announce(Peer peer, size_t size, uint64_t /*id*/) { commit(peer, size); }
  /// What the peer announced will not be fetched; not to be called once a fetch of it has begun.
  virtual void decline(Peer /*peer*/, std::span<const std::byte> /*key*/) {}
  /// The peer has fetched what it wanted, or is gone. The memory is the owner's again.
  virtual void conceal(uint64_t id) = 0;
  /// Reads bytes [offset, offset + local.length) of what `key` exposes; they are in place when `done` fires.
  virtual void fetch(Peer peer, const Buffer& local, std::span<const std::byte> key, uint64_t offset,
                     Completion& done) = 0;
  /// Makes sure that the end of this peer will be seen, though we may never send to it.
  virtual void watch(Peer peer) = 0;
  /// This process has nothing more to say for now: tells the peers that the end of the connection is no
  /// failure (until the next message), and flushes for a bounded time. Everything may still be used.
  virtual void leave() = 0;
  /// Nothing handed to commit() is on its way out of this process.
  [[nodiscard]] virtual bool idle() const = 0;
  /// At the end of the process: closes everything in order, in bounded time. Nothing fires afterwards.
  virtual void close() = 0;
};

/// The network that the setting `net` names, or the first usable one (table.cpp), for a job of several hosts;
/// its address is put into the exchange, where share() has to follow. An error lists what was tried and why
/// it failed.
[[nodiscard]] Result<std::unique_ptr<Network>> open_network(launch::Exchange& exchange);
/// After it: an error when this process and another one cannot talk (other version, other network), by
/// looking at one process of the job; then the network is started.
[[nodiscard]] Status start_network(Network& network, launch::Exchange& exchange,
                                   std::unique_ptr<Directory>& directory);

/// Lines "network\tname: description" of all that could be used here, and why others could not.
[[nodiscard]] std::string describe_networks();

}  // namespace weft::transport
