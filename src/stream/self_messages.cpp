// SPDX-License-Identifier: BSD-3-Clause
#include "stream/self_messages.hpp"

#include <algorithm>
#include <string>

#include "p2p/message/transfer.hpp"

namespace weft::stream {
namespace {

constexpr uint64_t kAlignment = 256;

/// Tags of neighborhood collectives are negative: a receive of any tag takes none of them.
bool fits(int wanted, int tag) { return wanted == p2p::kAnyTag ? tag >= 0 : wanted == tag; }

uint64_t rounded(uint64_t bytes) {
  return std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

Error too_long(uint64_t bytes, uint64_t capacity, int tag) {
  return Error(Errc::truncate, "a message of " + std::to_string(bytes) + " bytes with tag " +
                                   std::to_string(tag) + " to oneself was longer than the " +
                                   std::to_string(capacity) + " bytes of its enqueued receive");
}

}  // namespace

bool SelfMessages::matches(const Send& send, int tag, uint64_t capture) {
  return send.capture == capture && fits(tag, send.side.tag);
}

/// Finds a free range of the buffer. A received message frees its range at once: later messages come later in
/// the stream.
std::optional<uint64_t> SelfMessages::find_offset(uint64_t bytes, bool captured) const {
  std::vector<std::pair<uint64_t, uint64_t>> used;
  for (const Send& send : sends_)
    if (send.offset && (send.capture != 0) == captured)
      used.emplace_back(*send.offset, *send.offset + rounded(send.side.bytes));
  for (const Reserved& part : reserved_)
    if ((part.capture != 0) == captured) used.emplace_back(part.offset, part.offset + rounded(part.bytes));
  std::sort(used.begin(), used.end());
  uint64_t at = captured ? half_bytes_ : 0;
  const uint64_t end = at + half_bytes_;
  for (const auto& [begin, range_end] : used) {
    if (begin - at >= rounded(bytes)) return at;
    at = range_end;
  }
  return end - at >= rounded(bytes) ? std::optional(at) : std::nullopt;
}

Status SelfMessages::copy_to_buffer(Send& send) {
  const auto offset = find_offset(send.side.bytes, send.capture != 0);
  if (!offset) {
    const uint64_t bytes = send.side.bytes;
    sends_.erase(sends_.begin() + (&send - sends_.data()));
    return Error(Errc::no_mem, "a message of " + std::to_string(bytes) +
                                   " bytes to oneself does not fit the buffer for messages without a posted "
                                   "receive: post the receive first (MPI_Irecv or MPIX_Irecv_enqueue)");
  }
  const Side buffered =
      contiguous_side(reinterpret_cast<void*>(buffer_ + *offset), send.side.bytes, send.side.tag);
  const Side from = send.side;
  send.side = buffered;
  send.offset = offset;
  send.request = nullptr;
  return copies_.copy_now(buffered, from);  // releases the lock: `send` may be gone
}

uint64_t SelfMessages::reserve(uint64_t bytes, uint64_t capture, const Request& request) {
  const auto offset = find_offset(bytes, capture != 0);
  if (!offset) return 0;
  reserved_.push_back({*offset, bytes, capture, &request});
  return buffer_ + *offset;
}

void SelfMessages::release(const Request& request) {
  std::erase_if(reserved_, [&](const Reserved& part) { return part.request == &request; });
}

Status SelfMessages::match() {
  for (auto receive = receives_.begin(); receive != receives_.end();) {
    const auto send = std::find_if(sends_.begin(), sends_.end(), [&](const Send& s) {
      return matches(s, receive->side.tag, receive->capture);
    });
    if (send == sends_.end()) {
      ++receive;
      continue;
    }
    const Send matched = *send;
    const Receive matching = *receive;
    Request& request = *matching.request;
    if (matched.request != nullptr)  // on an error both stay as they were
      WEFT_TRY(copies_.copy_later(matching.side, matched.side, *matched.request, request));
    request.completion = {self_, matched.side.tag, std::min(matched.side.bytes, matching.side.bytes), false};
    if (matched.side.bytes > matching.side.bytes)
      request.outcome = too_long(matched.side.bytes, matching.side.bytes, matched.side.tag);
    sends_.erase(send);
    receives_.erase(receive);
    if (matched.request == nullptr) WEFT_TRY(copies_.copy_now(matching.side, matched.side));
    receive = receives_.begin();  // a copy releases the lock: other messages may have come
  }
  return {};
}

Status SelfMessages::send(const Side& side, uint64_t capture) {
  sends_.push_back({side, nullptr, std::nullopt, capture, false});
  WEFT_TRY(match());
  const auto left = std::find_if(sends_.begin(), sends_.end(),
                                 [](const Send& send) { return send.request == nullptr && !send.offset; });
  return left == sends_.end() ? Status() : copy_to_buffer(*left);
}

Result<core::Completion> SelfMessages::receive(const Side& side, uint64_t capture) {
  const auto send = std::find_if(sends_.begin(), sends_.end(),
                                 [&](const Send& s) { return matches(s, side.tag, capture); });
  if (send == sends_.end())
    return Error(
        Errc::other,
        "a receive from oneself would never complete: its send comes later in the same stream (start it "
        "before, or use MPIX_Irecv_enqueue)");
  const Send was = *send;
  sends_.erase(send);
  WEFT_TRY(copies_.copy_now(side, was.side));
  if (was.side.bytes > side.bytes) return too_long(was.side.bytes, side.bytes, was.side.tag);
  return core::Completion{self_, was.side.tag, was.side.bytes, false};
}

void SelfMessages::start_send(const Side& side, Request& request, uint64_t capture, bool synchronous) {
  sends_.push_back({side, &request, std::nullopt, capture, synchronous});
}
void SelfMessages::start_receive(const Side& side, Request& request, uint64_t capture) {
  receives_.push_back({side, &request, capture});
}

bool SelfMessages::receives(const Request& request) const {
  return std::any_of(receives_.begin(), receives_.end(),
                     [&](const Receive& receive) { return receive.request == &request; });
}

bool SelfMessages::contains(const Request& request) const {
  const auto same = [&](const auto& entry) { return entry.request == &request; };
  return std::any_of(sends_.begin(), sends_.end(), same) ||
         std::any_of(receives_.begin(), receives_.end(), same);
}

void SelfMessages::drop(const Request& request) {
  const auto same = [&](const auto& entry) { return entry.request == &request; };
  std::erase_if(sends_, same);
  std::erase_if(receives_, same);
  release(request);
}

Status SelfMessages::finish(Request& request) {
  WEFT_TRY(match());
  const auto unmatched = [&] {
    return std::find_if(sends_.begin(), sends_.end(),
                        [&](const Send& send) { return send.request == &request; });
  };
  for (auto send = unmatched(); send != sends_.end(); send = unmatched()) {
    if (send->synchronous)
      return Error(Errc::other,
                   "a synchronous send to oneself would never complete: its receive comes later in the same "
                   "stream (start it before, with MPI_Irecv)");
    if (Status put = copy_to_buffer(*send); !put.ok()) return put;
  }
  if (!receives(request)) return {};
  return Error(Errc::other,
               "a receive from oneself would never complete: its send comes later in the same stream");
}

}  // namespace weft::stream
