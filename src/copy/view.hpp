// SPDX-License-Identifier: BSD-3-Clause
// View: a typed buffer of any memory kind as a packed stream. Threading: a value.
#pragma once
#include <cstddef>
#include <cstdint>

#include "datatype/datatype.hpp"
#include "device/memory.hpp"
#include "device/pinned.hpp"

namespace weft::copy {

/// The packed stream of `count` elements of `type` at `address`, from its byte `offset` on; `type` null:
/// plain bytes. Does not own the type, which must live until all copies of the view are complete.
struct View {
  std::byte* address = nullptr;
  const datatype::Datatype* type = nullptr;
  int64_t count = 0;
  device::Memory memory{};
  uint64_t offset = 0;

  /// The rest of the stream after its first `n` bytes.
  [[nodiscard]] View from(uint64_t n) const {
    View rest = *this;
    rest.offset += n;
    return rest;
  }
  /// Precondition: plain bytes.
  [[nodiscard]] std::byte* data() const { return address + offset; }
};

/// Plain bytes; host memory by default. A view that is only copied from is not written to.
[[nodiscard]] inline View plain(const void* address, const device::Memory& memory = {}) {
  return {static_cast<std::byte*>(const_cast<void*>(address)), nullptr, 0, memory, 0};
}
[[nodiscard]] inline View plain(const device::PinnedBuffer& chunk) {
  return plain(chunk.data(), chunk.memory());
}
/// `count` elements of `type`.
[[nodiscard]] inline View typed(const void* address, int64_t count, const datatype::Datatype& type,
                                const device::Memory& memory) {
  View view = plain(address, memory);
  if (type.contiguous()) return view;
  view.type = &type;
  view.count = count;
  return view;
}

}  // namespace weft::copy
