// SPDX-License-Identifier: BSD-3-Clause
// ContiguousBuffer: a host buffer as contiguous packed bytes: the buffer itself if its type is contiguous,
// else a copy that is packed at the start or unpacked at the end. Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <memory>
#include <new>

#include "coll/schedule/copy.hpp"

namespace weft::coll::host {

class ContiguousBuffer {
 public:
  /// `load`: packs the buffer's data into the copy.
  [[nodiscard]] Status open(const p2p::Buffer& buffer, bool load) {
    buffer_ = buffer;
    bytes_ = static_cast<size_t>(packed_bytes(buffer));
    if (buffer.type->contiguous()) [[likely]] {
      data_ = static_cast<std::byte*>(buffer.address);
      return {};
    }
    if (bytes_ > sizeof inline_) {
      heap_.reset(new (std::nothrow) std::byte[bytes_]);
      if (heap_ == nullptr) return Error(Errc::no_mem, "no memory to pack the buffer of a collective");
    }
    data_ = heap_ != nullptr ? heap_.get() : inline_;
    copied_ = true;
    return load ? local_copy(packed(data_, bytes_), buffer) : Status();
  }
  /// Unpacks the copy into the buffer.
  [[nodiscard]] Status store() { return copied_ ? local_copy(buffer_, packed(data_, bytes_)) : Status(); }
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  p2p::Buffer buffer_{};
  size_t bytes_ = 0;
  std::byte* data_ = nullptr;
  bool copied_ = false;
  std::unique_ptr<std::byte[]> heap_;
  alignas(16) std::byte inline_[256];
};

}  // namespace weft::coll::host
