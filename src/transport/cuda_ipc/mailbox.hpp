// SPDX-License-Identifier: BSD-3-Clause
// Mailbox: Unix socket through which an exporter sends descriptors of cuMemMap memory to importers that
// cannot use pidfd_getfd: one connection per region, before the region itself, between equal user ids.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "device/ipc.hpp"

namespace weft::transport::cuda_ipc {

/// Importer side. Descriptors are kept until the region's drop, since its mapping may be closed and reopened.
class Mailbox {
 public:
  Mailbox() = default;
  ~Mailbox() { close(); }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// Opens the mailbox if needed and returns its address for exporters; 0: no socket available.
  [[nodiscard]] uint64_t address();
  /// Returns duplicates of a region's descriptors, to be closed by the caller. Errc::unsupported: not
  /// received.
  [[nodiscard]] Result<std::vector<device::ShareableHandle>> duplicate(uint64_t epoch, uint64_t buffer_id);
  void drop(uint64_t epoch, uint64_t buffer_id);
  /// Drops all descriptors of one exporter process.
  void drop_all(uint64_t epoch);
  void close();

 private:
  using Messages = std::map<std::pair<uint64_t, uint64_t>, std::vector<device::ShareableHandle>>;
  void receive_pending();
  Messages::iterator discard(Messages::iterator at);
  int socket_ = -1;
  uint64_t address_ = 0;
  Messages messages_;  // by epoch and buffer id
  size_t count_ = 0;   // descriptors in messages_
};

/// Exporter side. Does not block: a full mailbox is an error.
[[nodiscard]] Status send_descriptors(uint64_t mailbox, uint64_t epoch, uint64_t buffer_id,
                                      std::span<const device::ShareableHandle> descriptors);

}  // namespace weft::transport::cuda_ipc
