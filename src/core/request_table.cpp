// SPDX-License-Identifier: BSD-3-Clause
#include "core/request_table.hpp"

#include "base/assert.hpp"
#include "base/counters.hpp"

namespace weft::core {
namespace {

counters::Counter stale_ids("p2p.stale_ids", counters::Unit::events,
                            "Messages dropped because they name a request that is not in flight");
counters::Counter in_flight("p2p.requests_in_flight", counters::Unit::objects,
                            "Requests with an id that a peer has received");

}  // namespace

RequestTable::~RequestTable() { in_flight.subtract(live_); }

Request* RequestTable::drop_stale() {
  stale_ids.add();
  return nullptr;
}

RequestId RequestTable::insert(Request& request, ProcessId peer, PeerList& list) {
  uint32_t index = free_;
  if (index != kEnd) {
    free_ = entries_[index].next;
  } else {
    index = static_cast<uint32_t>(entries_.size());
    entries_.emplace_back();
  }
  Entry& entry = entries_[index];
  WEFT_ASSERT(entry.request == nullptr);  // N8
  if (++entry.generation == 0) entry.generation = 1;
  entry.request = &request;
  entry.peer = peer;
  entry.previous = kEnd;
  entry.next = list.head_;
  if (entry.next != kEnd) entries_[entry.next].previous = index;
  list.head_ = index;
  ++live_;
  in_flight.add();
  return id_of(index);
}

void RequestTable::erase(RequestId id, PeerList& list) {
  const auto index = static_cast<uint32_t>(id);
  WEFT_ASSERT(index < entries_.size());  // N8
  Entry& entry = entries_[index];
  WEFT_ASSERT(entry.request != nullptr && id_of(index) == id);  // N8
  WEFT_ASSERT(entry.previous != kEnd || list.head_ == index);   // N8
  if (entry.previous != kEnd)
    entries_[entry.previous].next = entry.next;
  else
    list.head_ = entry.next;
  if (entry.next != kEnd) entries_[entry.next].previous = entry.previous;
  entry.request = nullptr;
  entry.next = free_;
  free_ = index;
  --live_;
  in_flight.subtract();
}

}  // namespace weft::core
