// SPDX-License-Identifier: BSD-3-Clause
// Matching queues: one process-wide hash keyed by (context, source, tag) for posted receives and one for
// unexpected messages. Wildcard receives have keys of their own; stamps order them against exact receives.
// Exact matching takes constant time at any queue length. Unexpected messages are also chained by context in
// arrival order, for wildcard receives and probes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::p2p::match {

inline constexpr int32_t kAny = INT32_MIN;  ///< stands for MPI_ANY_SOURCE and MPI_ANY_TAG in keys

struct Key {
  uint64_t context = 0;
  int32_t source = 0;
  int32_t tag = 0;
  bool operator==(const Key&) const = default;
  [[nodiscard]] bool accepts(const Key& message) const {
    return context == message.context && (source == kAny || source == message.source) &&
           (tag == kAny || tag == message.tag);
  }
};

/// An element of a queue, in at most one chain.
struct Node {
  Key key;
  uint64_t stamp = 0;
  Node* next = nullptr;
  Node* previous = nullptr;
  bool queued = false;
};

/// Hash of chains; nodes of equal key keep their order.
class Chains {
 public:
  Chains() : heads_(64) {}
  void append(Node& node) {
    if (size_ >= heads_.size() * 2) [[unlikely]]
      grow();
    link(node);
    node.queued = true;
    ++size_;
  }
  void remove(Node& node) { unlink(node, chain(node.key)); }
  [[nodiscard]] Node* first(const Key& key) const { return first_in(heads_[bucket(key)], key); }
  /// Removes and returns the first node of a key; nullptr: none.
  [[nodiscard]] Node* extract(const Key& key) {
    Chain& at = chain(key);
    Node* node = first_in(at, key);
    if (node != nullptr) unlink(*node, at);
    return node;
  }
  /// Returns the next node of the same key; nullptr: none.
  [[nodiscard]] static Node* next(const Node& node);
  [[nodiscard]] size_t size() const { return size_; }
  template <class F>
  void for_each(F&& f) const {
    for (const Chain& chain : heads_)
      for (Node* node = chain.head; node != nullptr; node = node->next) f(*node);
  }

 private:
  struct Chain {
    Node* head = nullptr;
    Node* tail = nullptr;
  };
  [[nodiscard]] static size_t hash(const Key& key) {
    const uint64_t mixed =
        (key.context * 0x9e3779b97f4a7c15ULL) ^
        (((static_cast<uint64_t>(static_cast<uint32_t>(key.source)) << 32) | static_cast<uint32_t>(key.tag)) *
         0xc2b2ae3d27d4eb4fULL);
    return static_cast<size_t>(mixed ^ (mixed >> 29));
  }
  [[nodiscard]] size_t bucket(const Key& key) const { return hash(key) & (heads_.size() - 1); }
  [[nodiscard]] Chain& chain(const Key& key) { return heads_[bucket(key)]; }
  [[nodiscard]] static Node* first_in(const Chain& chain, const Key& key) {
    Node* node = chain.head;
    while (node != nullptr && !(node->key == key)) node = node->next;
    return node;
  }
  void unlink(Node& node, Chain& at) {
    (node.previous != nullptr ? node.previous->next : at.head) = node.next;
    (node.next != nullptr ? node.next->previous : at.tail) = node.previous;
    node.queued = false;
    --size_;
  }
  void link(Node& node) {
    Chain& at = chain(node.key);
    node.next = nullptr;
    node.previous = at.tail;
    (at.tail != nullptr ? at.tail->next : at.head) = &node;
    at.tail = &node;
  }
  void grow() noexcept;
  std::vector<Chain> heads_;  // size is a power of two
  size_t size_ = 0;
};

/// Receives waiting for a message.
class Posted {
 public:
  void add(Node& node) {
    node.stamp = stamp_++;
    if (is_wildcard(node.key)) [[unlikely]]
      ++wildcards(node.key);
    chains_.append(node);
  }
  void remove(Node& node) {
    if (is_wildcard(node.key)) [[unlikely]]
      --wildcards(node.key);
    chains_.remove(node);
  }
  /// Removes and returns the first posted receive that accepts the message; nullptr: none.
  [[nodiscard]] Node* extract(const Key& message) {
    if (wildcards() != 0) return extract_among_wildcards(message);
    return chains_.size() == 0 ? nullptr : chains_.extract(message);
  }
  /// Returns the first posted receive of exactly this key; nullptr: none.
  [[nodiscard]] Node* first(const Key& key) const { return chains_.first(key); }
  /// Number of receives with a wildcard source or tag.
  [[nodiscard]] size_t wildcards() const { return any_source_ + any_tag_ + any_both_; }
  [[nodiscard]] size_t size() const { return chains_.size(); }
  /// Calls f(Node&) for all receives, in no particular order; f must not change the queue.
  template <class F>
  void for_each(F&& f) const {
    chains_.for_each(f);
  }

 private:
  [[nodiscard]] static bool is_wildcard(const Key& key) { return key.source == kAny || key.tag == kAny; }
  [[nodiscard]] size_t& wildcards(const Key& key);
  [[nodiscard]] Node* extract_among_wildcards(const Key& message);
  Chains chains_;
  uint64_t stamp_ = 0;
  size_t any_source_ = 0, any_tag_ = 0, any_both_ = 0;
};

/// The two nodes of an unexpected message: by key, and by context in arrival order.
struct ExactNode : Node {};
struct OrderNode : Node {};
struct MatchEntry : ExactNode, OrderNode {
  [[nodiscard]] const Key& key() const { return ExactNode::key; }
};

/// Messages that arrived before their receive was posted.
class Unexpected {
 public:
  void add(MatchEntry& entry, const Key& key);
  void remove(MatchEntry& entry);
  /// Returns the oldest message that `wanted` accepts, without removing it; nullptr: none.
  [[nodiscard]] MatchEntry* find(const Key& wanted) const {
    return exact_.size() == 0 ? nullptr : find_among(wanted);
  }
  [[nodiscard]] size_t size() const { return exact_.size(); }
  /// Calls f(MatchEntry&) for all messages. The function may not remove any.
  template <class F>
  void for_all(F&& f) const {
    order_.for_each([&](Node& node) { f(*static_cast<MatchEntry*>(static_cast<OrderNode*>(&node))); });
  }
  /// Calls f(MatchEntry&) for all messages of a context in arrival order, until f returns false.
  template <class F>
  void for_each(uint64_t context, F&& f) const {
    for (Node* node = order_.first({context, 0, 0}); node != nullptr; node = Chains::next(*node))
      if (!f(*static_cast<MatchEntry*>(static_cast<OrderNode*>(node)))) return;
  }

 private:
  [[nodiscard]] MatchEntry* find_among(const Key& wanted) const;
  Chains exact_, order_;
};

}  // namespace weft::p2p::match
