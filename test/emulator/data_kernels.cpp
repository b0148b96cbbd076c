// SPDX-License-Identifier: BSD-3-Clause
// The kernels that work on data: the code that the GPU runs, on host addresses, some items a turn.
#include <algorithm>
#include <cstring>

#include "device/kernel/reduce.hpp"
#include "world.hpp"

namespace emucuda {
namespace {

namespace contract = weft::device::kernel;

constexpr uint64_t kItemsATurn = 1 << 16;

class Reduce : public Kernel {
 public:
  Reduce(ContextObject& context, void** parameters) : context_(context) {
    std::memcpy(&p_, parameters[0], sizeof p_);
  }

  Turn turn(uint64_t) override {
    contract::Reduce here = p_;
    if (p_.terms == 0 || p_.terms > contract::Reduce::kTerms || !aligned() || !map(here.dst))
      return Turn::illegal_address;
    for (uint32_t i = 0; i < p_.terms; ++i)
      if (!map(here.sources[i])) return Turn::illegal_address;
    const uint64_t end = std::min(here.items(), next_ + kItemsATurn);
    for (; next_ < end; next_ += contract::Reduce::kBatch) contract::reduce_batch(here, next_, 1);
    return next_ < here.items() ? Turn::worked : Turn::ended;
  }

 private:
  /// A vector as host code sees it. A pair's padding at the end may lie outside of the allocation.
  bool map(uint64_t& address) const {
    const uint32_t data = contract::data_bytes(p_.reduction.element);
    uint64_t bytes = p_.bytes;
    for (uint64_t at = bytes; at != 0 && ((data >> ((at - 1) % 16)) & 1) == 0; --at) --bytes;
    address = reinterpret_cast<uint64_t>(reach_from(context_, address, bytes));
    return address != 0;
  }

  /// As the hardware wants it.
  [[nodiscard]] bool aligned() const {
    uint64_t any = p_.dst + p_.head;
    for (uint32_t i = 0; i < p_.terms; ++i) any |= p_.sources[i] + p_.head;
    return p_.alignment != 0 && any % p_.alignment == 0;
  }

  ContextObject& context_;
  contract::Reduce p_;
  uint64_t next_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> create_reduce(ContextObject& context, void** parameters) {
  return std::make_unique<Reduce>(context, parameters);
}

}  // namespace emucuda
