// SPDX-License-Identifier: BSD-3-Clause
// Where work stands that a kernel of Weft's was given.
#pragma once
#include <cstdint>

namespace weft::device::cuda {

/// `untouched`: it will not be done by the kernel; a copy engine must. `missed`: another GPU's kernel did not
/// write in time what this one was to read; some of it is not done.
enum class Outcome : uint8_t { pending, done, untouched, missed };

}  // namespace weft::device::cuda
