// SPDX-License-Identifier: BSD-3-Clause
// End of the race checks (device/race_check.hpp).
#pragma once

namespace weft::device::cuda {

/// Destroys the streams and events of the checks.
void close_race_checks();

}  // namespace weft::device::cuda
