// SPDX-License-Identifier: BSD-3-Clause
// Collectives in mapped buffers on the emulated GPU, by the contract of device/kernel/direct.hpp.
#include <algorithm>

#include "collective_kernel.hpp"
#include "device/kernel/direct.hpp"

namespace emucuda {
namespace {

/// Stores results in the buffers of other ranks.
class DirectKernel : public CollectiveKernel {
 public:
  DirectKernel(ContextObject& context, void** parameters) : CollectiveKernel(context, parameters) {
    std::memcpy(&d_, parameters[0], sizeof d_);
  }

 private:
  [[nodiscard]] uint64_t simple_bytes() const override {
    return c_.form == Collective::reduce ? Direct::chunk_slots_bytes(c_.chunk_bytes, c_.blocks, c_.size) : 0;
  }
  bool step() override {
    auto* resume_state =
        reinterpret_cast<Collective::ResumeState*>(at(c_.resume_state, sizeof(Collective::ResumeState)));
    if (resume_state == nullptr) return false;
    if (!started_ && c_.launch == 0) {
      ++world().direct_collectives;
      std::fill_n(resume_state->blocks, c_.blocks, 0);
      if (c_.form == Collective::exchange) exchange();
    }
    started_ = true;
    bool all = true;
    for (uint32_t block = 0; block < c_.blocks && c_.form != Collective::exchange && !failed_; ++block)
      all = (c_.form == Collective::reduce ? combine(block, resume_state->blocks[block])
                                           : broadcast(block, resume_state->blocks[block])) &&
            all;
    return all && !failed_ && all_ranks_done();
  }

  void copy(uint64_t to, uint64_t from, uint64_t bytes) {
    if (bytes == 0) return;
    const char* data = at(from, bytes);
    char* resume = at(to, bytes);
    if (data != nullptr && resume != nullptr) std::memmove(resume, data, bytes);
  }

  /// Only `rounds` chunks of each message: tests notice a missing chunk.
  void exchange() {
    for (uint32_t chunk = 0; chunk < c_.rounds; ++chunk)
      for (uint32_t to = 0; to < c_.size; ++to) {
        const Range r = Direct::chunk(c_, c_.send[to].bytes, chunk);
        if (r.count != 0) copy(d_.out[to] + r.first, c_.send[to].address + r.first, r.count);
      }
  }

  /// Pushes and combines the chunks of a block as far as possible; true: finished.
  bool combine(uint32_t block, uint64_t& resume) {
    if (resume == Collective::kEnded) return true;
    auto pushed = static_cast<uint32_t>(resume >> 32), combined = static_cast<uint32_t>(resume);
    for (bool goes = true; goes && !failed_;) {
      goes = false;
      if (pushed < c_.rounds && has_free_slot(block, pushed)) push(block, pushed++), goes = true;
      if (combined < pushed && has_arrived(block, combined)) fold_piece(block, combined++), goes = true;
      progressed_ = progressed_ || goes;
    }
    const bool over = combined == c_.rounds;
    resume = over ? Collective::kEnded : Direct::resume(pushed, combined);
    return over;
  }
  bool has_free_slot(uint32_t block, uint32_t round) {
    for (uint32_t rank = 0; rank < c_.size; ++rank)
      if (rank != c_.rank && round >= Direct::kSlots &&
          !raised(Direct::taken(c_, c_.rank, block, rank), round - Direct::kSlots + 1))
        return false;
    return true;
  }
  bool has_arrived(uint32_t block, uint32_t round) {
    for (uint32_t rank = 0; rank < c_.size; ++rank)
      if (rank != c_.rank && !raised(Direct::pushed(c_, c_.rank, block, rank), round + 1)) return false;
    return true;
  }
  char* slot(uint32_t owner, uint32_t round, uint32_t block, uint32_t source) {
    return in_region(owner, Direct::slot(c_, owner, round, block, source));
  }
  void push(uint32_t block, uint32_t round) {
    for (uint32_t to = 0; to < c_.size && !failed_; ++to) {
      if (to == c_.rank) continue;
      const Range r = chunk_range(c_, c_.send[to].bytes, round, block, c_.blocks);
      if (const char* from = at(c_.send[to].address + r.first, r.count); from != nullptr)
        std::memcpy(slot(to, round, block, c_.rank), from, r.count);
      store_release(to, Direct::pushed(c_, to, block, c_.rank), round + 1);
    }
  }
  void fold_piece(uint32_t block, uint32_t round) {
    const Range r = chunk_range(c_, c_.recv[0].bytes, round, block, c_.blocks);
    for (uint64_t g = 0; g < vec16_count(r.count) && !failed_; ++g) {
      Vec16 terms[Collective::kRanks];
      const uint64_t bytes = valid_bytes(r.count, g);
      for (uint32_t rank = 0; rank < c_.size; ++rank) {
        terms[rank] = {};
        if (rank == c_.rank)
          terms[rank] = load(c_.send[rank].address + r.first + 16 * g, bytes);
        else
          std::memcpy(&terms[rank], slot(c_.rank, round, block, rank) + 16 * g, bytes);
      }
      const Vec16 folded = fold(c_.reduction, static_cast<int>(c_.size), [&](int i) { return terms[i]; });
      for (uint32_t rank = 0; rank < c_.size; ++rank)
        if (member(c_.targets, rank)) store(d_.out[rank] + r.first + 16 * g, folded, bytes);
    }
    for (uint32_t rank = 0; rank < c_.size; ++rank)
      if (rank != c_.rank) store_release(rank, Direct::taken(c_, rank, block, c_.rank), round + 1);
  }

  /// Advances the stripes of a block as far as they have arrived; true: all are pushed or forwarded.
  bool broadcast(uint32_t block, uint64_t& stripe) {
    if (stripe == 0) stripe = block;
    if (stripe == Collective::kEnded) return true;
    uint32_t source = 0;
    while (!member(c_.sources, source)) ++source;
    for (; stripe < c_.rounds && !failed_; stripe += c_.blocks) {
      const auto given = static_cast<uint32_t>(stripe / c_.blocks) + 1;
      if (c_.rank == source)
        push_stripe(block, stripe, given);
      else if (raised(Direct::pushed(c_, c_.rank, block, source), given))
        forward_stripe(stripe, source);
      else
        return false;
      progressed_ = true;
    }
    stripe = Collective::kEnded;
    return true;
  }
  void push_stripe(uint32_t block, uint64_t stripe, uint32_t given) {
    for (uint32_t to = 0; to < c_.size; ++to) {
      if (to == c_.rank) continue;
      const Range r = Direct::chunk_of_stripe(c_, stripe, c_.rank, to);
      copy(d_.out[to] + r.first, c_.send[0].address + r.first, r.count);
      store_release(to, Direct::pushed(c_, to, block, c_.rank), given);
    }
  }
  void forward_stripe(uint64_t stripe, uint32_t source) {
    const Range r = Direct::chunk_of_stripe(c_, stripe, source, c_.rank);
    for (uint32_t to = 0; to < c_.size; ++to)
      if (to != c_.rank && to != source) copy(d_.out[to] + r.first, d_.out[c_.rank] + r.first, r.count);
  }

  Direct d_{};
  bool started_ = false;
};

}  // namespace

std::unique_ptr<Kernel> create_collective_direct(ContextObject& context, void** parameters) {
  return std::make_unique<DirectKernel>(context, parameters);
}

}  // namespace emucuda
