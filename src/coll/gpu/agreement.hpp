// SPDX-License-Identifier: BSD-3-Clause
// Agreement: one step of a channel in which every rank says where its operands are, since all have to go the
// same way. When it is over all ranks have arrived. Threading: under the instance lock.
#pragma once
#include <cstdint>

#include "coll/call.hpp"
#include "coll/gpu/domain.hpp"

namespace weft::coll::gpu {

enum class Way : uint8_t {
  host,     ///< no operand is in GPU memory: by shared memory
  kernels,  ///< all are, in a domain or where one can be made
  messages
};
struct Agreement {
  Way way = Way::messages;
  uint64_t largest = 0;   ///< bytes of the largest message of all ranks
  device::Memory memory;  ///< of an operand of this rank
};
[[nodiscard]] Agreement agree(const Call& call, shared::Channel& channel, const Domain& domain);

}  // namespace weft::coll::gpu
