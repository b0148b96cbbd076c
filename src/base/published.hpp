// SPDX-License-Identifier: BSD-3-Clause
// Published: facts about this process for readers from outside (`weft hang` and others), in the memory of its
// counters (counter_table.hpp).
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

#include "base/queued_table.hpp"

namespace weft::published {

/// The job and its launcher, and the name of this host. Texts are cut to the sizes in counter_table.hpp. The
/// last call counts. Without memory for counters nothing is published.
void set_identity(const std::string& job, const std::string& host, const std::string& launcher);

/// Adds a queue of operations for readers, and takes it off. Under the instance lock. Without memory for
/// counters they have no effect.
void add_queue(queued_table::Head& queue);
void remove_queue(const queued_table::Head& queue);

}  // namespace weft::published
