// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/engine/checked_transfers.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/assert.hpp"

namespace weft::p2p {
namespace {

using Kind = core::Request::Kind;

/// The buffer of a transfer as the program has passed it.
Buffer buffer_of_transfer(const Transfer& t) {
  return {reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(t.address) - static_cast<uintptr_t>(t.shift)),
          t.count, t.type};
}

/// Whether the program has started the transfer: a message of its own, or a partition.
bool of_program(const Transfer& t) {
  return t.context == t.comm->context(core::Channel::user) || t.persistent;
}

std::string describe_peer(const Transfer& t) {
  const bool send = t.kind == Kind::send;
  const int rank = send ? t.rank : t.completion.source, tag = send ? t.tag : t.completion.tag;
  return (send ? "to rank " : "from rank ") + std::to_string(rank) + " with tag " + std::to_string(tag);
}

}  // namespace

CheckedTransfers::~CheckedTransfers() = default;

Transfer* CheckedTransfers::make_inner(Transfer& t) {
  if (!device_side(t) || t.bytes == 0 || !of_program(t)) return nullptr;
  auto entry = std::make_unique<Entry>();
  entry->outer = &t;
  entry->call = reinterpret_cast<const char*>(instance_.waits.current().name);
  if (t.kind == Kind::send) {
    entry->asked = true;
    entry->comparing = entry->check.start(buffer_of_transfer(t), t.memory, t.bytes);
    if (!entry->comparing) return nullptr;
  }
  Transfer* const inner = Transfer::slab().create(t.kind);
  if (inner == nullptr) return nullptr;
  inner->owned = t.owned;  // a failure interrupts or ends both alike
  inner->bind(*t.comm, *t.type);
  inner->mode = t.mode;
  inner->context = t.context;
  inner->rank = t.rank;
  inner->tag = t.tag;
  inner->address = t.address;
  inner->shift = t.shift;
  inner->count = t.count;
  inner->bytes = t.bytes;
  inner->contiguous = t.contiguous;
  inner->memory = t.memory;
  entry->inner = inner;
  if (entries_.empty()) instance_.add(*this);
  entries_.push_back(std::move(entry));
  return inner;
}

Transfer* CheckedTransfers::find_inner(const Transfer& t) const {
  for (const auto& entry : entries_)
    if (entry->outer == &t) return entry->inner;
  return nullptr;
}

bool CheckedTransfers::is_inner(const Transfer& t) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const auto& entry) { return entry->inner == &t; });
}

bool CheckedTransfers::advance(Entry& entry) {
  Transfer &outer = *entry.outer, &inner = *entry.inner;
  if (inner.interrupted()) {  // a failure ends waits for it; it stays active
    if (!outer.interrupted()) outer.interrupt(inner.outcome.error().message());
    return false;
  }
  if (outer.interrupted()) outer.resume();
  if (!inner.complete()) return false;
  if (!std::exchange(entry.asked, true) && inner.outcome.ok() && !inner.completion.cancelled)
    entry.comparing = entry.check.start(buffer_of_transfer(inner), inner.memory,
                                        std::min(inner.completion.bytes, inner.bytes));
  if (!entry.comparing) return true;
  const auto verdict = entry.check.poll();
  if (verdict == BufferCheck::Verdict::pending) return false;
  entry.comparing = false;
  if (verdict == BufferCheck::Verdict::changed && inner.outcome.ok()) {
    const bool send = inner.kind == Kind::send;
    inner.outcome = entry.check.report(send ? BufferCheck::Side::input : BufferCheck::Side::output,
                                       entry.call, *inner.comm, describe_peer(inner));
  }
  return true;
}

void CheckedTransfers::end(std::unique_ptr<Entry> entry) {
  Transfer &outer = *entry->outer, &inner = *entry->inner;
  outer.completion = inner.completion;
  outer.outcome = std::move(inner.outcome);
  if (inner.owned)
    inner.destroy();
  else
    Transfer::slab().destroy(&inner);
  outer.finish();
}

bool CheckedTransfers::poll() {
  bool ended = false;
  for (size_t i = 0; i < entries_.size();) {
    if (!advance(*entries_[i])) {
      ++i;
      continue;
    }
    auto entry = std::move(entries_[i]);
    entries_.erase(entries_.begin() + static_cast<ptrdiff_t>(i));
    end(std::move(entry));
    ended = true;
  }
  if (entries_.empty() && ended) instance_.remove(*this);
  return ended;
}

}  // namespace weft::p2p
