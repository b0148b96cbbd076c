// SPDX-License-Identifier: BSD-3-Clause
// Cancelled receives of ordinary calls that kernels execute.
#include <algorithm>
#include <utility>

#include "stream/order/order.hpp"
#include "stream/queue.hpp"

namespace weft::stream {

Status Request::cancel() {
  if (!ordinary_ || complete()) return {};
  auto queue = queue_of(*comm);
  if (!queue) return std::move(queue).error();
  return (*queue)->cancel(*this);
}

/// It is known that no message has matched a receive that has not been launched; the state of another one may
/// be read while the stream is idle.
Status Queue::cancel(Request& request) {
  const auto own = [&](const PendingOp& entry) { return entry.belongs_to(&request); };
  const auto entry = std::find_if(pending_.begin(), pending_.end(), own);
  const bool pending = entry != pending_.end() && entry->op.kind == Op::receive;
  if (request.capture != 0) {
    auto now = capturing();
    if (!now) return std::move(now).error();
    if (*now == request.capture) return {};
    undo(request);
    request.finish();
    return {};
  }
  if (!pending && !self_messages_.receives(request)) return {};
  request.cancelling = true;
  if (pending && entry->launched) {
    auto captured = capturing();
    if (!captured) return std::move(captured).error();
    if (*captured != 0) return {};
    WEFT_TRY(check_idle());
    if (used_) return {};
    auto matched = mailbox_->has_begun(entry->op.state);
    if (!matched) return std::move(matched).error();
    if (*matched) return {};
  }
  undo(request);
  request.completion = {-1, p2p::kAnyTag, 0, true};
  request.finish();
  return {};
}

Status finish_cancelled(Queue& queue, std::span<Request* const> requests) {
  for (Request* const request : requests) {
    if (!request->cancelling || request->complete()) continue;
    WEFT_TRY(order::allow_host_wait({}, "a receive is cancelled that a kernel may have matched"));
    WEFT_TRY(queue.settle());
    const bool freed = std::exchange(request->detached, false);  // the caller destroys it
    Status tried = queue.cancel(*request);
    request->detached = freed;
    WEFT_TRY(std::move(tried));
  }
  return {};
}

}  // namespace weft::stream
