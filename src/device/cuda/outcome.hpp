// SPDX-License-Identifier: BSD-3-Clause
// Where work stands that a kernel of Weft's was given.
#pragma once
#include <cstdint>

namespace weft::device::cuda {

/// `untouched`: it will not be done by the kernel; a copy engine must.
enum class Outcome : uint8_t { pending, done, untouched };

}  // namespace weft::device::cuda
