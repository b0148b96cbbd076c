// SPDX-License-Identifier: BSD-3-Clause
// Record: the messages that one process sent and received in a round, and the naive model: matching in order
// of posting and of sending (MPI 5.0 section 3.5), as far as the program order of threads defines it.
#pragma once
#include <atomic>
#include <climits>
#include <cstdint>
#include <string>
#include <vector>

namespace randomized {

constexpr int kAny = INT_MIN;  ///< wildcard in a receive's filters

/// First bytes of every message. Ranks are those of MPI_COMM_WORLD.
struct Envelope {
  int32_t source, thread;  ///< sending process and thread
  int32_t number;          ///< sequence number among that thread's sends
  int32_t comm, tag, bytes;
};

/// One receive. Stamps order the events of a process.
struct Receipt {
  int thread, comm;
  int source, tag;         ///< filters
  int64_t posted;          ///< stamp before the call that could match
  int64_t ended;           ///< stamp after observed completion, or before the cancelling call
  bool cancelled = false;  ///< without a message
  Envelope got{};

  [[nodiscard]] bool accepts(const Envelope& message) const {
    return comm == message.comm && (source == kAny || source == message.source) &&
           (tag == kAny || tag == message.tag);
  }
};

/// Fills in all bytes after the envelope; `at` has envelope.bytes, at least sizeof(Envelope).
void write_message(char* at, const Envelope& envelope);
/// Returns the error in a received message, or "".
[[nodiscard]] std::string check_message(const char* at);

/// Returns a violation of the model in these receives of one process, or "".
[[nodiscard]] std::string check_order(const std::vector<Receipt>& receipts);

}  // namespace randomized
