// SPDX-License-Identifier: BSD-3-Clause
// Collectives in mapped buffers on the emulated GPU, by the contract of device/kernel/direct.hpp.
#include <algorithm>

#include "collective_kernel.hpp"
#include "device/kernel/direct.hpp"

namespace emucuda {
namespace {

/// Results are stored in the buffers of other ranks.
class InBuffers : public CollectiveKernel {
 public:
  InBuffers(ContextObject& context, void** parameters) : CollectiveKernel(context, parameters) {
    std::memcpy(&d_, parameters[0], sizeof d_);
  }

 private:
  [[nodiscard]] uint64_t piece_bytes() const override {
    return c_.form == Collective::reduce ? Direct::data(c_.piece, c_.blocks, c_.size) : 0;
  }
  bool step() override {
    auto* places = reinterpret_cast<Collective::Places*>(at(c_.places, sizeof(Collective::Places)));
    if (places == nullptr) return false;
    if (!begun_ && c_.launch == 0) {
      ++world().direct_collectives;
      std::fill_n(places->blocks, c_.blocks, 0);
      if (c_.form == Collective::exchange) exchange();
    }
    begun_ = true;
    bool all = true;
    for (uint32_t block = 0; block < c_.blocks && c_.form != Collective::exchange && !failed_; ++block)
      all = (c_.form == Collective::reduce ? combine(block, places->blocks[block])
                                           : spread(block, places->blocks[block])) &&
            all;
    return all && !failed_ && met();
  }

  bool met() {
    const bool told = raised(Direct::ended(c_, c_.rank, c_.rank), 1);
    for (uint32_t rank = 0; rank < c_.size && !told; ++rank) raise(rank, Direct::ended(c_, rank, c_.rank), 1);
    bool all = true;
    for (uint32_t rank = 0; rank < c_.size; ++rank) all = all && raised(Direct::ended(c_, c_.rank, rank), 1);
    return all;
  }
  void raise(uint32_t rank, uint64_t flag, uint32_t value) {
    __atomic_store_n(reinterpret_cast<uint64_t*>(in_area(rank, flag)), mark(c_, value), __ATOMIC_RELEASE);
  }
  bool raised(uint64_t flag, uint32_t value) {
    const auto* word = reinterpret_cast<const uint64_t*>(in_area(c_.rank, flag));
    return __atomic_load_n(word, __ATOMIC_ACQUIRE) >= mark(c_, value);
  }
  void copy(uint64_t to, uint64_t from, uint64_t bytes) {
    if (bytes == 0) return;
    const char* data = at(from, bytes);
    char* place = at(to, bytes);
    if (data != nullptr && place != nullptr) std::memmove(place, data, bytes);
  }

  /// As far as the rounds go: what they leave out is missed.
  void exchange() {
    for (uint32_t chunk = 0; chunk < c_.rounds; ++chunk)
      for (uint32_t to = 0; to < c_.size; ++to) {
        const Range r = Direct::chunk(c_, c_.send[to].bytes, chunk);
        if (r.count != 0) copy(d_.out[to] + r.first, c_.send[to].address + r.first, r.count);
      }
  }

  /// A block's pushing and combining, as far as they come; true: to the end.
  bool combine(uint32_t block, uint64_t& place) {
    if (place == Collective::kEnded) return true;
    auto pushed = static_cast<uint32_t>(place >> 32), combined = static_cast<uint32_t>(place);
    for (bool goes = true; goes && !failed_;) {
      goes = false;
      if (pushed < c_.rounds && has_room(block, pushed)) push(block, pushed++), goes = true;
      if (combined < pushed && has_come(block, combined)) fold_piece(block, combined++), goes = true;
      moved_ = moved_ || goes;
    }
    const bool over = combined == c_.rounds;
    place = over ? Collective::kEnded : Direct::place(pushed, combined);
    return over;
  }
  bool has_room(uint32_t block, uint32_t round) {
    for (uint32_t rank = 0; rank < c_.size; ++rank)
      if (rank != c_.rank && round >= Direct::kSets &&
          !raised(Direct::taken(c_, c_.rank, block, rank), round - Direct::kSets + 1))
        return false;
    return true;
  }
  bool has_come(uint32_t block, uint32_t round) {
    for (uint32_t rank = 0; rank < c_.size; ++rank)
      if (rank != c_.rank && !raised(Direct::pushed(c_, c_.rank, block, rank), round + 1)) return false;
    return true;
  }
  char* slot(uint32_t owner, uint32_t round, uint32_t block, uint32_t source) {
    return in_area(owner, Direct::slot(c_, owner, round, block, source));
  }
  void push(uint32_t block, uint32_t round) {
    for (uint32_t to = 0; to < c_.size && !failed_; ++to) {
      if (to == c_.rank) continue;
      const Range r = piece(c_, c_.send[to].bytes, round, block, c_.blocks);
      if (const char* from = at(c_.send[to].address + r.first, r.count); from != nullptr)
        std::memcpy(slot(to, round, block, c_.rank), from, r.count);
      raise(to, Direct::pushed(c_, to, block, c_.rank), round + 1);
    }
  }
  void fold_piece(uint32_t block, uint32_t round) {
    const Range r = piece(c_, c_.recv[0].bytes, round, block, c_.blocks);
    for (uint64_t g = 0; g < granules(r.count) && !failed_; ++g) {
      Granule terms[Collective::kRanks];
      const uint64_t bytes = valid(r.count, g);
      for (uint32_t rank = 0; rank < c_.size; ++rank) {
        terms[rank] = {};
        if (rank == c_.rank)
          terms[rank] = load(c_.send[rank].address + r.first + 16 * g, bytes);
        else
          std::memcpy(&terms[rank], slot(c_.rank, round, block, rank) + 16 * g, bytes);
      }
      const Granule folded = fold(c_.reduction, static_cast<int>(c_.size), [&](int i) { return terms[i]; });
      for (uint32_t rank = 0; rank < c_.size; ++rank)
        if (member(c_.targets, rank)) store(d_.out[rank] + r.first + 16 * g, folded, bytes);
    }
    for (uint32_t rank = 0; rank < c_.size; ++rank)
      if (rank != c_.rank) raise(rank, Direct::taken(c_, rank, block, c_.rank), round + 1);
  }

  /// A block's rows, as far as they have come; true: all are given, or given on.
  bool spread(uint32_t block, uint64_t& row) {
    if (row == 0) row = block;
    if (row == Collective::kEnded) return true;
    uint32_t source = 0;
    while (!member(c_.sources, source)) ++source;
    for (; row < c_.rounds && !failed_; row += c_.blocks) {
      const auto given = static_cast<uint32_t>(row / c_.blocks) + 1;
      if (c_.rank == source)
        give(block, row, given);
      else if (raised(Direct::pushed(c_, c_.rank, block, source), given))
        pass_on(row, source);
      else
        return false;
      moved_ = true;
    }
    row = Collective::kEnded;
    return true;
  }
  void give(uint32_t block, uint64_t row, uint32_t given) {
    for (uint32_t to = 0; to < c_.size; ++to) {
      if (to == c_.rank) continue;
      const Range r = Direct::chunk_of_row(c_, row, c_.rank, to);
      copy(d_.out[to] + r.first, c_.send[0].address + r.first, r.count);
      raise(to, Direct::pushed(c_, to, block, c_.rank), given);
    }
  }
  void pass_on(uint64_t row, uint32_t source) {
    const Range r = Direct::chunk_of_row(c_, row, source, c_.rank);
    for (uint32_t to = 0; to < c_.size; ++to)
      if (to != c_.rank && to != source) copy(d_.out[to] + r.first, d_.out[c_.rank] + r.first, r.count);
  }

  Direct d_{};
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<Kernel> create_collective_direct(ContextObject& context, void** parameters) {
  return std::make_unique<InBuffers>(context, parameters);
}

}  // namespace emucuda
