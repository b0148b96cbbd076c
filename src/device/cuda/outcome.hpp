// SPDX-License-Identifier: BSD-3-Clause
// State of work submitted to a kernel.
#pragma once
#include <cstdint>

namespace weft::device::cuda {

/// `not_started`: the kernel will not execute the work; submit it to a copy engine. `timed_out`: another
/// GPU's kernel did not write its tiles in time; the work is incomplete.
enum class Outcome : uint8_t { pending, done, not_started, timed_out };

}  // namespace weft::device::cuda
