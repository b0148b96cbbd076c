// SPDX-License-Identifier: BSD-3-Clause
// Counters: 64-bit words of the processes of a window, for notifications and for barriers by kernels. They
// lie in GPU memory, where kernels change them, if the window memory of a process does or the window has a
// GPU stream; else in host memory. If the window spans several hosts, a counter is the sum of two words: one
// in host memory, which CPUs change, and in the former case one in GPU memory for the kernels of the host.
// Each may be less than zero. Created and freed collectively. Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "device/memory.hpp"
#include "device/pinned.hpp"
#include "device/remote_writes.hpp"
#include "device/stream.hpp"
#include "transport/rma/rma.hpp"

namespace weft::device::abi {
struct WindowPeer;
struct WindowStatus;
}  // namespace weft::device::abi

namespace weft::rma {

class KernelQueue;
class Window;

class Counters {
 public:
  /// Collective over the window; every process gets an error if one does. Makes Window::counters, before any
  /// peer sends messages to them. `own`: an error of this process before it.
  [[nodiscard]] static Status create(Window& window, uint32_t notifications, Status own);
  ~Counters();
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;
  /// Collective, when no process and no kernel uses the counters any more.
  [[nodiscard]] Status withdraw();

  /// Calls visit(target) for the counters of all processes.
  template <class Visit>
  void for_each_target(Visit&& visit) {
    for (const Peer& peer : peers_) {
      if (peer.target != nullptr) visit(*peer.target);
      if (peer.gpu != nullptr) visit(*peer.gpu);
    }
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

  /// A kernel of another host adds 1 to the word of a counter, or of a barrier. Kernels here see data that
  /// adapters have written before. Returns false if there is no such word.
  [[nodiscard]] bool arrive(uint32_t word);
  /// Whether a put or signal of the kernels of `rank` could not be executed here; flushes say so.
  [[nodiscard]] bool& failed_put(int rank) { return peers_[static_cast<size_t>(rank)].failed_put; }

  /// Address of the table of weft_device.cuh in GPU memory, made at the first call. Errc::unsupported, with
  /// rank and reason, if the GPU cannot access the memory of a process of this host. `in_stream`: the waits
  /// have no time-out, and all processes are of this host.
  [[nodiscard]] Result<uint64_t> table(bool in_stream);
  /// Errors of kernels; null before table().
  [[nodiscard]] device::abi::WindowStatus* status() const { return status_; }
  /// Requests of kernels to other hosts; null before table(), and on one host.
  [[nodiscard]] KernelQueue* queue() const { return queue_.get(); }
  /// A rank has failed: kernels end their waits, and requests of that rank end.
  void lose(int rank);
  /// The window is revoked: kernels end their waits.
  void end_access();

 private:
  struct Record;
  struct Peer {
    std::unique_ptr<transport::rma::Target> target;  ///< words in host memory, or the only ones
    std::unique_ptr<transport::rma::Target> gpu;     ///< words in GPU memory beside them; null: none
    uint32_t notifications = 0;
    bool failed_put = false;  ///< a put or signal of its kernels could not be executed here
  };
  Counters(Window& window, uint32_t notifications);
  [[nodiscard]] Status share(Status own);
  [[nodiscard]] Status allocate();
  [[nodiscard]] Status allocate_on_gpu(const device::Memory& near);
  [[nodiscard]] Status allocate_on_host();
  [[nodiscard]] Status make_keys(std::vector<Record>& out);
  [[nodiscard]] Status attach(const std::vector<Record>& in);
  [[nodiscard]] Status make_table();
  [[nodiscard]] Result<device::abi::WindowPeer> describe(int rank) const;
  [[nodiscard]] Status pin_host_words();
  [[nodiscard]] Result<uint64_t> read_gpu(uint32_t notification) const;
  void cancel();
  [[nodiscard]] uint64_t offset(uint32_t notification) const;
  [[nodiscard]] uint64_t* host_word(uint32_t notification) const {
    return reinterpret_cast<uint64_t*>(host_ + offset(notification));
  }

  Window& window_;
  const uint32_t notifications_;
  const bool spans_;            ///< several hosts
  device::UserStream gpu_;      ///< of `memory_`; its handle is null
  device::Memory memory_;       ///< of the words in GPU memory; none: all are in host memory
  std::byte* words_ = nullptr;  ///< in GPU memory
  std::byte* host_ = nullptr;   ///< words in host memory
  transport::rma::Id gpu_region_ = transport::rma::kNoId, host_region_ = transport::rma::kNoId;
  device::HostRegistration pinned_;  ///< of `host_`
  std::vector<Peer> peers_;
  uint64_t discarded_ = 0;  ///< values before atomic operations
  device::Memory table_;
  device::abi::WindowStatus* status_ = nullptr;
  std::unique_ptr<KernelQueue> queue_;
  device::RemoteWrites remote_writes_ = device::RemoteWrites::ordered;  ///< into the window memory
  /// Of try_take(), for each notification: calls, and the word in host memory when the one in GPU memory was
  /// last read.
  struct Look {
    unsigned polls = 0;
    uint64_t host_seen = 0;
  };
  std::vector<Look> looks_;
};

}  // namespace weft::rma
