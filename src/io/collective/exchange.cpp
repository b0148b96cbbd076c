// SPDX-License-Identifier: BSD-3-Clause
#include "io/collective/exchange.hpp"

#include <algorithm>
#include <limits>

namespace weft::io {

Round::Round(const CollectiveAccess& access, const Plan& plan, int64_t round, int tag)
    : sends(access.comm, tag), receives(access.comm, tag), replies(access.comm, tag), access_(access) {
  const int rank = access.comm.rank();
  const AccessRecord& mine = plan.records[static_cast<size_t>(rank)];
  for (size_t i = 0; i < plan.aggregators.size(); ++i) {
    const Range its_window = plan.window(i, round);
    if (!its_window.overlaps(mine.range)) continue;
    OwnPart& part = own.emplace_back();
    part.aggregator = plan.aggregators[i];
    const int64_t begin = access.stream, end = begin + access.bytes;
    const int64_t first = access.view->stream_before(its_window.first, begin, end);
    const int64_t last = access.view->stream_before(its_window.end, begin, end);
    part.offset = first - begin;
    part.pieces = pieces_of(*access.view, first, last - first);
    part.header.bytes = last - first;
  }
  const int index = plan.index_of(rank);
  if (index < 0) return;
  window = plan.window(static_cast<size_t>(index), round);
  for (size_t i = 0; i < plan.records.size(); ++i)
    if (window.overlaps(plan.records[i].range)) parts.emplace_back().rank = static_cast<int>(i);
}

Task Round::exchange_pieces() {
  for (OwnPart& part : own) {
    if (part.header.bytes != 0) {
      Status sliced = part.data.slice(access_.memory, part.offset, part.header.bytes);
      if (!sliced.ok()) {  // takes part without data
        keep(std::move(sliced));
        part.header.bytes = 0;
        part.pieces.clear();
      }
    }
    part.header.pieces = static_cast<int64_t>(part.pieces.size());
    if (part.pieces.size() <= Header::kInline)
      std::copy(part.pieces.begin(), part.pieces.end(), part.header.first);
    sends.send(p2p::host_bytes(&part.header, sizeof(Header)), part.aggregator);
    if (part.pieces.size() > Header::kInline)
      sends.send(p2p::host_bytes(part.pieces.data(), part.pieces.size() * sizeof(Piece)), part.aggregator);
  }
  for (RankPart& part : parts) receives.receive(p2p::host_bytes(&part.header, sizeof(Header)), part.rank);
  co_await receives;
  if (Status received = receives.take(); !received.ok()) {
    keep(std::move(received));
    // A header that has not arrived is zero: its rank has failed.
  }
  for (RankPart& part : parts) {
    const auto n = static_cast<size_t>(part.header.pieces);
    if (n <= Header::kInline) {
      part.pieces.assign(part.header.first, part.header.first + n);
      continue;
    }
    part.pieces.resize(n);
    receives.receive(p2p::host_bytes(part.pieces.data(), n * sizeof(Piece)), part.rank);
  }
  co_await receives;
  keep(receives.take());
  co_return Status();
}

void Round::move_to(std::byte* buffer) {
  for (OwnPart& part : own)
    if (part.header.bytes != 0) sends.send(part.data.get(), part.aggregator);
  for (RankPart& part : parts) {
    if (part.header.bytes == 0) continue;
    if (Status placed = place(part.pieces, buffer, window.first, part.header.bytes, part.data);
        !placed.ok()) {
      // The message goes to the start of the buffer, which is not written after an error.
      keep(std::move(placed));
      receives.receive(p2p::host_bytes(buffer, static_cast<size_t>(window.bytes())), part.rank);
      continue;
    }
    receives.receive(part.data.get(), part.rank);
  }
}

void Round::move_from(std::byte* buffer, int64_t end, bool failed) {
  for (OwnPart& part : own) replies.receive(p2p::host_bytes(&part.reply, sizeof(Reply)), part.aggregator);
  for (RankPart& part : parts) {
    part.reply = {end, failed ? 1 : 0};
    int64_t bytes = failed ? 0 : bytes_before(part.pieces, end);
    if (bytes != 0) {
      if (Status placed = place(part.pieces, buffer, window.first, bytes, part.data); !placed.ok()) {
        keep(std::move(placed));
        part.reply.failed = 1;
        bytes = 0;
      }
    }
    sends.send(p2p::host_bytes(&part.reply, sizeof(Reply)), part.rank);
    if (bytes != 0) sends.send(part.data.get(), part.rank);
  }
}

int64_t Round::receive_data() {
  int64_t total = 0;
  for (OwnPart& part : own) {
    const int64_t bytes = part.reply.failed != 0 ? 0 : bytes_before(part.pieces, part.reply.end);
    total += bytes;
    if (bytes == 0) continue;
    if (bytes != part.header.bytes) {
      if (Status sliced = part.data.slice(access_.memory, part.offset, bytes); !sliced.ok())
        keep(std::move(sliced));  // the receive of more bytes than the message has is harmless
    }
    receives.receive(part.data.get(), part.aggregator);
  }
  return total;
}

std::vector<Range> Round::ranges(int64_t gap) const {
  Coverage coverage;
  coverage.reset(window);
  for (const RankPart& part : parts) coverage.add(part.pieces);
  return coverage.ranges(gap);
}

}  // namespace weft::io
