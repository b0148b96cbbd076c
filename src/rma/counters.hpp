// SPDX-License-Identifier: BSD-3-Clause
// Counters: 64-bit words of the processes of a window, for notifications and for barriers by kernels. They
// lie in GPU memory, where kernels change them, if the window memory of a process does or the window has a
// GPU stream; else in host memory. Created and freed collectively. Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "device/memory.hpp"
#include "device/stream.hpp"
#include "transport/rma/rma.hpp"

namespace weft::device::abi {
struct WindowStatus;
}

namespace weft::rma {

class Window;

class Counters {
 public:
  /// Collective over the window; every process gets the same outcome.
  [[nodiscard]] static Result<std::unique_ptr<Counters>> create(Window& window, uint32_t notifications);
  ~Counters();
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;
  /// Collective, when no process and no kernel uses the counters any more.
  [[nodiscard]] Status withdraw();

  /// Calls visit(target) for the counters of all processes.
  template <class Visit>
  void for_each_target(Visit&& visit) {
    for (const Peer& peer : peers_)
      if (peer.target != nullptr) visit(*peer.target);
  }
  /// Number of notifications of a process.
  [[nodiscard]] uint32_t notifications(int rank) const {
    return peers_[static_cast<size_t>(rank)].notifications;
  }
  /// Adds 1 to a counter of `rank`. Precondition: what it announces is complete there.
  [[nodiscard]] Status notify(int rank, uint32_t notification);
  [[nodiscard]] Result<uint64_t> read(uint32_t notification) const;
  [[nodiscard]] Status write(uint32_t notification, uint64_t value);
  /// Subtracts `value` from an own counter if it is that large.
  [[nodiscard]] Result<bool> try_take(uint32_t notification, uint64_t value);

  /// Address of the table of weft_device.cuh in GPU memory, made at the first call. Errc::unsupported, with
  /// rank and reason, if the GPU cannot access the memory of a process. `in_stream`: the waits have no
  /// time-out.
  [[nodiscard]] Result<uint64_t> table(bool in_stream);
  /// Errors of kernels; null before table().
  [[nodiscard]] device::abi::WindowStatus* status() const { return status_; }

 private:
  struct Record;
  struct Peer {
    std::unique_ptr<transport::rma::Target> target;
    uint32_t notifications = 0;
  };
  Counters(Window& window, uint32_t notifications);
  [[nodiscard]] Status allocate();
  [[nodiscard]] Status make_table();
  [[nodiscard]] uint64_t offset(uint32_t notification) const;
  [[nodiscard]] bool on_device() const { return memory_.on_device(); }

  Window& window_;
  const uint32_t notifications_;
  device::UserStream gpu_;  ///< of `memory_`; its handle is null
  device::Memory memory_;
  std::byte* address_ = nullptr;
  transport::rma::Id region_ = transport::rma::kNoId;
  std::vector<Peer> peers_;
  uint64_t discarded_ = 0;  ///< values before atomic operations
  device::Memory table_;
  device::abi::WindowStatus* status_ = nullptr;
};

}  // namespace weft::rma
