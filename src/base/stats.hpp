// SPDX-License-Identifier: BSD-3-Clause
// Stats: sums of the calls, bytes and time of each MPI function, for the summary at MPI_Finalize
// (api/summary.hpp). Threading: any thread; only trace.cpp uses push to annotate.
#pragma once
#include <cstdint>
#include <vector>

namespace weft::stats {

/// One MPI function. `bytes`: of the messages and collectives that its calls began.
struct Call {
  const char* name = nullptr;
  uint64_t calls = 0, bytes = 0, ns = 0;
};

/// Starts the sums if the setting says so.
void open();
[[nodiscard]] bool enabled();
/// The functions called so far, longest time first. Calls that have not returned are not included.
[[nodiscard]] std::vector<Call> calls();
/// Time since open() in ns.
[[nodiscard]] uint64_t elapsed_ns();

// If enabled: ranges nest; the outermost of a thread is the call.
void push(const char* name);
void pop();
void annotate(uint64_t bytes);

}  // namespace weft::stats
