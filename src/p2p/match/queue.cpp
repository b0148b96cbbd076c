// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/match/queue.hpp"

namespace weft::p2p::match {

void Chains::link(Node& node) {
  Chain& at = chain(node.key);
  node.next = nullptr;
  node.previous = at.tail;
  (at.tail != nullptr ? at.tail->next : at.head) = &node;
  at.tail = &node;
}

void Chains::append(Node& node) {
  if (size_ >= heads_.size() * 2) grow();
  link(node);
  node.queued = true;
  ++size_;
}

void Chains::remove(Node& node) {
  Chain& at = chain(node.key);
  (node.previous != nullptr ? node.previous->next : at.head) = node.next;
  (node.next != nullptr ? node.next->previous : at.tail) = node.previous;
  node.queued = false;
  --size_;
}

Node* Chains::first(const Key& key) const {
  Node* node = heads_[hash(key) & (heads_.size() - 1)].head;
  while (node != nullptr && !(node->key == key)) node = node->next;
  return node;
}

Node* Chains::next(const Node& node) {
  Node* other = node.next;
  while (other != nullptr && !(other->key == node.key)) other = other->next;
  return other;
}

void Chains::grow() {
  std::vector<Chain> old(heads_.size() * 4);
  old.swap(heads_);
  for (const Chain& from : old)
    for (Node* node = from.head; node != nullptr;) {
      Node* following = node->next;
      link(*node);  // chains are walked in order, so nodes of equal key keep theirs
      node = following;
    }
}

size_t& Posted::wildcards(const Key& key) {
  if (key.source != kAny) return any_tag_;
  return key.tag != kAny ? any_source_ : any_both_;
}

void Posted::add(Node& node) {
  node.stamp = stamp_++;
  if (node.key.source == kAny || node.key.tag == kAny) ++wildcards(node.key);
  chains_.append(node);
}

void Posted::remove(Node& node) {
  if (node.key.source == kAny || node.key.tag == kAny) --wildcards(node.key);
  chains_.remove(node);
}

Node* Posted::take(const Key& message) {
  if (chains_.size() == 0) return nullptr;
  Node* best = chains_.first(message);
  const auto consider = [&](size_t present, const Key& key) {
    if (present == 0) return;
    Node* node = chains_.first(key);
    if (node != nullptr && (best == nullptr || node->stamp < best->stamp)) best = node;
  };
  consider(any_source_, {message.context, kAny, message.tag});
  consider(any_tag_, {message.context, message.source, kAny});
  consider(any_both_, {message.context, kAny, kAny});
  if (best != nullptr) remove(*best);
  return best;
}

void Unexpected::add(Entry& entry, const Key& key) {
  static_cast<ExactNode&>(entry).key = key;
  static_cast<OrderNode&>(entry).key = {key.context, 0, 0};
  exact_.append(static_cast<ExactNode&>(entry));
  order_.append(static_cast<OrderNode&>(entry));
}

void Unexpected::remove(Entry& entry) {
  exact_.remove(static_cast<ExactNode&>(entry));
  order_.remove(static_cast<OrderNode&>(entry));
}

Entry* Unexpected::find(const Key& wanted) const {
  if (exact_.size() == 0) return nullptr;
  if (wanted.source != kAny && wanted.tag != kAny) {
    Node* node = exact_.first(wanted);
    return node == nullptr ? nullptr : static_cast<Entry*>(static_cast<ExactNode*>(node));
  }
  Entry* found = nullptr;
  for_each(wanted.context, [&](Entry& entry) {
    if (wanted.accepts(entry.key())) found = &entry;
    return found == nullptr;
  });
  return found;
}

}  // namespace weft::p2p::match
