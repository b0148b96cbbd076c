// SPDX-License-Identifier: BSD-3-Clause
// Mapping: bytes of a file as memory. Each byte is written in place, so that writes of other processes to the
// gaps are not lost, as they may be with data sieving.
// Threading: any thread, without the instance lock.
#pragma once
#include <cstddef>
#include <cstdint>

#include "io/backend/descriptor.hpp"

namespace weft::io {

constexpr int64_t kPageBytes = 4096;  ///< of memory

class Mapping {
 public:
  enum class Use { read, write };
  /// Maps the range. Not valid() if the file system refuses: the caller uses system calls, which report the
  /// reason.
  Mapping(const Descriptor& file, const Range& range, Use use);
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();
  [[nodiscard]] bool valid() const { return memory_ != nullptr; }
  /// Makes the pages of a part of the range writable, for which the file has storage: Descriptor::provide().
  /// Returns false if pages cannot be had: touching them would raise SIGBUS.
  [[nodiscard]] bool populate(const Range& part) const;
  /// The same, faster, for pages that are in memory, in a file system that does not wait for a notification
  /// of writes (tmpfs): a fault of a read maps 16 pages, and they are writable.
  [[nodiscard]] bool populate_resident(const Range& part) const;
  /// The byte at a file offset in the range.
  [[nodiscard]] std::byte* at(int64_t offset) const { return memory_ + (offset - first_); }

 private:
  [[nodiscard]] bool advise(const Range& part, int advice) const;
  std::byte* memory_ = nullptr;
  int64_t first_ = 0, bytes_ = 0;  ///< whole pages
};

}  // namespace weft::io
