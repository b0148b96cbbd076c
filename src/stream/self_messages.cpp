// SPDX-License-Identifier: BSD-3-Clause
#include "stream/self_messages.hpp"

#include <algorithm>
#include <string>

#include "p2p/message/transfer.hpp"

namespace weft::stream {
namespace {

constexpr uint64_t kAlignment = 256;

bool fits(int wanted, int tag) { return wanted == p2p::kAnyTag || wanted == tag; }

uint64_t rounded(uint64_t bytes) {
  return std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

Error too_long(uint64_t bytes, uint64_t capacity, int tag) {
  return Error(Errc::truncate, "a message of " + std::to_string(bytes) + " bytes with tag " +
                                   std::to_string(tag) + " to oneself was longer than the " +
                                   std::to_string(capacity) + " bytes of its enqueued receive");
}

}  // namespace

Status SelfMessages::move(const Side& from, const Side& to) {
  return device::enqueue_copy(stream_, to.address, from.address, std::min(from.bytes, to.bytes));
}

/// Finds a free range of the buffer. A received message frees its range at once: later messages come later in
/// the stream.
std::optional<uint64_t> SelfMessages::find_offset(uint64_t bytes, bool captured) const {
  std::vector<std::pair<uint64_t, uint64_t>> used;
  for (const Send& send : sends_)
    if (send.offset && send.captured == captured)
      used.emplace_back(*send.offset, *send.offset + rounded(send.side.bytes));
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
  const auto offset = find_offset(send.side.bytes, send.captured);
  if (!offset)
    return Error(Errc::no_mem, "a message of " + std::to_string(send.side.bytes) +
                                   " bytes to oneself does not fit the buffer for messages without a posted "
                                   "receive: post the receive first "
                                   "(MPIX_Irecv_enqueue)");
  const Side buffered{reinterpret_cast<void*>(buffer_ + *offset), send.side.bytes, send.side.tag};
  WEFT_TRY(move(send.side, buffered));
  send.side = buffered;
  send.offset = offset;
  send.request = nullptr;
  return {};
}

Status SelfMessages::match() {
  for (auto receive = receives_.begin(); receive != receives_.end();) {
    const auto send = std::find_if(sends_.begin(), sends_.end(),
                                   [&](const Send& s) { return fits(receive->side.tag, s.side.tag); });
    if (send == sends_.end()) {
      ++receive;
      continue;
    }
    WEFT_TRY(move(send->side, receive->side));
    if (send->request != nullptr) matched_.push_back({send->request, {}, false});
    matched_.push_back({receive->request,
                        {self_, send->side.tag, std::min(send->side.bytes, receive->side.bytes), false},
                        send->side.bytes > receive->side.bytes});
    sends_.erase(send);
    receive = receives_.erase(receive);
  }
  return {};
}

Status SelfMessages::send(const Side& side, bool captured) {
  sends_.push_back({side, nullptr, std::nullopt, captured});
  WEFT_TRY(match());
  const auto left = std::find_if(sends_.begin(), sends_.end(),
                                 [](const Send& send) { return send.request == nullptr && !send.offset; });
  if (left == sends_.end()) return {};
  Status put = copy_to_buffer(*left);
  if (!put.ok()) sends_.erase(left);
  return put;
}

Result<core::Completion> SelfMessages::receive(const Side& side) {
  const auto send =
      std::find_if(sends_.begin(), sends_.end(), [&](const Send& s) { return fits(side.tag, s.side.tag); });
  if (send == sends_.end())
    return Error(
        Errc::other,
        "a receive from oneself would never complete: its send comes later in the same stream (start it "
        "before, or use MPIX_Irecv_enqueue)");
  WEFT_TRY(move(send->side, side));
  const Send was = *send;
  sends_.erase(send);
  if (was.request != nullptr) matched_.push_back({was.request, {}, false});
  if (was.side.bytes > side.bytes) return too_long(was.side.bytes, side.bytes, was.side.tag);
  return core::Completion{self_, was.side.tag, was.side.bytes, false};
}

void SelfMessages::start_send(const Side& side, core::Request& request, bool captured) {
  sends_.push_back({side, &request, std::nullopt, captured});
}
void SelfMessages::start_receive(const Side& side, core::Request& request) {
  receives_.push_back({side, &request});
}

bool SelfMessages::contains(const core::Request& request) const {
  const auto same = [&](const auto& entry) { return entry.request == &request; };
  return std::any_of(sends_.begin(), sends_.end(), same) ||
         std::any_of(receives_.begin(), receives_.end(), same) ||
         std::any_of(matched_.begin(), matched_.end(), same);
}

Result<core::Completion> SelfMessages::finish(core::Request& request) {
  WEFT_TRY(match());
  const auto matched =
      std::find_if(matched_.begin(), matched_.end(), [&](const Matched& m) { return m.request == &request; });
  if (matched != matched_.end()) {
    const Matched was = *matched;
    matched_.erase(matched);
    if (was.truncated)
      return Error(Errc::truncate, "a message to oneself was longer than its enqueued receive");
    return was.completion;
  }
  const auto send =
      std::find_if(sends_.begin(), sends_.end(), [&](const Send& s) { return s.request == &request; });
  if (send == sends_.end())
    return Error(Errc::other,
                 "a receive from oneself would never complete: its send comes later in the same stream");
  WEFT_TRY(copy_to_buffer(*send));
  return core::Completion{};
}

}  // namespace weft::stream
