// SPDX-License-Identifier: BSD-3-Clause
#include "transport/am/handlers.hpp"

#include "base/counters.hpp"

namespace weft::transport::am {
namespace {

counters::Counter unknown_handlers("am.unknown_handlers", counters::Unit::events,
                                   "Messages dropped because no handler is registered for their id");
counters::Counter truncated_messages("am.truncated_messages", counters::Unit::events,
                                     "Messages dropped because they are smaller than their header");

void drop_unknown(void*, Peer, const std::byte*, size_t) { unknown_handlers.add(); }

}  // namespace

HandlerTable::HandlerTable() { handlers_.fill({drop_unknown, nullptr, kMinMessage}); }

void HandlerTable::add(HandlerId id, size_t min_size, Function function, void* owner) {
  WEFT_ASSERT(!registered(id) && owner != nullptr && min_size >= kMinMessage);  // A1, A2
  handlers_[id] = {function, owner, min_size};
}

void HandlerTable::remove(HandlerId id) {
  WEFT_ASSERT(registered(id));  // A1
  handlers_[id] = {drop_unknown, nullptr, kMinMessage};
}

void HandlerTable::drop_truncated() { truncated_messages.add(); }

}  // namespace weft::transport::am
