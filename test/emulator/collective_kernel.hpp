// SPDX-License-Identifier: BSD-3-Clause
// Base of the emulated collective kernels: memory as mapped on the GPU of the context, and the end of a
// launch.
#pragma once
#include <cstring>

#include "device/kernel/collective.hpp"
#include "device/kernel/direct.hpp"
#include "world.hpp"

namespace emucuda {

using namespace weft::device::kernel;

class CollectiveKernel : public Kernel {
 public:
  CollectiveKernel(ContextObject& context, void** parameters) : context_(context) {
    std::memcpy(&c_, parameters[0], sizeof c_);
  }
  Turn turn(uint64_t time) final {
    failed_ = false;
    if (!entered_ && !enter()) return failed_ ? Turn::illegal_address : Turn::idle;
    entered_ = true;
    for (uint32_t rank = 0; rank < c_.size; ++rank)
      regions_[rank] = at(c_.regions[rank], RegionLayout::kClearedBytes + simple_bytes());
    if (last_progress_ == 0) last_progress_ = time;
    progressed_ = false;
    const bool over = !failed_ && step();
    if (failed_) return Turn::illegal_address;
    if (progressed_) last_progress_ = time;
    if (!over && time - last_progress_ <= c_.timeout_ns && !exits_early())
      return progressed_ ? Turn::worked : Turn::idle;
    ++(over ? world().collectives : world().timed_out_collectives);
    return save_state(over) && publish_end(over) ? Turn::ended : Turn::illegal_address;
  }

 protected:
  /// Advances as far as possible; true: finished.
  virtual bool step() = 0;
  virtual bool save_state(bool) { return true; }
  [[nodiscard]] virtual uint64_t simple_bytes() const {
    return RegionLayout::simple_bytes(c_.form, c_.chunk_bytes, c_.blocks, c_.size);
  }
  /// Called before the first step; false: not yet.
  virtual bool enter() { return true; }
  virtual bool exits_early() { return exits_at_random(); }
  /// Publishes the end of the launch.
  virtual bool publish_end(bool over) {
    auto* status = reinterpret_cast<uint64_t*>(at(c_.status, sizeof(uint64_t)));
    if (status == nullptr) return false;
    __atomic_store_n(status, Collective::outcome(c_.epoch, c_.launch, !over), __ATOMIC_RELEASE);
    return true;
  }

  char* at(uint64_t address, uint64_t bytes) {
    char* here = bytes == 0 ? nullptr : translate_for(context_, address, bytes);
    if (here == nullptr && bytes != 0) failed_ = true;
    return here;
  }
  Vec16 load(uint64_t address, uint64_t bytes) {
    Vec16 vec{};
    if (const char* from = at(address, bytes); from != nullptr) std::memcpy(&vec, from, bytes);
    return vec;
  }
  void store(uint64_t address, const Vec16& vec, uint64_t bytes) {
    if (char* to = at(address, bytes); to != nullptr) std::memcpy(to, &vec, bytes);
  }
  /// Host pointer of an address inside the region of a rank.
  char* in_region(uint32_t rank, uint64_t address) { return regions_[rank] + (address - c_.regions[rank]); }
  [[nodiscard]] uint32_t sources() const {
    uint32_t ranks = 0;
    for (uint32_t rank = 0; rank < c_.size; ++rank)
      if (c_.recv[rank].bytes != 0) ranks |= 1u << rank;
    return ranks;
  }
  [[nodiscard]] Collective::Message result() const {
    for (uint32_t rank = 0; rank < c_.size; ++rank)
      if (c_.recv[rank].bytes != 0) return c_.recv[rank];
    return {};
  }
  /// Direct: signals once that this rank has done its part; true: so have all ranks.
  bool all_ranks_done() {
    const bool signalled = raised(Direct::ended(c_, c_.rank, c_.rank), 1);
    for (uint32_t rank = 0; rank < c_.size && !signalled; ++rank)
      store_release(rank, Direct::ended(c_, rank, c_.rank), 1);
    bool all = true;
    for (uint32_t rank = 0; rank < c_.size; ++rank) all = all && raised(Direct::ended(c_, c_.rank, rank), 1);
    return all;
  }
  void store_release(uint32_t rank, uint64_t flag, uint32_t value) {
    __atomic_store_n(reinterpret_cast<uint64_t*>(in_region(rank, flag)), mark(c_, value), __ATOMIC_RELEASE);
  }
  bool raised(uint64_t flag, uint32_t value) {
    const auto* word = reinterpret_cast<const uint64_t*>(in_region(c_.rank, flag));
    return __atomic_load_n(word, __ATOMIC_ACQUIRE) >= mark(c_, value);
  }
  static uint64_t valid_bytes(uint64_t bytes, uint64_t g) { return std::min<uint64_t>(16, bytes - 16 * g); }

  ContextObject& context_;
  Collective c_{};
  char* regions_[Collective::kRanks] = {};
  bool failed_ = false, progressed_ = false, entered_ = false;
  uint64_t last_progress_ = 0;
};

}  // namespace emucuda
