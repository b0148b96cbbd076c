// SPDX-License-Identifier: BSD-3-Clause
// Segments: host memory that other processes of the host can map, a memfd without a name in a file system.
// A peer maps it through /proc, which needs the permission to inspect the owner, not to trace it.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "base/result.hpp"

namespace weft::transport::rma {

/// Identifies a segment to other processes of its host. Two segments never have the same inode while one of
/// them exists, so a peer that maps the descriptor proves by the inode that it has the right segment.
struct SegmentName {
  int32_t descriptor;  ///< in the owner
  int32_t unused;
  uint64_t device, inode;
  uint64_t bytes;
  bool operator==(const SegmentName&) const = default;
};

/// Mapped until destruction. The owner's descriptor stays open as long as its Segment.
class Segment {
 public:
  /// Creates zeroed memory of this process. Errc::no_mem, or Errc::other for a file size limit.
  [[nodiscard]] static Result<std::unique_ptr<Segment>> create(size_t bytes);
  /// Maps the segment of another process. Errc::unsupported with the reason if that is not permitted or the
  /// owner has closed it.
  [[nodiscard]] static Result<std::unique_ptr<Segment>> attach(pid_t owner, const SegmentName& name);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] size_t bytes() const { return name_.bytes; }
  [[nodiscard]] const SegmentName& name() const { return name_; }
  [[nodiscard]] bool covers(const std::byte* address, size_t length) const {
    return address >= data_ && length <= bytes() && static_cast<size_t>(address - data_) <= bytes() - length;
  }

 private:
  Segment() = default;
  [[nodiscard]] Status map(int descriptor);
  SegmentName name_{-1, 0, 0, 0, 0};
  int own_descriptor_ = -1;  // -1 for a segment of another process
  std::byte* data_ = nullptr;
};

/// Small pieces of one segment, which exists until destruction: peers map it once.
class SegmentPool {
 public:
  static constexpr size_t kPieceUnit = 4096, kUnits = 256, kMaxPiece = kPieceUnit * kUnits / 4;
  /// Memory with any content; null if there is no free range of that size.
  [[nodiscard]] std::byte* allocate(size_t bytes);
  void free(std::byte* memory);
  /// The segment if it contains the memory; else null.
  [[nodiscard]] const Segment* segment_of(const std::byte* address, size_t length) const {
    return segment_ != nullptr && segment_->covers(address, length) ? segment_.get() : nullptr;
  }

 private:
  std::unique_ptr<Segment> segment_;
  std::map<size_t, size_t> used_;  // first unit, units
};

}  // namespace weft::transport::rma
