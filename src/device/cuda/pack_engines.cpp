// SPDX-License-Identifier: BSD-3-Clause
// What a pack kernel would have done, by copy engines: slow, but no kernel of the application stops it.
// Inside one GPU the driver copies by kernels as well, so there the data go through host memory.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/log.hpp"
#include "device/cuda/submit.hpp"

namespace weft::device::cuda {
namespace {

log::SlowPath starved{"gpu.pack_starved", "copy engines pack run by run, about 2 us for each"};

constexpr size_t kPieces = 4096;  // submitted at a time

/// Walks the stretches of memory that a packed stream is made of.
class Stretches {
 public:
  /// Downloads the table of the shape, if it has one.
  [[nodiscard]] static Result<Stretches> of(const Shape& shape, State& state);
  /// The next stretch, of at most `most` bytes.
  [[nodiscard]] Piece next(uint64_t most);
  /// The rest of a stretch of which only `n` bytes were used.
  void give_back(uint64_t n) { at_ -= n; }

 private:
  [[nodiscard]] Piece in_table(uint64_t most) const;
  Shape shape_;
  uint64_t at_ = 0;
  std::vector<int64_t> displacements_;
  std::vector<uint32_t> prefix_;
};

Piece piece(uint64_t address, uint64_t size) { return {reinterpret_cast<void*>(address), nullptr, size}; }

Status download(State& state, void* to, uint64_t from, size_t n) {
  const Piece one{to, reinterpret_cast<const void*>(from), n};
  auto ticket = engines_async(state, {}, {}, Lane::aux, {&one, 1});
  if (!ticket) return std::move(ticket).error();
  return wait(*ticket);
}

Result<Stretches> Stretches::of(const Shape& shape, State& state) {
  Stretches stretches;
  stretches.shape_ = shape;
  stretches.at_ = shape.offset;
  if (shape.table == nullptr) return stretches;
  const size_t n = shape.table->segments;
  const uint64_t base = shape.table->memory.memory().base;
  stretches.displacements_.resize(n);
  stretches.prefix_.resize(n + 1);
  WEFT_TRY(download(state, stretches.displacements_.data(), base, n * sizeof(int64_t)));
  WEFT_TRY(download(state, stretches.prefix_.data(), base + n * sizeof(int64_t), (n + 1) * sizeof(uint32_t)));
  return stretches;
}

Piece Stretches::in_table(uint64_t most) const {
  const uint64_t element = at_ / shape_.table->bytes, at = at_ % shape_.table->bytes;
  const auto after = std::upper_bound(prefix_.begin(), prefix_.end() - 1, static_cast<uint32_t>(at));
  const auto segment = static_cast<size_t>(after - prefix_.begin()) - 1;
  const uint64_t inside = at - prefix_[segment];
  const auto start =
      static_cast<uint64_t>(displacements_[segment] + shape_.stride[0] * static_cast<int64_t>(element));
  return piece(shape_.address + start + inside, std::min(most, prefix_[segment + 1] - at));
}

Piece Stretches::next(uint64_t most) {
  Piece found{};
  if (shape_.table != nullptr) {
    found = in_table(most);
  } else if (shape_.dimensions == 0) {
    found = piece(shape_.address + at_, most);
  } else {
    const auto length = static_cast<uint64_t>(shape_.length);
    uint64_t run = at_ / length, address = shape_.address + at_ % length;
    for (int i = 0; i < shape_.dimensions; ++i) {
      const bool last = i + 1 == shape_.dimensions;
      const uint64_t here = last ? run : run % static_cast<uint64_t>(shape_.count[i]);
      run /= static_cast<uint64_t>(shape_.count[i]);
      address += here * static_cast<uint64_t>(shape_.stride[i]);
    }
    found = piece(address, std::min(most, length - at_ % length));
  }
  at_ += found.size;
  return found;
}

/// `bytes` bytes from one stream to the other; the last submission's ticket. One lane: done in order.
Result<Ticket> copy_stream(State& state, Stretches& to, const Memory& dst, Stretches& from, const Memory& src,
                           uint64_t bytes) {
  std::vector<Piece> pieces;
  Ticket last;
  for (uint64_t moved = 0; moved < bytes;) {
    pieces.clear();
    while (moved < bytes && pieces.size() < kPieces) {
      const Piece source = from.next(bytes - moved), target = to.next(source.size);
      from.give_back(source.size - target.size);
      pieces.push_back({target.dst, source.dst, target.size});
      moved += target.size;
    }
    auto ticket = engines_async(state, dst, src, Lane::aux, pieces);
    if (!ticket) return ticket;
    last = std::move(*ticket);
  }
  return last;
}

/// Both sides on one GPU: through host memory, part by part. Pinned memory cannot be allocated now, since
/// that waits for kernels.
Result<Ticket> through_host(State& state, Stretches& to, Stretches& from, const PackJob& job) {
  const std::lock_guard lock(state.packs.room_mutex);
  const std::unique_ptr<char[]> unpinned(state.packs.room() != nullptr ? nullptr
                                                                       : new char[Packs::kRoomBytes]);
  char* const room = unpinned ? unpinned.get() : state.packs.room();
  for (uint64_t moved = 0; moved < job.bytes;) {
    const uint64_t n = std::min<uint64_t>(Packs::kRoomBytes, job.bytes - moved);
    for (const bool down : {true, false}) {
      auto host = Stretches::of(plain(room), state);
      if (!host) return std::move(host).error();
      auto ticket = down ? copy_stream(state, *host, {}, from, job.src_memory, n)
                         : copy_stream(state, to, job.dst_memory, *host, {}, n);
      if (!ticket) return ticket;
      WEFT_TRY(wait(*ticket));
    }
    moved += n;
  }
  return Ticket();
}

bool on_this_gpu(const State& state, const Memory& memory) {
  return memory.kind == MemoryKind::cuda_managed || (memory.on_device() && memory.device == state.device);
}

}  // namespace

Result<Ticket> pack_by_engines(State& state, const PackJob& job) {
  starved.hit("a kernel of the application fills the GPU");
  auto to = Stretches::of(job.dst, state), from = Stretches::of(job.src, state);
  if (!to) return std::move(to).error();
  if (!from) return std::move(from).error();
  if (on_this_gpu(state, job.dst_memory) && on_this_gpu(state, job.src_memory))
    return through_host(state, *to, *from, job);
  return copy_stream(state, *to, job.dst_memory, *from, job.src_memory, job.bytes);
}

}  // namespace weft::device::cuda
