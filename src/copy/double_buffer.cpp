// SPDX-License-Identifier: BSD-3-Clause
#include "copy/double_buffer.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "copy/copy.hpp"

namespace weft::copy {

namespace {

log::SlowPath pageable_staging{"gpu.pageable_staging",
                               "copies between GPU and host 2 to 5 times slower than through pinned memory"};
constexpr uint64_t kMaxPageableBytes = 1 << 20;

}  // namespace

Result<HostChunk> HostChunk::lease(const device::Memory& near) {
  auto leased = device::lease_pinned(near);
  if (!leased) return std::move(leased).error();
  HostChunk chunk;
  chunk.pinned_ = std::move(*leased);
  chunk.size_ = chunk.pinned_.size();
  return chunk;
}

HostChunk HostChunk::pageable(size_t bytes) {
  HostChunk chunk;
  chunk.heap_.reset(new std::byte[bytes]);
  chunk.size_ = bytes;
  return chunk;
}

Result<DoubleBuffer> DoubleBuffer::lease(const device::Memory& near, uint64_t n) {
  auto first = HostChunk::lease(near);
  if (!first) return std::move(first).error();
  DoubleBuffer buffer;
  buffer.chunks_[0].memory = std::move(*first);
  if (n > buffer.chunks_[0].memory.size())
    if (auto second = HostChunk::lease(near)) buffer.chunks_[1].memory = std::move(*second);
  return buffer;
}

DoubleBuffer DoubleBuffer::lease_any(const device::Memory& near, uint64_t n) {
  auto pinned = lease(near, n);
  if (pinned) return std::move(*pinned);
  pageable_staging.hit(pinned.error().message());
  DoubleBuffer buffer;
  buffer.chunks_[0].memory = HostChunk::pageable(std::min(n, kMaxPageableBytes));
  return buffer;
}

Status DoubleBuffer::upload(const View& to, uint64_t n, device::StreamRole stream, const Step& fill) {
  uint64_t at = 0;
  for (uint64_t step = 0; at < n; ++step) {
    Chunk& next = chunk(step);
    WEFT_TRY(device::wait(next.ticket));
    const size_t part = std::min<uint64_t>(next.memory.size(), n - at);
    const View source = next.memory.view();
    WEFT_TRY(fill(source.data(), at, part));
    auto ticket = submit(to.from(at), source, part, stream);
    if (!ticket) return std::move(ticket).error();
    next.ticket = std::move(*ticket);
    at += part;
  }
  return {};
}

Status DoubleBuffer::download(const View& from, uint64_t n, device::StreamRole stream, const Step& drain) {
  WEFT_TRY(wait());
  const size_t size = chunks_[0].memory.size();
  const auto start = [&](uint64_t step) -> Status {
    const uint64_t at = step * size;
    if (at >= n) return {};
    Chunk& next = chunk(step);
    auto ticket = submit(next.memory.view(), from.from(at), std::min<uint64_t>(size, n - at), stream);
    if (!ticket) return std::move(ticket).error();
    next.ticket = std::move(*ticket);
    return {};
  };
  const uint64_t ahead = chunks_[1].memory ? 1 : 0;
  if (ahead != 0) WEFT_TRY(start(0));
  for (uint64_t step = 0; step * size < n; ++step) {
    WEFT_TRY(start(step + ahead));
    Chunk& filled = chunk(step);
    WEFT_TRY(device::wait(filled.ticket));
    const uint64_t at = step * size;
    WEFT_TRY(drain(filled.memory.view().data(), at, std::min<uint64_t>(size, n - at)));
  }
  return {};
}

Status DoubleBuffer::wait() {
  Status outcome;
  for (Chunk& each : chunks_) {
    Status done = device::wait(each.ticket);
    if (outcome.ok()) outcome = std::move(done);
  }
  return outcome;
}

}  // namespace weft::copy
