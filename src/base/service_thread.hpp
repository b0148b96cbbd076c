// SPDX-License-Identifier: BSD-3-Clause
// Service threads: threads of the library, which handle no signals of the program.
#pragma once
#include <pthread.h>

namespace weft {

/// Starts a thread with a name of at most 15 characters. It blocks all signals but those of its own faults.
/// Returns 0, or an errno value.
[[nodiscard]] int start_service_thread(pthread_t& thread, const char* name, void* (*function)(void*),
                                       void* argument);

}  // namespace weft
