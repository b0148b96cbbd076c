// SPDX-License-Identifier: BSD-3-Clause
// Record: what one process sent and received in a round, and the naive model it is held against: matching in
// order of posting and of sending (MPI 5.0 section 3.5), as far as the program order of threads fixes it.
#pragma once
#include <atomic>
#include <climits>
#include <cstdint>
#include <string>
#include <vector>

namespace randomized {

constexpr int kAny = INT_MIN;  ///< in a receive's filters

/// Begins every message. Ranks are those of MPI_COMM_WORLD.
struct Envelope {
  int32_t source, thread;  ///< who sent it
  int32_t number;          ///< in the order of that thread's sends
  int32_t comm, tag, bytes;
};

/// One receive. Stamps order what a process does.
struct Receipt {
  int thread, comm;
  int source, tag;         ///< filters
  int64_t posted;          ///< before the call that could match
  int64_t ended;           ///< after completion was seen, or before the cancelling call
  bool cancelled = false;  ///< without a message
  Envelope got{};

  [[nodiscard]] bool accepts(const Envelope& message) const {
    return comm == message.comm && (source == kAny || source == message.source) &&
           (tag == kAny || tag == message.tag);
  }
};

/// Fills in all bytes behind the envelope; `at` has envelope.bytes, at least sizeof(Envelope).
void write_message(char* at, const Envelope& envelope);
/// What is wrong with a message that arrived, or "".
[[nodiscard]] std::string check_message(const char* at);

/// What the model forbids in these receives of one process, or "".
[[nodiscard]] std::string check_order(const std::vector<Receipt>& receipts);

}  // namespace randomized
