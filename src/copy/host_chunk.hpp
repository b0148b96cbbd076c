// SPDX-License-Identifier: BSD-3-Clause
// HostChunk: host memory through which the data of a GPU are staged, pinned or pageable.
#pragma once
#include <cstddef>
#include <memory>
#include <utility>

#include "base/result.hpp"
#include "copy/view.hpp"
#include "device/pinned.hpp"

namespace weft::copy {

class HostChunk {
 public:
  HostChunk() = default;
  /// A pinned chunk near a GPU; errors as device::lease_pinned().
  [[nodiscard]] static Result<HostChunk> lease(const device::Memory& near);
  /// Pageable memory, which the driver copies more slowly: report it.
  [[nodiscard]] static HostChunk pageable(size_t bytes);

  [[nodiscard]] explicit operator bool() const { return pinned_ || heap_ != nullptr; }
  [[nodiscard]] size_t size() const { return size_; }  ///< bytes; of a pinned chunk gpu.staging_chunk
  [[nodiscard]] View view() const { return pinned_ ? plain(pinned_) : plain(heap_.get()); }

 private:
  device::PinnedBuffer pinned_;
  std::unique_ptr<std::byte[]> heap_;
  size_t size_ = 0;
};

}  // namespace weft::copy
