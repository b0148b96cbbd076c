// SPDX-License-Identifier: BSD-3-Clause
#include "transport/ofi/buffer_pool.hpp"

#include <cstdlib>

namespace weft::transport::ofi {
namespace {
constexpr size_t kSlab = 16, kPage = 4096;
}

void BufferPool::Slab::Free::operator()(std::byte* memory) const { std::free(memory); }

bool BufferPool::grow() {
  auto slab = std::make_unique<Slab>();
  slab->memory.reset(
      static_cast<std::byte*>(std::aligned_alloc(kPage, (kSlab * bytes_ + kPage - 1) & ~(kPage - 1))));
  if (slab->memory == nullptr) {
    failure_ = Error(Errc::no_mem, "no memory for network messages");
    return false;
  }
  if (endpoint_.wants(abi::kMrLocal)) {
    auto mr = endpoint_.add_memory(slab->memory.get(), kSlab * bytes_, abi::kSend | abi::kRecv, {});
    if (!mr) {
      failure_ = std::move(mr).error();
      return false;
    }
    slab->mr = std::move(*mr);
  }
  slab->messages.resize(kSlab);
  for (size_t i = kSlab; i-- > 0;) {
    MessageBuffer& message = slab->messages[i];
    message.kind = kind_;
    message.data = slab->memory.get() + i * bytes_;
    message.desc = slab->mr ? slab->mr->mem_desc : nullptr;
    free_.push_back(&message);
  }
  allocated_ += kSlab;
  slabs_.push_back(std::move(slab));
  return true;
}

}  // namespace weft::transport::ofi
