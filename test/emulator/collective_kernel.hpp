// SPDX-License-Identifier: BSD-3-Clause
// What the collective kernels of the emulated GPU share: memory as the GPU of the context sees it, and the
// end of a launch.
#pragma once
#include <cstring>

#include "device/kernel/collective.hpp"
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
      areas_[rank] = at(c_.areas[rank], Area::kCleared + piece_bytes());
    if (since_ == 0) since_ = time;
    moved_ = false;
    const bool over = !failed_ && step();
    if (failed_) return Turn::illegal_address;
    if (moved_) since_ = time;
    if (!over && time - since_ <= c_.patience && !leaves()) return moved_ ? Turn::worked : Turn::idle;
    ++(over ? world().collectives : world().late_collectives);
    return leave(over) && tell(over) ? Turn::ended : Turn::illegal_address;
  }

 protected:
  /// As much as can be done now; true: all is done.
  virtual bool step() = 0;
  virtual bool leave(bool) { return true; }
  [[nodiscard]] virtual uint64_t piece_bytes() const {
    return Area::data(c_.form, c_.piece, c_.blocks, c_.size);
  }
  /// Before the first step; false: not yet.
  virtual bool enter() { return true; }
  virtual bool leaves() { return leaves_at_random(); }
  /// That the launch is over.
  virtual bool tell(bool over) {
    auto* status = reinterpret_cast<uint64_t*>(at(c_.status, sizeof(uint64_t)));
    if (status == nullptr) return false;
    __atomic_store_n(status, Collective::outcome(c_.epoch, c_.launch, !over), __ATOMIC_RELEASE);
    return true;
  }

  char* at(uint64_t address, uint64_t bytes) {
    char* here = bytes == 0 ? nullptr : reach_from(context_, address, bytes);
    if (here == nullptr && bytes != 0) failed_ = true;
    return here;
  }
  Granule load(uint64_t address, uint64_t bytes) {
    Granule granule{};
    if (const char* from = at(address, bytes); from != nullptr) std::memcpy(&granule, from, bytes);
    return granule;
  }
  void store(uint64_t address, const Granule& granule, uint64_t bytes) {
    if (char* to = at(address, bytes); to != nullptr) std::memcpy(to, &granule, bytes);
  }
  /// Where an address inside a rank's area is.
  char* in_area(uint32_t rank, uint64_t address) { return areas_[rank] + (address - c_.areas[rank]); }
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
  static uint64_t valid(uint64_t bytes, uint64_t g) { return std::min<uint64_t>(16, bytes - 16 * g); }

  ContextObject& context_;
  Collective c_{};
  char* areas_[Collective::kRanks] = {};
  bool failed_ = false, moved_ = false, entered_ = false;
  uint64_t since_ = 0;
};

}  // namespace emucuda
