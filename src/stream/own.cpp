// SPDX-License-Identifier: BSD-3-Clause
#include "stream/own.hpp"

#include <algorithm>
#include <string>

#include "p2p/transfer.hpp"

namespace weft::stream {
namespace {

constexpr uint64_t kAlignment = 256;

bool fits(int wanted, int tag) { return wanted == p2p::kAnyTag || wanted == tag; }

uint64_t rounded(uint64_t bytes) {
  return std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

Error too_long(uint64_t bytes, uint64_t room, int tag) {
  return Error(Errc::truncate, "a message of " + std::to_string(bytes) + " bytes with tag " +
                                   std::to_string(tag) + " to oneself was longer than the " +
                                   std::to_string(room) + " bytes of its enqueued receive");
}

}  // namespace

Status Own::move(const Side& from, const Side& to) {
  return device::enqueue_copy(stream_, to.address, from.address, std::min(from.bytes, to.bytes));
}

/// A gap in the room; what is taken out gives its place to later messages, which come later in the stream.
std::optional<uint64_t> Own::find_place(uint64_t bytes, bool captured) const {
  std::vector<std::pair<uint64_t, uint64_t>> used;
  for (const Send& send : sends_)
    if (send.place && send.captured == captured)
      used.emplace_back(*send.place, *send.place + rounded(send.side.bytes));
  std::sort(used.begin(), used.end());
  uint64_t at = captured ? half_ : 0;
  const uint64_t end = at + half_;
  for (const auto& [begin, behind] : used) {
    if (begin - at >= rounded(bytes)) return at;
    at = behind;
  }
  return end - at >= rounded(bytes) ? std::optional(at) : std::nullopt;
}

Status Own::put_aside(Send& send) {
  const auto place = find_place(send.side.bytes, send.captured);
  if (!place)
    return Error(Errc::no_mem, "a message of " + std::to_string(send.side.bytes) +
                                   " bytes to oneself has no room before its receive: post the receive first "
                                   "(MPIX_Irecv_enqueue)");
  const Side aside{reinterpret_cast<void*>(room_ + *place), send.side.bytes, send.side.tag};
  WEFT_TRY(move(send.side, aside));
  send.side = aside;
  send.place = place;
  send.request = nullptr;
  return {};
}

Status Own::meet() {
  for (auto receive = receives_.begin(); receive != receives_.end();) {
    const auto send = std::find_if(sends_.begin(), sends_.end(),
                                   [&](const Send& s) { return fits(receive->side.tag, s.side.tag); });
    if (send == sends_.end()) {
      ++receive;
      continue;
    }
    WEFT_TRY(move(send->side, receive->side));
    if (send->request != nullptr) met_.push_back({send->request, {}, false});
    met_.push_back({receive->request,
                    {self_, send->side.tag, std::min(send->side.bytes, receive->side.bytes), false},
                    send->side.bytes > receive->side.bytes});
    sends_.erase(send);
    receive = receives_.erase(receive);
  }
  return {};
}

Status Own::send(const Side& side, bool captured) {
  sends_.push_back({side, nullptr, std::nullopt, captured});
  WEFT_TRY(meet());
  const auto left = std::find_if(sends_.begin(), sends_.end(),
                                 [](const Send& send) { return send.request == nullptr && !send.place; });
  if (left == sends_.end()) return {};
  Status put = put_aside(*left);
  if (!put.ok()) sends_.erase(left);
  return put;
}

Result<core::Completion> Own::receive(const Side& side) {
  const auto send =
      std::find_if(sends_.begin(), sends_.end(), [&](const Send& s) { return fits(side.tag, s.side.tag); });
  if (send == sends_.end())
    return Error(
        Errc::other,
        "a receive from oneself would wait for ever: its send comes later in the same stream (start it "
        "before, or use MPIX_Irecv_enqueue)");
  WEFT_TRY(move(send->side, side));
  const Send was = *send;
  sends_.erase(send);
  if (was.request != nullptr) met_.push_back({was.request, {}, false});
  if (was.side.bytes > side.bytes) return too_long(was.side.bytes, side.bytes, was.side.tag);
  return core::Completion{self_, was.side.tag, was.side.bytes, false};
}

void Own::start_send(const Side& side, core::Request& request, bool captured) {
  sends_.push_back({side, &request, std::nullopt, captured});
}
void Own::start_receive(const Side& side, core::Request& request) { receives_.push_back({side, &request}); }

bool Own::holds(const core::Request& request) const {
  const auto same = [&](const auto& entry) { return entry.request == &request; };
  return std::any_of(sends_.begin(), sends_.end(), same) ||
         std::any_of(receives_.begin(), receives_.end(), same) || std::any_of(met_.begin(), met_.end(), same);
}

Result<core::Completion> Own::finish(core::Request& request) {
  WEFT_TRY(meet());
  const auto met =
      std::find_if(met_.begin(), met_.end(), [&](const Met& m) { return m.request == &request; });
  if (met != met_.end()) {
    const Met was = *met;
    met_.erase(met);
    if (was.truncated)
      return Error(Errc::truncate, "a message to oneself was longer than its enqueued receive");
    return was.completion;
  }
  const auto send =
      std::find_if(sends_.begin(), sends_.end(), [&](const Send& s) { return s.request == &request; });
  if (send == sends_.end())
    return Error(Errc::other,
                 "a receive from oneself would wait for ever: its send comes later in the same stream");
  WEFT_TRY(put_aside(*send));
  return core::Completion{};
}

}  // namespace weft::stream
