// SPDX-License-Identifier: BSD-3-Clause
// Published: facts about this process for readers from outside (`weft hang` and others), in the memory of its
// counters (counter_table.hpp).
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

namespace weft::published {

/// The job and its launcher, and the name of this host. Texts are cut to the sizes in counter_table.hpp. The
/// last call counts. Without memory for counters nothing is published.
void set_identity(const std::string& job, const std::string& host, const std::string& launcher);

/// Address of the first queued_table::Queue of this process; 0: none. Writers hold the instance lock. Null
/// without memory for counters.
[[nodiscard]] std::atomic<uint64_t>* queues();

}  // namespace weft::published
