// SPDX-License-Identifier: BSD-3-Clause
#include "io/view/typed_buffer.hpp"

#include "coll/schedule/call.hpp"
#include "datatype/predefined.hpp"

namespace weft::io {

Status TypedBuffer::slice(const p2p::Buffer& memory, int64_t offset, int64_t n) {
  type_.reset();
  if (memory.type->contiguous()) {
    buffer_ = {coll::advance(memory.address, offset), n, datatype::predefined(datatype::kByte),
               memory.memory};
    return {};
  }
  auto type = datatype::slice(const_cast<datatype::Datatype&>(*memory.type), memory.count, offset, n);
  if (!type) return std::move(type).error();
  type_.reset(*type);
  buffer_ = {memory.address, 1, *type, memory.memory};
  return {};
}

Status TypedBuffer::set(std::byte* base, datatype::DatatypeResult type, int64_t n) {
  type_.reset();
  if (!type) return std::move(type).error();
  type_.reset(*type);
  if (n < type_->size()) {
    auto part = datatype::slice(*type_, 1, 0, n);
    if (!part) return std::move(part).error();
    type_.reset(*part);
  }
  buffer_ = coll::host_buffer(base, 1, *type_);
  return {};
}

void TypedBuffer::set(std::byte* base, int64_t n) {
  type_.reset();
  buffer_ = p2p::host_bytes(base, static_cast<size_t>(n));
}

}  // namespace weft::io
