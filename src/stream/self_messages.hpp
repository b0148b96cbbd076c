// SPDX-License-Identifier: BSD-3-Clause
// SelfMessages: messages of a rank to itself. Sends and receives are matched by the host at the call, since
// both are in one stream in call order; a copy in the stream moves the data. Threading: under the instance
// lock.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "core/request.hpp"
#include "device/stream.hpp"

namespace weft::stream {

/// Contiguous memory of a message, or of a receive buffer.
struct Side {
  void* address;
  uint64_t bytes;
  int tag;
};

class SelfMessages {
 public:
  /// `buffer`: GPU memory for messages sent before they are received; `bytes`: its size.
  SelfMessages(const device::UserStream& stream, uint64_t buffer, uint64_t bytes, int self)
      : stream_(stream), buffer_(buffer), half_bytes_(bytes / 2), self_(self) {}

  /// Blocking send: copies into a posted receive, else into the buffer.
  [[nodiscard]] Status send(const Side& side, bool captured);
  /// Blocking receive of the oldest message that matches the tag.
  [[nodiscard]] Result<core::Completion> receive(const Side& side);
  void start_send(const Side& side, core::Request& request, bool captured);
  void start_receive(const Side& side, core::Request& request);
  /// Copies all messages that match a receive; returns an error of a copy.
  [[nodiscard]] Status match();
  /// Completes the operation of a request in stream order; for a receive, returns its completion.
  [[nodiscard]] Result<core::Completion> finish(core::Request& request);
  [[nodiscard]] bool contains(const core::Request& request) const;
  [[nodiscard]] bool idle() const { return sends_.empty() && receives_.empty() && matched_.empty(); }

 private:
  struct Send {
    Side side;
    core::Request* request;  ///< null: the message is in the buffer
    std::optional<uint64_t> offset;
    bool captured;
  };
  struct Receive {
    Side side;
    core::Request* request;
  };
  struct Matched {
    core::Request* request;
    core::Completion completion;
    bool truncated;
  };
  [[nodiscard]] Status move(const Side& from, const Side& to);
  [[nodiscard]] Status copy_to_buffer(Send& send);
  [[nodiscard]] std::optional<uint64_t> find_offset(uint64_t bytes, bool captured) const;

  const device::UserStream& stream_;  // of the queue, which may change it
  const uint64_t buffer_,
      half_bytes_;  // the second half is for captured messages, whose graph may run at any time
  const int self_;  // rank
  std::vector<Send> sends_;
  std::vector<Receive> receives_;
  std::vector<Matched> matched_;  // requests whose copy is in the stream
};

}  // namespace weft::stream
