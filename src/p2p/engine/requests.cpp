// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/engine/requests.hpp"

#include <algorithm>
#include <utility>

#include "p2p/engine/protocol.hpp"
#include "p2p/message/errors.hpp"
#include "p2p/message/validate.hpp"

namespace weft::p2p {
namespace {

/// Returns whether a received message ends inside a basic element, so that its datatype cannot match the
/// receive's.
bool ends_inside_element(const Transfer& t) {
  return datatype::elements(*t.type, static_cast<int64_t>(t.completion.bytes)) == datatype::kUndefined;
}

}  // namespace

Transfer* Requests::find(core::RequestId id, uint32_t source, Transfer::State state) {
  core::Request* const request = table_.find(id, source);
  if (request == nullptr) return nullptr;
  auto& t = static_cast<Transfer&>(*request);
  if (t.state == state) [[likely]]
    return &t;
  drop_malformed();
  return nullptr;
}

// A request may end and leave the list while it is polled, and so may others.
bool Requests::poll_all() {
  bool progressed = false;
  for (size_t i = 0; i < polled_.size();) {
    Transfer* const t = polled_[i];
    progressed |= t->protocol->progress(*engine_, *t);
    if (i >= polled_.size() || polled_[i] != t) continue;
    if (t->state == Transfer::State::done)
      complete(*t);
    else
      ++i;
  }
  return progressed;
}

bool Requests::any_send_polled() const {
  return std::any_of(polled_.begin(), polled_.end(),
                     [](const Transfer* t) { return t->kind == core::Request::Kind::send; });
}

void Requests::start_polling(Transfer& t) {
  WEFT_ASSERT(!t.polled && t.protocol != nullptr && t.protocol->progress != nullptr);  // R4
  WEFT_ASSERT(engine_ != nullptr);
  t.polled = true;
  polled_.push_back(&t);
}

void Requests::stop_polling(Transfer& t) {
  if (std::exchange(t.polled, false)) std::erase(polled_, &t);
}

void Requests::leave_protocol(Transfer& t) {
  if (t.protocol == nullptr) return;
  if (t.protocol->abort != nullptr) t.protocol->abort(*engine_, t);
  end_protocol(t);
}

void Requests::end_protocol(Transfer& t) {
  stop_polling(t);
  t.protocol = nullptr;
  t.protocol_state.reset();
}

void Requests::delist(Transfer& t) {
  table_.erase(std::exchange(t.id, core::kNoRequest), peers_[t.peer].requests);
}

void Requests::complete(Transfer& t) { complete_inline(t); }

/// Completes a receive whose message is shorter than its buffer.
void Requests::complete_shorter(Transfer& t) {
  if (ends_inside_element(t)) [[unlikely]]
    return complete(t, end_inside_error(t));
  end(t);
  t.finish();
}

void Requests::complete(Transfer& t, Error error) {
  end(t);
  t.finish(std::move(error));
}

}  // namespace weft::p2p
