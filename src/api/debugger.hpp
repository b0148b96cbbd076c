// SPDX-License-Identifier: BSD-3-Clause
// Debugger: what debuggers need to read the state of a stopped process without debugging information of the
// library: MPIR_weft_layout, a list of names with addresses, offsets and sizes. tools/gdb/weft.py reads it.
#pragma once
#include "core/instance.hpp"

namespace weft::api::debugger {

/// Fills in the addresses of the process's state. Called for each new instance.
void publish(core::Instance& instance);

}  // namespace weft::api::debugger
