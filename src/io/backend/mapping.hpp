// SPDX-License-Identifier: BSD-3-Clause
// Mapping: bytes of a file as memory, for writes of many short runs. Each byte is written in place, so that
// writes of other processes to the gaps are not lost, as they may be with data sieving.
// Threading: any thread, without the instance lock.
#pragma once
#include <cstddef>

#include "io/backend/descriptor.hpp"

namespace weft::io {

class Mapping {
 public:
  /// Allocates storage for the range, maps it and makes its pages present. Not valid() if the file system
  /// refuses, for example for want of space: the caller writes with system calls, which report the reason.
  Mapping(const Descriptor& file, const Range& range);
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();
  [[nodiscard]] bool valid() const { return memory_ != nullptr; }
  /// The byte at a file offset in the range.
  [[nodiscard]] std::byte* at(int64_t offset) const { return memory_ + (offset - first_); }

 private:
  std::byte* memory_ = nullptr;
  int64_t first_ = 0, bytes_ = 0;  ///< whole pages
};

}  // namespace weft::io
