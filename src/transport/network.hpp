// SPDX-License-Identifier: BSD-3-Clause
// Network: transports between hosts, on libraries opened at run time. Bulk data: the owner registers a
// buffer, the caller sends the rkey in its own message, the peer gets or puts. Threading: as transport.hpp.
// No implementation calls poll() from a completion or a delivery.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>

#include "device/memory.hpp"
#include "launch/launch.hpp"
#include "transport/transport.hpp"

namespace weft::transport {

/// A contiguous buffer and its memory kind.
struct Buffer {
  std::byte* address;
  size_t length;
  device::Memory memory;
};

/// Completion of a get: fired exactly once, from poll() only.
struct Completion {
  void (*done)(Completion& self, Status outcome);
};

inline constexpr size_t kMaxRkey = 128;  ///< largest rkey, in bytes

/// How peers may access a registered buffer.
enum class Access : uint8_t { read, read_write };

/// A buffer that a peer can access until deregister(id).
struct Registered {
  uint64_t id = 0;  ///< never 0 for a registered buffer
  size_t rkey_size = 0;
};

/// Network addresses of peers.
class Directory {
 public:
  virtual ~Directory() = default;
  /// Returns the peer's address(); called once per peer, at first contact. An error names the mismatch:
  /// Weft's version or the network.
  [[nodiscard]] virtual Result<std::string> address(Peer peer) = 0;
};

class Network;

/// The address records of the own job, from the key-value exchange, and of processes of other jobs.
class AddressBook final : public Directory {
 public:
  AddressBook(const Network& network, launch::Exchange& exchange);
  [[nodiscard]] Result<std::string> address(Peer peer) override;
  /// `record`: address_record() of that process of another job. Errc::unsupported if it uses no network, or
  /// another one.
  [[nodiscard]] Status add(Peer peer, std::string record);
  void remove(Peer peer) { others_.erase(peer); }

 private:
  const std::string settings_;
  const Network& network_;
  launch::Exchange& exchange_;
  std::unordered_map<Peer, std::string> others_;  // addresses of processes of other jobs
};

class Network : public Transport {
 public:
  [[nodiscard]] virtual const char* name() const = 0;  ///< "ucx", "ofi"
  /// Version, devices and GPU memory support, for humans.
  [[nodiscard]] virtual std::string description() const = 0;
  /// Returns the address by which peers reach this process: any bytes, published before other calls.
  [[nodiscard]] virtual std::string address() const = 0;
  /// Called once all addresses of the own job are published. `directory` outlives the network.
  virtual void start(Directory& directory) = 0;

  // In addition to Transport: reserve() also returns nullptr while too many sends are outstanding; messages
  // to a lost peer are dropped.

  /// Returns whether register_buffer() and get() accept this device memory; host memory is always accepted.
  [[nodiscard]] virtual bool supports(const device::Memory& memory) const = 0;
  /// Makes `buffer` accessible to `peer` until deregister(). Writes at most kMaxRkey bytes to `rkey`.
  [[nodiscard]] virtual Result<Registered> register_buffer(Peer peer, const Buffer& buffer, std::byte* rkey,
                                                           Access access = Access::read) = 0;
  /// commit() of a message that carries the rkey of registered buffer `id`. The network may piggyback its own
  /// rendezvous request, so that a get of the whole buffer does not wait for this process.
  virtual void send_rts(Peer peer, size_t size, uint64_t /*id*/) { commit(peer, size); }
  /// Declares that the buffer of a received RTS will not be read. Must not follow a get of that buffer.
  virtual void discard_rts(Peer /*peer*/, std::span<const std::byte> /*rkey*/) {}
  /// Ends the peer's access: all its gets have completed, or the peer is lost.
  virtual void deregister(uint64_t id) = 0;
  /// Returns whether data of a put are being received into registered buffer `id`.
  [[nodiscard]] virtual bool receiving(uint64_t /*id*/) const { return false; }
  /// Reads bytes [offset, offset + local.length) of the buffer of `rkey` into `local`; `done` fires once they
  /// are in place.
  virtual void get(Peer peer, const Buffer& local, std::span<const std::byte> rkey, uint64_t offset,
                   Completion& done) = 0;
  /// Writes `local` to bytes [offset, offset + local.length) of a buffer registered with read_write; `done`
  /// fires once they are in place at the peer. `local` must not change until then.
  virtual void put(Peer peer, const Buffer& local, std::span<const std::byte> rkey, uint64_t offset,
                   Completion& done) = 0;
  /// Enables failure detection for this peer, even if this process never sends to it.
  virtual void watch(Peer peer) = 0;
  /// Somebody else has found that the peer has failed: nothing is sent to it any more, and its operations
  /// end.
  virtual void lose(Peer /*peer*/) {}
  /// Sends a disconnect notice to all connected peers, so that the end of a connection is no failure (until
  /// the next message), and flushes for a bounded time. The network remains usable.
  virtual void send_disconnects() = 0;
  /// The process is going to end without a regular end of MPI, so it has failed for whoever needs it. Sends
  /// all connected peers a notice that says so, behind the last messages, and waits until the peers have
  /// received those, for `time_ns` at most. Only close() may follow.
  void leave(uint64_t time_ns) {
    leaving_ = true;
    leave_time_ns_ = time_ns;
    finish();
  }
  /// Forgets a peer of another job, after a disconnect notice to it. Returns false while operations with the
  /// peer are in flight: call again after poll().
  [[nodiscard]] virtual bool remove(Peer /*peer*/) { return true; }
  /// Returns whether all committed messages have left this process.
  [[nodiscard]] bool idle() const { return left(kNoPeer); }
  /// Releases all resources at the end of the process, after the last messages have arrived
  /// (last_messages.hpp). No completion fires from now on.
  virtual void close() = 0;

 protected:
  /// Sends disconnect notices and waits until the last messages have arrived (last_messages.hpp).
  virtual void finish() {}
  /// leave() was called: notices say so.
  [[nodiscard]] bool leaving() const { return leaving_; }
  /// The time for an action of finish() that usually has `ns`.
  [[nodiscard]] uint64_t time_to_finish(uint64_t ns) const {
    return leaving_ ? std::min(ns, leave_time_ns_) : ns;
  }

 private:
  bool leaving_ = false;
  uint64_t leave_time_ns_ = 0;
};

/// Opens the network named by the setting `net`, or the first usable one (select/table.cpp). An error begins
/// with `need` and lists each network that was tried with its reason.
[[nodiscard]] Result<std::unique_ptr<Network>> open_network(const launch::Job& job, const std::string& need);
/// The record with which peers use the network: version, name, common settings and address.
[[nodiscard]] std::string address_record(const Network& network);
/// For a job on several hosts: puts the address into the exchange; share() must follow.
[[nodiscard]] Status publish_address(const Network& network, launch::Exchange& exchange);
/// Called after share(): checks version and network against one other process of the job. An error names the
/// mismatch.
[[nodiscard]] Status check_addresses(AddressBook& addresses, launch::Exchange& exchange);

/// Lines "network\tname: description" of the usable networks, or the reason why a network is not usable.
[[nodiscard]] std::string describe_networks();

}  // namespace weft::transport
