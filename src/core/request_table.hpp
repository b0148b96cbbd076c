// SPDX-License-Identifier: BSD-3-Clause
// Request table: names the requests in flight for peers. An id on the wire is an index and a generation,
// never an address; a stale, duplicate or forged id finds nothing and is counted. Threading: under the
// instance lock.
#pragma once
#include <cstdint>
#include <vector>

#include "core/group.hpp"

namespace weft::core {

class Request;

/// Generation in the upper, index in the lower 32 bits. kNoRequest is never a live id.
using RequestId = uint64_t;
inline constexpr RequestId kNoRequest = 0;

class RequestTable {
 public:
  /// The requests in flight with one peer; part of the peer's state.
  class PeerList {
   public:
    [[nodiscard]] bool empty() const { return head_ == kEnd; }

   private:
    friend class RequestTable;
    uint32_t head_ = kEnd;
  };

  RequestTable() = default;
  RequestTable(const RequestTable&) = delete;
  RequestTable& operator=(const RequestTable&) = delete;
  ~RequestTable();

  /// Gives `request`, which exchanges messages with `peer`, an id until erase(), and appends it to `list`.
  [[nodiscard]] RequestId insert(Request& request, ProcessId peer, PeerList& list);
  /// The request that `id`, which `from` has sent, names. Null, and counted as p2p.stale_ids, if `id` was
  /// never given out, is erased, or names a request with another peer.
  [[nodiscard]] Request* find(RequestId id, ProcessId from) {
    const auto index = static_cast<uint32_t>(id);
    if (index < entries_.size()) [[likely]] {
      const Entry& entry = entries_[index];
      if (entry.generation == id >> 32 && entry.peer == from && entry.request != nullptr) [[likely]]
        return entry.request;
    }
    return drop_stale();
  }
  /// The id is live: insert() returned it and no erase() followed.
  void erase(RequestId id, PeerList& list);
  /// Calls function(Request&, RequestId) for each request of `list`, newest first. The function may erase the
  /// request that it is called for, and no other.
  template <class Function>
  void for_each(const PeerList& list, Function&& function) {
    for (uint32_t index = list.head_; index != kEnd;) {
      const Entry& entry = entries_[index];
      const uint32_t next = entry.next;
      function(*entry.request, id_of(index));
      index = next;
    }
  }
  /// The same for all live requests, in no particular order.
  template <class Function>
  void for_each(Function&& function) {
    for (uint32_t index = 0; index < entries_.size(); ++index)
      if (entries_[index].request != nullptr) function(*entries_[index].request, id_of(index));
  }
  /// Number of live ids.
  [[nodiscard]] size_t size() const { return live_; }

 private:
  static constexpr uint32_t kEnd = UINT32_MAX;
  struct Entry {
    Request* request = nullptr;  // null: free
    uint32_t generation = 0;     // of the latest id; 0 only before the first
    ProcessId peer = kNoProcess;
    uint32_t next = kEnd;  // in the peer's list, or among the free entries
    uint32_t previous = kEnd;
  };
  [[nodiscard]] RequestId id_of(uint32_t index) const {
    return static_cast<RequestId>(entries_[index].generation) << 32 | index;
  }
  static Request* drop_stale();

  std::vector<Entry> entries_;
  uint32_t free_ = kEnd;
  size_t live_ = 0;
};

}  // namespace weft::core
