// SPDX-License-Identifier: BSD-3-Clause
// Exchange: the messages between ranks and aggregators in one round of a collective access. A rank sends each
// aggregator the pieces that it accesses in the aggregator's window; then the data moves.
// Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "io/backend/target.hpp"
#include "io/collective/pieces.hpp"
#include "io/collective/plan.hpp"
#include "io/task/events.hpp"
#include "io/task/operation.hpp"

namespace weft::io {

/// Buffers of an aggregator, kept while the file is open: two windows.
struct AggregatorBuffers {
  [[nodiscard]] std::byte* get(int64_t index, int64_t bytes) {
    auto& buffer = memory[static_cast<size_t>(index % 2)];
    if (buffer == nullptr || size < bytes) {
      for (auto& old : memory) old.reset(new std::byte[static_cast<size_t>(bytes)]);
      size = bytes;
    }
    return buffer.get();
  }
  std::unique_ptr<std::byte[]> memory[2];
  int64_t size = 0;  ///< of each, in bytes
};

/// A collective access of this rank.
struct CollectiveAccess {
  Target& target;
  core::Communicator& comm;
  AggregatorBuffers& buffers;
  const std::vector<int>& aggregator_order;
  int hosts;
  std::shared_ptr<const View> view;
  int64_t stream;      ///< of the view, in bytes
  p2p::Buffer memory;  ///< of any kind
  int64_t bytes;
  Status admitted;  ///< an error of this rank: no rank accesses the file
};

/// The round of an access: what this rank sends, and what its aggregator, if it is one, receives.
class Round {
 public:
  /// The first message from a rank to an aggregator.
  struct Header {
    static constexpr size_t kInline = 2;
    int64_t bytes, pieces;
    Piece first[kInline];  ///< the pieces, unless there are more
  };
  /// The first message from an aggregator to a rank in a read.
  struct Reply {
    int64_t end;     ///< of the file, if the read has reached it
    int64_t failed;  ///< 1: the aggregator has failed to read
  };
  /// The accesses of this rank in the window of one aggregator.
  struct OwnPart {
    int aggregator = 0;
    int64_t offset = 0;  ///< in the memory's packed stream
    Header header{};
    Reply reply{};
    std::vector<Piece> pieces;
    TypedBuffer data;
  };
  /// The accesses of one rank in the window of this aggregator.
  struct RankPart {
    int rank = 0;
    Header header{};
    Reply reply{};
    std::vector<Piece> pieces;
    TypedBuffer data;
  };

  Round(const CollectiveAccess& access, const Plan& plan, int64_t round, int tag);
  /// Sends the pieces of this rank to the aggregators, and receives those of all ranks.
  [[nodiscard]] Task exchange_pieces();
  /// Write: sends the data, and receives the data of the window into the aggregator's buffer.
  void move_to(std::byte* buffer);
  /// Read: receives the replies; and sends replies and data from the buffer, which holds the file up to
  /// `end`.
  void move_from(std::byte* buffer, int64_t end, bool failed);
  /// Read, when the messages of move_from() are complete: receives the data. Returns the bytes of this rank
  /// that the file has.
  [[nodiscard]] int64_t receive_data();

  [[nodiscard]] bool aggregates() const { return !parts.empty(); }
  /// Ranges of the file that the aggregator accesses; see Coverage::ranges().
  [[nodiscard]] std::vector<Range> ranges(int64_t gap) const;
  void keep(Status status) {
    if (outcome.ok()) outcome = std::move(status);
  }

  Range window;  ///< of this rank as an aggregator
  std::deque<OwnPart> own;
  std::deque<RankPart> parts;
  Messages sends, receives, replies;
  Status outcome;  ///< the first error
 private:
  const CollectiveAccess& access_;
};

/// The collective accesses. `operation` has the request's completion.
[[nodiscard]] Task write_collective(Operation& operation, CollectiveAccess access);
[[nodiscard]] Task read_collective(Operation& operation, CollectiveAccess access);

}  // namespace weft::io
