// SPDX-License-Identifier: BSD-3-Clause
// Generations: keeps the messages of successive connections with a process of another job apart. Messages of
// a network name job and rank of their sender, and arrive late or early when both connect again at once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace weft::transport {

/// The high bits of a sequence number between jobs are the generation of the sender's connection: it counts
/// the connections of the sender to other jobs and is never 0. The numbers of the own job have generation 0.
class Generations {
 public:
  using Source = std::pair<uint32_t, uint32_t>;  ///< tag of the job, rank in it
  static constexpr unsigned kShift = 40;         ///< 10^12 messages per connection, 16 million connections
  /// Messages of a process that is not known: request, withdrawals of a former request and of this one.
  static constexpr uint64_t kMaxUnknown = 3;

  enum class Action { take, unknown, drop };

  /// Returns the first sequence number of a new connection to a process of another job.
  [[nodiscard]] uint64_t next() { return ++last_ << kShift; }

  /// Decides about a message of another job. `expected`: next sequence number of the connection; 0 before the
  /// first message; null: the process is not known. `notice`: a disconnect notice of the network. take: of
  /// this connection, in order or early. unknown: for Receiver::unknown_source(). drop: of a former
  /// connection (net.stale_messages).
  [[nodiscard]] Action check(const Source& source, uint64_t sequence, bool notice, uint64_t* expected);

  /// The connection begins with message `sequence`, for which check() has returned unknown. The messages
  /// before were of a former connection. `notified`: as in removed().
  void renew(const Source& source, uint64_t sequence, bool notified, uint64_t& expected);

  /// The connection is forgotten. `notified`: its disconnect notice, which is its last message, was
  /// delivered.
  void removed(const Source& source, uint64_t expected, bool notified);

  /// Number of processes with a connection request, or whose disconnect notice has not arrived.
  [[nodiscard]] size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    uint64_t ended = 0;    // generation of the last connection, until its disconnect notice
    uint64_t unknown = 0;  // sequence number after the messages passed to unknown_source(); 0: none
  };
  void erase_if_empty(const Source& source);

  std::map<Source, Entry> entries_;
  uint64_t last_ = 0;
};

}  // namespace weft::transport
