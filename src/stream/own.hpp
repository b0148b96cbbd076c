// SPDX-License-Identifier: BSD-3-Clause
// Own: messages of a rank to itself. Sends and receives meet when they are called, since both are in one
// stream in the order of the calls; what moves is a copy in the stream. Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "core/request.hpp"
#include "device/stream.hpp"

namespace weft::stream {

/// One side: contiguous memory, as much as there is or as much as there is room.
struct Side {
  void* address;
  uint64_t bytes;
  int tag;
};

class Own {
 public:
  /// `room`: GPU memory for messages that are sent before they are received.
  Own(const device::UserStream& stream, uint64_t room, uint64_t bytes, int self)
      : stream_(stream), room_(room), half_(bytes / 2), self_(self) {}

  /// A send that is over when its copy is: straight into a posted receive, else into the room.
  [[nodiscard]] Status send(const Side& side, bool captured);
  /// Takes the oldest message with the tag; what it was.
  [[nodiscard]] Result<core::Completion> receive(const Side& side);
  void start_send(const Side& side, core::Request& request, bool captured);
  void start_receive(const Side& side, core::Request& request);
  /// Starts what can meet now; an error of a copy.
  [[nodiscard]] Status meet();
  /// Makes the operation of a request complete in stream order; a receive: what it got.
  [[nodiscard]] Result<core::Completion> finish(core::Request& request);
  [[nodiscard]] bool holds(const core::Request& request) const;
  [[nodiscard]] bool idle() const { return sends_.empty() && receives_.empty() && met_.empty(); }

 private:
  struct Send {
    Side side;
    core::Request* request;  ///< null: in the room, nobody waits
    std::optional<uint64_t> place;
    bool captured;
  };
  struct Receive {
    Side side;
    core::Request* request;
  };
  struct Met {
    core::Request* request;
    core::Completion completion;
    bool truncated;
  };
  [[nodiscard]] Status move(const Side& from, const Side& to);
  [[nodiscard]] Status put_aside(Send& send);
  [[nodiscard]] std::optional<uint64_t> find_place(uint64_t bytes, bool captured) const;

  const device::UserStream stream_;
  const uint64_t room_, half_;  // one half for captured messages, which a graph moves at any time
  const int self_;              // rank
  std::vector<Send> sends_;
  std::vector<Receive> receives_;
  std::vector<Met> met_;  // requests whose copy is in the stream
};

}  // namespace weft::stream
