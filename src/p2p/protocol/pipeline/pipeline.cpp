// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/protocol/pipeline/pipeline.hpp"

#include <algorithm>
#include <utility>

#include "p2p/engine/engine.hpp"

namespace weft::p2p {

// Chunks are handed over in the order of their offsets, so that the copies of the receiver run in order.
// After a chunk that was sent, the GPU fills it again before the next one is sent.
bool PipelinedSend::stream(Engine& engine, Transfer& t) {
  if (limit != nullptr && !use) {
    use = limit->acquire();
    if (!use) return false;
  }
  bool progressed = false;
  for (auto chunk = chunks.begin(); chunk != chunks.end(); ++chunk) {
    if (chunk->announced) continue;
    const auto filled = device::done(chunk->filled);
    if (filled && !*filled) break;
    const auto handed_over = filled ? hand_over(engine, t, *chunk) : Result<Handover>(filled.error().copy());
    if (!handed_over) return fail(engine, t, handed_over.error().copy());
    if (*handed_over == Handover::no_capacity) break;
    progressed = true;
    if (*handed_over == Handover::partly) break;
    chunk->announced = true;
    if (*handed_over == Handover::sent) {
      returned(t, *chunk);
      break;
    }
  }
  if (Status outcome = fill(t, progressed); !outcome) return fail(engine, t, std::move(outcome).error());
  if (chunks.empty() && next < t.bytes) progressed |= send_without_chunk(engine, t);
  if (t.transferred == t.bytes) t.enter(Transfer::State::done);
  return progressed;
}

Status PipelinedSend::fill(Transfer& t, bool& progressed) {
  while (next < t.bytes) {
    auto slot = reserve(t, t.bytes - next);
    if (!slot) return std::move(slot).error();
    if (slot->size == 0) return {};
    auto ticket = copy::submit(slot->memory, view_of(t).from(next), slot->size, slot->stream);
    if (!ticket) {
      release(slot->number, slot->size);
      return std::move(ticket).error();
    }
    chunks.push_back({slot->number, next, slot->size, std::move(*ticket)});
    next += slot->size;
    progressed = true;
  }
  return {};
}

PipelinedSend::Chunk* PipelinedSend::announced(uint64_t number) {
  const auto found = std::find_if(chunks.begin(), chunks.end(), [&](const Chunk& chunk) {
    return chunk.announced && chunk.number == number;
  });
  return found == chunks.end() ? nullptr : &*found;
}

void PipelinedSend::returned(Transfer& t, Chunk& chunk) {
  t.transferred += chunk.size;
  release(chunk.number, chunk.size);
  std::erase_if(chunks, [&](const Chunk& one) { return &one == &chunk; });
}

BounceChunk PipelinedSend::announcement(const Transfer& t, const Chunk& chunk) {
  BounceChunk message{};
  message.type = Type::chunk_ready;
  message.sender = t.id;
  message.receiver = t.remote;
  message.offset = chunk.offset;
  message.size = chunk.size;
  message.number = chunk.number;
  return message;
}

bool PipelinedSend::fail(Engine& engine, Transfer& t, Error error) {
  post_failure(engine, t);
  t.outcome = std::move(error);
  give_up(t);
  if (t.transferred == t.bytes) t.enter(Transfer::State::done);
  return true;
}

void PipelinedSend::give_up(Transfer& t) {
  t.transferred += t.bytes - next;
  next = t.bytes;
  std::erase_if(chunks, [&](Chunk& chunk) {
    if (chunk.announced) return false;
    (void)device::wait(chunk.filled);  // its error is known already
    t.transferred += chunk.size;
    release(chunk.number, chunk.size);
    return true;
  });
}

void PipelinedSend::abort() {
  for (Chunk& chunk : chunks) {
    (void)device::wait(chunk.filled);
    release(chunk.number, chunk.size);
  }
  chunks.clear();
}

}  // namespace weft::p2p
