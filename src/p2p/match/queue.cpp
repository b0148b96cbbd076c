// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/match/queue.hpp"

#include <new>

#include "base/counters.hpp"

namespace weft::p2p::match {
namespace {

counters::Counter unexpected("p2p.unexpected_messages", counters::Unit::objects,
                             "Messages that wait for their receive now");
counters::Counter unexpected_arrivals("p2p.unexpected_arrivals", counters::Unit::events,
                                      "Messages that have arrived before their receive was posted, so far");
counters::Counter unexpected_high("p2p.unexpected_messages_high_water", counters::Unit::objects,
                                  "Highest number of unexpected messages so far", counters::Kind::high_water);

}  // namespace

Node* Chains::next(const Node& node) {
  Node* other = node.next;
  while (other != nullptr && !(other->key == node.key)) other = other->next;
  return other;
}

// Without memory the chains get longer.
void Chains::grow() noexcept {
  std::vector<Chain> old;
  try {
    old.resize(heads_.size() * 4);
  } catch (const std::bad_alloc&) {
    return;
  }
  old.swap(heads_);
  for (const Chain& from : old)
    for (Node* node = from.head; node != nullptr;) {
      Node* following = node->next;
      link(*node);  // in chain order, which keeps the order of nodes with equal keys
      node = following;
    }
}

size_t& Posted::wildcards(const Key& key) {
  if (key.source != kAny) return any_tag_;
  return key.tag != kAny ? any_source_ : any_both_;
}

Node* Posted::extract_among_wildcards(const Key& message) {
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

void Unexpected::add(MatchEntry& entry, const Key& key) {
  static_cast<ExactNode&>(entry).key = key;
  static_cast<OrderNode&>(entry).key = {key.context, 0, 0};
  exact_.append(static_cast<ExactNode&>(entry));
  order_.append(static_cast<OrderNode&>(entry));
  unexpected.add();
  unexpected_arrivals.add();
  unexpected_high.raise_to(unexpected.value());
}

void Unexpected::remove(MatchEntry& entry) {
  exact_.remove(static_cast<ExactNode&>(entry));
  order_.remove(static_cast<OrderNode&>(entry));
  unexpected.subtract();
}

MatchEntry* Unexpected::find_among(const Key& wanted) const {
  if (wanted.source != kAny && wanted.tag != kAny) {
    Node* node = exact_.first(wanted);
    return node == nullptr ? nullptr : static_cast<MatchEntry*>(static_cast<ExactNode*>(node));
  }
  MatchEntry* found = nullptr;
  for_each(wanted.context, [&](MatchEntry& entry) {
    if (wanted.accepts(entry.key())) found = &entry;
    return found == nullptr;
  });
  return found;
}

}  // namespace weft::p2p::match
