// SPDX-License-Identifier: BSD-3-Clause
// Descriptors of cuMemMap memory that an exporter sends, for importers that may not take them from its
// process (pidfd_getfd forbidden): a datagram for each region, before the importer hears of the region.
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

/// The importer's end. What came is kept until the region's drop: its mapping may be closed and opened again.
class Mailbox {
 public:
  Mailbox() = default;
  ~Mailbox() { close(); }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// By which exporters find it; opens it. 0: no socket is to be had.
  [[nodiscard]] uint64_t address();
  /// Copies of a region's descriptors, the caller's to close. Errc::unsupported: they have not come.
  [[nodiscard]] Result<std::vector<device::Descriptor>> copies(uint64_t epoch, uint64_t buffer_id);
  void drop(uint64_t epoch, uint64_t buffer_id);
  /// Everything of one life of an exporter.
  void drop_all(uint64_t epoch);
  void close();

 private:
  using Letters = std::map<std::pair<uint64_t, uint64_t>, std::vector<device::Descriptor>>;
  void collect();
  Letters::iterator discard(Letters::iterator at);
  int socket_ = -1;
  uint64_t address_ = 0;
  Letters letters_;   // by epoch and buffer id
  size_t count_ = 0;  // descriptors in them
};

/// The exporter's end. Does not wait: a full mailbox is an error as others are.
[[nodiscard]] Status send_descriptors(uint64_t mailbox, uint64_t epoch, uint64_t buffer_id,
                                      std::span<const device::Descriptor> pieces);

}  // namespace weft::transport::cuda_ipc
