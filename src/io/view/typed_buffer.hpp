// SPDX-License-Identifier: BSD-3-Clause
// TypedBuffer: a buffer together with the datatype that it needs. Threading: under the instance lock.
#pragma once
#include <memory>

#include "base/result.hpp"
#include "datatype/datatype.hpp"
#include "p2p/p2p.hpp"

namespace weft::io {

class TypedBuffer {
 public:
  /// Bytes [offset, offset + n) of the packed stream of `memory`.
  [[nodiscard]] Status slice(const p2p::Buffer& memory, int64_t offset, int64_t n);
  /// The first `n` bytes of one element of a new type at `base`, in host memory. Owns the type.
  [[nodiscard]] Status set(std::byte* base, datatype::DatatypeResult type, int64_t n);
  /// `n` adjacent bytes of host memory.
  void set(std::byte* base, int64_t n);
  [[nodiscard]] const p2p::Buffer& get() const { return buffer_; }

 private:
  struct CloseHandle {
    void operator()(datatype::Datatype* type) const { type->close_handle(); }
  };
  std::unique_ptr<datatype::Datatype, CloseHandle> type_;
  p2p::Buffer buffer_{};
};

}  // namespace weft::io
