// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/message/transfer.hpp"

namespace weft::p2p {

Slab<Transfer>& Transfer::slab() {
  static auto& slab = *new Slab<Transfer>;
  return slab;
}

void Transfer::destroy() {
  if (!owned) return;
  if (type != nullptr) const_cast<datatype::Datatype*>(type)->release();
  if (comm != nullptr) comm->release();
  slab().destroy(this);
}

void Transfer::pack(uint64_t offset, std::byte* out, size_t n) const {
  if (contiguous)
    copy_small(out, data() + offset, n);
  else
    datatype::pack(*type, count, address, static_cast<datatype::Count>(offset), out, n);
}

void Transfer::unpack(uint64_t offset, const std::byte* in, size_t n) {
  if (contiguous)
    copy_small(data() + offset, in, n);
  else
    datatype::unpack(*type, count, address, static_cast<datatype::Count>(offset), in, n);
}

}  // namespace weft::p2p
