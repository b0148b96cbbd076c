// SPDX-License-Identifier: BSD-3-Clause
// Rules for the submission of device copies: bursts and batches of messages, instances of the resident
// kernel. No driver and no clock: times (monotonic, ns) and counts are arguments. Threading: the owner's
// lock.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace weft::device {

/// Decides when the copies of messages are submitted, and which of them together. A submission costs the CPU
/// as much as posting ten receives, and the GPU more than several small copies (ADR 0005, 0008, 0016).
class SubmissionBatcher {
 public:
  static constexpr size_t kMaxBatchCopies = 64;
  static constexpr uint64_t kMaxBatchBytes = uint64_t{256} << 20;      ///< 0.7 ms of NVLink
  static constexpr uint32_t kMinBurstReceives = 8;                     ///< fewer receives are no burst
  static constexpr size_t kMaxCollectedCopies = 32;                    ///< submitted before the burst ends
  static constexpr uint64_t kMaxCollectedBytes = uint64_t{64} << 10;   ///< of one collected copy
  static constexpr size_t kMaxMessages = 64, kMaxMessagesInBurst = 2;  ///< delivered per round of progress
  static constexpr uint32_t kPostsPerPoll = 8, kPollsPerKeepRunning = 8;

  /// A receive into device memory is being posted until end_post(). Receives posted without a round of
  /// progress() between them form a burst.
  void begin_post() {
    ++posted_;
    posting_ = true;
  }
  void end_post() { posting_ = false; }
  /// A round of progress. Outside begin_post() and end_post() the program waits, so its burst has ended.
  void progress() {
    if (!posting_ && posted_ != 0) [[unlikely]]
      last_posted_ = std::exchange(posted_, 0);
  }
  /// Whether the last burst was long, so the receives of the next one are batched rather than advertised.
  [[nodiscard]] bool expects_burst() const { return last_posted_ >= kMinBurstReceives; }
  /// Most messages to deliver in this round of progress. In a burst the others wait in the queue until their
  /// receives are posted.
  [[nodiscard]] size_t max_messages() const { return in_burst() ? kMaxMessagesInBurst : kMaxMessages; }
  /// Whether `pending` copies, the last of `bytes` bytes, wait for more: in a burst as long as the last one.
  [[nodiscard]] bool collects(size_t pending, uint64_t bytes) const {
    return in_burst() && posted_ < last_posted_ && pending < kMaxCollectedCopies &&
           bytes <= kMaxCollectedBytes;
  }
  /// Whether to poll submissions now, which takes longer than posting a receive.
  [[nodiscard]] bool poll_due() { return !posting_ || ++posts_ % kPostsPerPoll == 0; }
  /// Whether to call keep_running() for the memory of active requests now.
  [[nodiscard]] bool keep_running_due() { return ++polls_ % kPollsPerKeepRunning == 0; }
  /// Whether the next submission uses the second stream. Submissions alternate while one is in flight, so
  /// that the end of one overlaps the start of the next.
  [[nodiscard]] bool alternates(bool in_flight) { return second_stream_ = in_flight && !second_stream_; }
  /// Returns how many of `count` copies, from the first on, form one batch: of up to kMaxBatchBytes, or as
  /// many bytes as in_flight() returns. bytes(i): size of copy i. joins(i): whether copy i may share a
  /// submission with copy 0.
  template <class Bytes, class Joins, class InFlight>
  [[nodiscard]] static size_t batch_size(size_t count, Bytes&& bytes, Joins&& joins, InFlight&& in_flight) {
    uint64_t total = bytes(0);
    size_t joined = 1;
    for (; joined < std::min(count, kMaxBatchCopies) && joins(joined); ++joined) {
      total += bytes(joined);
      if (total > kMaxBatchBytes && total > in_flight()) break;
    }
    return joined;
  }

 private:
  [[nodiscard]] bool in_burst() const { return posting_ && expects_burst(); }
  bool posting_ = false, second_stream_ = false;
  uint32_t posted_ = 0, last_posted_ = 0;  // receives of this burst and of the last one
  uint32_t posts_ = 0, polls_ = 0;
};

/// Decides when an instance of the resident kernel starts, how many blocks it has, when a no-op command keeps
/// it running, and how long no instance starts after instances with too few commands (ADR 0008).
class InstancePolicy {
 public:
  static constexpr uint32_t kMinStreak = 4;    ///< arrivals in quick succession that start an instance
  static constexpr uint32_t kMinCommands = 4;  ///< commands that justify an instance
  /// A no-op command is due so many ns before the idle timeout, since processes poll every 2 to 3 us.
  static constexpr uint64_t kNoOpLeadNs = 5'000;
  /// Time without instances after two with too few commands. Doubles, so that programs without quick
  /// succession lose little GPU time (bench/results/interference.json).
  static constexpr uint64_t kMinBackoffNs = 1'000'000, kMaxBackoffNs = 128'000'000;
  static constexpr uint64_t kNever = UINT64_MAX;

  /// `max_gap_ns`: longest gap in quick succession. `idle_timeout_ns`: of an instance without commands.
  void configure(uint64_t max_gap_ns, uint64_t idle_timeout_ns) {
    max_gap_ = max_gap_ns;
    idle_timeout_ = idle_timeout_ns;
  }
  /// A copy or collective for `blocks` blocks that the resident kernel could execute.
  void arrived(uint64_t now, uint32_t blocks) {
    const uint64_t gap = now - std::exchange(last_arrival_, now);
    wanted_blocks_ = std::max(wanted_blocks_, blocks);
    if (gap > max_gap_) {
      streak_ = 0;
      longest_gap_ = 0;
      return;
    }
    // Decays slowly, since windows arrive in bursts.
    longest_gap_ = std::max(gap, longest_gap_ - longest_gap_ / 8);
    ++streak_;
  }
  [[nodiscard]] uint64_t last_arrival() const { return last_arrival_; }
  [[nodiscard]] bool start_due() const { return streak_ >= kMinStreak && last_arrival_ >= backoff_until_; }
  /// An instance starts. Returns the number of blocks that the arrivals since the last start want.
  [[nodiscard]] uint32_t started() {
    no_ops_ = 0;
    return std::exchange(wanted_blocks_, 1);
  }
  /// The instance ended after `commands` commands, no-op commands included.
  void ended(uint32_t commands) {
    if (commands >= kMinCommands + no_ops_) {
      unused_instances_ = 0;
      backoff_ = 0;
    } else if (++unused_instances_ >= 2) {
      pause(std::clamp(2 * backoff_, kMinBackoffNs, kMaxBackoffNs));
    }
  }
  /// No instance can be launched.
  void launch_failed() { pause(kMaxBackoffNs); }
  /// Returns when a no-op command is due after a command at `now`; kNever while commands arrive within the
  /// idle timeout, since a no-op command would delay the next command.
  [[nodiscard]] uint64_t next_no_op(uint64_t now) const {
    return longest_gap_ > idle_timeout_ ? now + idle_timeout_ - std::min(idle_timeout_ / 2, kNoOpLeadNs)
                                        : kNever;
  }
  void no_op_sent() { ++no_ops_; }

 private:
  void pause(uint64_t ns) {
    backoff_ = ns;
    backoff_until_ = last_arrival_ + ns;
  }
  uint64_t max_gap_ = 0, idle_timeout_ = 0;
  uint64_t last_arrival_ = 0, longest_gap_ = 0, backoff_until_ = 0, backoff_ = 0;
  uint32_t streak_ = 0, unused_instances_ = 0, no_ops_ = 0, wanted_blocks_ = 1;
};

}  // namespace weft::device
