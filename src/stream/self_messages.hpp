// SPDX-License-Identifier: BSD-3-Clause
// SelfMessages: messages of a rank to itself. Sends and receives of a capture, or outside of captures, are
// matched by the host at the call, since both are in one stream in call order; a copy in the stream moves the
// data. Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "core/request.hpp"
#include "stream/request.hpp"
#include "stream/side.hpp"

namespace weft::stream {

class SelfMessages {
 public:
  /// `buffer`: GPU memory for messages sent before they are received; `bytes`: its size.
  SelfMessages(Copies& copies, uint64_t buffer, uint64_t bytes, int self)
      : copies_(copies), buffer_(buffer), half_bytes_(bytes / 2), self_(self) {}

  /// Blocking send: copies into a posted receive, else into the buffer.
  [[nodiscard]] Status send(const Side& side, uint64_t capture);
  /// Blocking receive of the oldest message that matches the tag.
  [[nodiscard]] Result<core::Completion> receive(const Side& side, uint64_t capture);
  /// `synchronous`: it ends when a receive has matched it, never by a copy into the buffer.
  /// `capture`: as Request::capture.
  void start_send(const Side& side, Request& request, uint64_t capture, bool synchronous = false);
  void start_receive(const Side& side, Request& request, uint64_t capture);
  /// Moves all messages that match a receive, and sets completion and outcome of its request; returns an
  /// error of a copy. If there is no room for a copy in a launch, the message and the receive stay.
  [[nodiscard]] Status match();
  /// Before a wait for the request: puts its message into the buffer if no receive has matched it. Error: it
  /// is a receive without a message, or a synchronous send without a receive.
  [[nodiscard]] Status finish(Request& request);
  /// Whether a message of the request has not been matched.
  [[nodiscard]] bool contains(const Request& request) const;
  /// Whether a receive of the request has not been matched.
  [[nodiscard]] bool receives(const Request& request) const;
  /// Forgets the messages of the request, and its reserved part.
  void drop(const Request& request);
  [[nodiscard]] bool idle() const { return sends_.empty() && receives_.empty(); }
  /// Reserves a part of the buffer for `bytes` bytes of the request, until release() or drop(); 0: none is
  /// free.
  [[nodiscard]] uint64_t reserve(uint64_t bytes, uint64_t capture, const Request& request);
  void release(const Request& request);
  /// Whether any part is reserved, which may thus become free.
  [[nodiscard]] bool reserves() const { return !reserved_.empty(); }

 private:
  struct Send {
    Side side;
    Request* request;  ///< null: the message is in the buffer
    std::optional<uint64_t> offset;
    uint64_t capture;
    bool synchronous;
  };
  struct Receive {
    Side side;
    Request* request;
    uint64_t capture;
  };
  struct Reserved {
    uint64_t offset, bytes;
    uint64_t capture;
    const Request* request;
  };
  [[nodiscard]] static bool matches(const Send& send, int tag, uint64_t capture);
  [[nodiscard]] Status copy_to_buffer(Send& send);
  [[nodiscard]] std::optional<uint64_t> find_offset(uint64_t bytes, bool captured) const;

  Copies& copies_;
  const uint64_t buffer_,
      half_bytes_;  // the second half is for captured messages, whose graph may run at any time
  const int self_;  // rank
  std::vector<Send> sends_;
  std::vector<Receive> receives_;
  std::vector<Reserved> reserved_;
};

}  // namespace weft::stream
