// SPDX-License-Identifier: BSD-3-Clause
// Collectives with blocks whose sizes only their senders and receivers know: alltoallv, alltoallw, and the
// neighborhood collectives. A rank waits only for the ranks from which it receives.
#include <algorithm>
#include <new>

#include "coll/algorithm/neighbor.hpp"
#include "coll/host/block_table.hpp"
#include "coll/host/run.hpp"
#include "coll/schedule/stage.hpp"

namespace weft::coll::host {

/// The blocks that do not fit a page, as messages. Calls without such blocks create no Stage, nor clear the
/// memory for one, as std::optional would.
class Run::Messages {
 public:
  Messages(const Run& run, int tag) : run_(run), tag_(tag) {}
  Messages(const Messages&) = delete;
  ~Messages() {
    if (body_ != nullptr) body_->~Body();
  }
  [[nodiscard]] bool any() const { return body_ != nullptr; }
  void receive(const p2p::Buffer& block, int source) { body().stage.receive(block, source); }
  void send(const p2p::Buffer& block, int dest) { body().stage.send(block, dest); }
  [[nodiscard]] Status finish() {
    body().stage.wait();
    return body().stage.take_outcome();
  }

 private:
  struct Body {
    Body(const Call& of, int tag) : call(of), stage(call) { call.tag = tag; }
    Call call;
    Stage stage;
  };
  Body& body() {
    if (body_ == nullptr) body_ = new (memory_) Body(run_.call_, tag_);
    // After an error of the run the messages are empty, which their receivers detect.
    if (!run_.outcome_.ok() && !body_->stage.disabled()) [[unlikely]]
      body_->stage.disable(run_.outcome_.error().copy());
    return *body_;
  }
  const Run& run_;
  const int tag_;
  Body* body_ = nullptr;
  alignas(Body) std::byte memory_[sizeof(Body)];
};

/// Calls f(dest, block, bytes) for each block for another rank, in the order of the messages.
template <class F>
void Run::for_each_sent(F&& f) const {
  const auto visit = [&](int dest, const p2p::Buffer& block) {
    if (const auto bytes = static_cast<uint64_t>(packed_bytes(block)); bytes != 0) f(dest, block, bytes);
  };
  if (among_neighbors(call_)) return algorithm::for_each_destination(call_, visit);
  for_each_peer([&](int peer) { visit(peer, call_.send.block(peer)); });
}

/// The same for f(source, block, bytes) and blocks from other ranks.
template <class F>
void Run::for_each_received(F&& f) const {
  const auto visit = [&](int source, const p2p::Buffer& block) {
    if (const auto bytes = static_cast<uint64_t>(packed_bytes(block)); bytes != 0) f(source, block, bytes);
  };
  if (among_neighbors(call_)) return algorithm::for_each_source(call_, visit);
  for_each_peer([&](int peer) { visit(peer, call_.recv.block(peer)); });
}

/// Whether this rank receives from every other rank.
bool Run::receives_from_all() const {
  if (among_neighbors(call_)) return false;
  int sources = 0;
  for_each_received([&](int, const p2p::Buffer&, uint64_t) { ++sources; });
  return sources == call_.size - 1;
}

BlockPlacement Run::publish_sized_blocks(Step step) {
  BlockPlacement placed;
  if (outcome_.ok()) for_each_sent([&](int, const p2p::Buffer&, uint64_t bytes) { placed.add(bytes); });
  BlockWriter table(channel_.claim(step, placed.size()), placed);
  BlockPlacement same;
  if (outcome_.ok())
    for_each_sent([&](int dest, const p2p::Buffer& block, uint64_t bytes) {
      if (same.add(bytes))
        pack(block, 0, table.add(dest, bytes), bytes);
      else
        table.add_message(dest);
    });
  channel_.publish(step, placed.size());
  return placed;
}

void Run::copy_own_sized_block() {
  if (among_neighbors(call_)) return;  // an edge to this rank itself is one of the edges
  const p2p::Buffer to = call_.recv.block(call_.rank), from = call_.send.block(call_.rank);
  const int64_t n = packed_bytes(to);
  copy_own_block(to, 0, from, 0, static_cast<uint64_t>(n), packed_bytes(from) == n);
}

/// Returns the size of the largest step that was read.
size_t Run::receive_sized_blocks(Step step, Messages& messages) {
  BlockReader readers[kMaxRanks];
  std::fill_n(readers, call_.size, BlockReader::at_begin());
  size_t largest = 0;
  for_each_received([&](int source, const p2p::Buffer& block, uint64_t bytes) {
    const Published published = channel_.wait_published(source, step);
    if (channel_.broken()) [[unlikely]]
      return record_error(channel_.failure());
    largest = std::max(largest, published.size);
    const BlockReader::Block found = readers[source].next(published, call_.rank);
    if (found.bytes == BlockEntry::kByMessage) return messages.receive(block, source);
    if (found.bytes != bytes) [[unlikely]]
      record_error(size_mismatch(source, found.bytes, bytes));
    if (outcome_.ok()) [[likely]]
      unpack(block, 0, found.data, bytes);
    channel_.check_unchanged(source, step, published.size);
  });
  return largest;
}

void Run::exchange_sized_blocks() {
  const int tag = call_.comm->next_collective_tag();  // on all ranks, whether or not they have messages
  const Step step = channel_.reserve_steps(1);
  const BlockPlacement placed = publish_sized_blocks(step);
  if (!placed.messages()) copy_own_sized_block();
  const bool from_all = receives_from_all();
  if (from_all) channel_.sleep_until_published(step);
  Messages messages(*this, tag);
  const size_t largest = receive_sized_blocks(step, messages);
  if (from_all) channel_.all_have_read(step - 1);
  if (!placed.messages() && !messages.any()) return channel_.acknowledge_batched(step, largest);
  channel_.acknowledge(step);  // before the wait for messages
  if (placed.messages()) {
    BlockPlacement same;
    for_each_sent([&](int dest, const p2p::Buffer& block, uint64_t bytes) {
      if (!same.add(bytes)) messages.send(block, dest);
    });
    copy_own_sized_block();  // while the peers copy
  }
  record_error(messages.finish());
}

}  // namespace weft::coll::host
