// SPDX-License-Identifier: BSD-3-Clause
// The emulated kernel of the Simple protocol, by the contract of device/kernel/collective.hpp.
#pragma once
#include <algorithm>
#include <cstring>
#include <vector>

#include "collective_kernel.hpp"

namespace emucuda {

/// With EMUCUDA_STRICT=1: the flag in a region that a kernel replaces must be an older one.
inline void require_older(bool older) {
  if (strict() && !older) abort_weft("broken rule", "a flag of a collective is stored twice, or too late");
}

class SimpleKernel : public CollectiveKernel {
 public:
  SimpleKernel(ContextObject& context, void** parameters)
      : CollectiveKernel(context, parameters), blocks_(c_.blocks), resume_(blocks_) {}

 protected:
  Collective::ResumeState* resume_state() {
    return reinterpret_cast<Collective::ResumeState*>(at(c_.resume_state, sizeof(Collective::ResumeState)));
  }
  bool step() override {
    if (!started_) {
      if (const Collective::ResumeState* saved = c_.launch != 0 ? resume_state() : nullptr; saved != nullptr)
        std::copy_n(saved->blocks, blocks_, resume_.begin());
      for (uint32_t block = 0; c_.launch == 0 && c_.rounds != 0 && block < blocks_; ++block) send(block, 0);
      started_ = true;
    }
    bool all = true;
    for (uint32_t block = 0; block < blocks_ && !failed_; ++block) all = run(block) && all;
    return all && !failed_;
  }
  bool save_state(bool) override {
    Collective::ResumeState* saved = resume_state();
    if (saved != nullptr) std::copy_n(resume_.begin(), blocks_, saved->blocks);
    return saved != nullptr;
  }

  /// Advances one block as far as possible.
  bool run(uint32_t block) {
    uint64_t& resume = resume_[block];
    while (resume != Collective::kEnded && !failed_) {
      const auto round = static_cast<uint32_t>(resume / 2);
      if (round == c_.rounds) {
        resume = Collective::kEnded;
        break;
      }
      if (resume % 2 == 0) {
        if (!arrived(0, block, round)) return false;
        receive(block, round);
        if (round + 1 < c_.rounds) send(block, round + 1);
        ++resume;
      }
      if (c_.form == Collective::two_shot) {
        if (!arrived(1, block, round)) return false;
        collect(block, round);
      }
      ++resume;
      progressed_ = true;
    }
    return !failed_;
  }

  char* slot(uint32_t in, uint32_t step, uint32_t block, uint32_t round, uint32_t source) {
    return in_region(in, RegionLayout::simple_slot(c_, in, step, round & 1, block, source));
  }
  void signal(uint32_t step, uint32_t block, uint32_t round) {
    for (uint32_t to = 0; to < c_.size; ++to) {
      if (to == c_.rank) continue;
      auto* flag = reinterpret_cast<uint64_t*>(
          in_region(to, RegionLayout::flag(c_.regions[to], step, round & 1, block, c_.rank)));
      require_older(__atomic_load_n(flag, __ATOMIC_RELAXED) < mark(c_, round));
      __atomic_store_n(flag, mark(c_, round), __ATOMIC_RELEASE);
    }
  }
  bool arrived(uint32_t step, uint32_t block, uint32_t round) {
    for (uint32_t from = 0; from < c_.size; ++from) {
      if (from == c_.rank) continue;
      const auto* flag = reinterpret_cast<const uint64_t*>(
          in_region(c_.rank, RegionLayout::flag(c_.regions[c_.rank], step, round & 1, block, from)));
      if (__atomic_load_n(flag, __ATOMIC_ACQUIRE) < mark(c_, round)) return false;
    }
    return true;
  }
  void copy(char* to, uint64_t from, uint64_t bytes) {
    if (const char* data = at(from, bytes); data != nullptr) std::memmove(to, data, bytes);
  }
  void copy_out(uint64_t to, const char* from, uint64_t bytes) {
    if (char* resume = at(to, bytes); resume != nullptr) std::memmove(resume, from, bytes);
  }

  virtual void send(uint32_t block, uint32_t round) {
    for (uint32_t to = 0; to < c_.size; ++to) {
      if (to == c_.rank) continue;
      if (c_.form == Collective::two_shot) {
        const Range r = part_chunk_range(c_, to, round, block, blocks_);
        if (member(c_.sources, c_.rank))
          copy(slot(to, 0, block, round, c_.rank), c_.send[0].address + r.first, r.count);
      } else {
        const Range r = chunk_range(c_, c_.send[to].bytes, round, block, blocks_);
        copy(slot(to, 0, block, round, c_.rank), c_.send[to].address + r.first, r.count);
      }
    }
    signal(0, block, round);
    if (c_.form != Collective::exchange) return;
    const Range own = chunk_range(c_, c_.send[c_.rank].bytes, round, block, blocks_);
    if (const char* from = at(c_.send[c_.rank].address + own.first, own.count); from != nullptr)
      copy_out(c_.recv[c_.rank].address + own.first, from, own.count);
  }
  virtual void receive(uint32_t block, uint32_t round) {
    if (c_.form == Collective::exchange) {
      for (uint32_t from = 0; from < c_.size; ++from) {
        if (from == c_.rank) continue;
        const Range r = chunk_range(c_, c_.recv[from].bytes, round, block, blocks_);
        copy_out(c_.recv[from].address + r.first, slot(c_.rank, 0, block, round, from), r.count);
      }
    } else if (c_.form == Collective::reduce) {
      const Collective::Message out = result();
      const Range r = chunk_range(c_, out.bytes, round, block, blocks_);
      reduce(block, round, sources(), 0, out.address + r.first, c_.send[c_.rank].address + r.first, r.count);
    } else {
      const Range r = part_chunk_range(c_, c_.rank, round, block, blocks_);
      reduce(block, round, c_.sources, c_.targets, c_.recv[0].address + r.first, c_.send[0].address + r.first,
             r.count);
      signal(1, block, round);
    }
  }
  void reduce(uint32_t block, uint32_t round, uint32_t ranks, uint32_t targets, uint64_t out, uint64_t own,
              uint64_t bytes) {
    for (uint64_t g = 0; g < vec16_count(bytes) && !failed_; ++g) {
      Vec16 terms[Collective::kRanks];
      int count = 0;
      for (uint32_t rank = 0; rank < c_.size; ++rank) {
        if (!member(ranks, rank)) continue;
        if (rank == c_.rank)
          terms[count++] = load(own + 16 * g, valid_bytes(bytes, g));
        else
          std::memcpy(&terms[count++], slot(c_.rank, 0, block, round, rank) + 16 * g, 16);
      }
      const Vec16 reduced =
          count == 1 ? terms[0] : fold(c_.reduction, count, [&](int i) { return terms[i]; });
      for (uint32_t to = 0; to < c_.size; ++to)
        if (to != c_.rank && member(targets, to))
          std::memcpy(slot(to, 1, block, round, c_.rank) + 16 * g, &reduced, 16);
      if (targets == 0 || member(targets, c_.rank)) store(out + 16 * g, reduced, valid_bytes(bytes, g));
    }
  }
  void collect(uint32_t block, uint32_t round) {
    for (uint32_t from = 0; from < c_.size && member(c_.targets, c_.rank); ++from) {
      if (from == c_.rank) continue;
      const Range r = part_chunk_range(c_, from, round, block, blocks_);
      copy_out(c_.recv[0].address + r.first, slot(c_.rank, 1, block, round, from), r.count);
    }
  }

  const uint32_t blocks_;
  bool started_ = false;
  std::vector<uint64_t> resume_;
};

}  // namespace emucuda
