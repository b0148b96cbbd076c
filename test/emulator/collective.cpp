// SPDX-License-Identifier: BSD-3-Clause
// The collective kernels of the emulated GPU, by the contract of device/kernel/collective.hpp: pushing in the
// first turn, then taking what has come, a turn at a time, until all is there or patience is over.
#include "device/kernel/collective.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "collective_kernel.hpp"
#include "device/kernel/copy.hpp"

namespace emucuda {
namespace {

using namespace weft::device::kernel;

/// A granule as two packets.
class Packets {
 public:
  static uint64_t slots(uint64_t area, uint32_t step, uint32_t source, uint32_t size) {
    return Area::packets(area, step, source, size);
  }
  static void put(char* slots, uint64_t g, bool, const Granule& granule, uint32_t flag) {
    auto* words = reinterpret_cast<uint64_t*>(slots + 32 * g);
    for (int i = 0; i < 4; ++i)
      __atomic_store_n(words + i, uint64_t{flag} << 32 | granule.words[i], __ATOMIC_RELEASE);
  }
  static bool take(const char* slots, uint64_t g, Granule& granule, uint32_t flag) {
    const auto* words = reinterpret_cast<const uint64_t*>(slots + 32 * g);
    for (int i = 0; i < 4; ++i) {
      const uint64_t word = __atomic_load_n(words + i, __ATOMIC_ACQUIRE);
      if (word >> 32 != flag) return false;
      granule.words[i] = static_cast<uint32_t>(word);
    }
    return true;
  }
};

/// In lines, one behind the other: a line has its flag when it has its last granule.
class Lines {
 public:
  static uint64_t slots(uint64_t area, uint32_t step, uint32_t source, uint32_t size) {
    return Area::lines(area, step, source, size);
  }
  static void put(char* slots, uint64_t g, bool last, const Granule& granule, uint32_t flag) {
    Line& line = reinterpret_cast<Line*>(slots)[g / Line::kGranules];
    line.data[g % Line::kGranules] = granule;
    if (last || g % Line::kGranules == Line::kGranules - 1)
      __atomic_store_n(&line.flag, flag, __ATOMIC_RELEASE);
  }
  static bool take(const char* slots, uint64_t g, Granule& granule, uint32_t flag) {
    const Line& line = reinterpret_cast<const Line*>(slots)[g / Line::kGranules];
    if (__atomic_load_n(&line.flag, __ATOMIC_ACQUIRE) != flag) return false;
    granule = line.data[g % Line::kGranules];
    return true;
  }
};

template <class Wire>
class Flagged : public CollectiveKernel {
 public:
  using CollectiveKernel::CollectiveKernel;

 private:
  bool step() override {
    if (!pushed_ && c_.launch == 0) c_.form == Collective::two_shot ? push_parts() : push_messages();
    pushed_ = true;
    if (failed_) return false;
    if (c_.form == Collective::exchange) return take_messages();
    if (c_.form == Collective::reduce) return reduce_messages();
    return reduce_part() && take_parts();
  }

  void put(uint32_t to, uint32_t step, uint64_t g, uint64_t count, const Granule& granule) {
    Wire::put(in_area(to, Wire::slots(c_.areas[to], step, c_.rank, c_.size)), g, g + 1 == count, granule,
              c_.epoch);
  }
  bool take(uint32_t from, uint32_t step, uint64_t g, Granule& granule) {
    return Wire::take(in_area(c_.rank, Wire::slots(c_.areas[c_.rank], step, from, c_.size)), g, granule,
                      c_.epoch);
  }
  bool reduce(uint32_t ranks, uint64_t g, Granule& reduced) {
    Granule terms[Collective::kRanks];
    int count = 0;
    for (uint32_t rank = 0; rank < c_.size; ++rank)
      if (member(ranks, rank) && !take(rank, 0, g, terms[count++])) return false;
    reduced = count == 1 ? terms[0] : fold(c_.reduction, count, [&](int i) { return terms[i]; });
    return true;
  }

  void push_messages() {
    for (uint32_t to = 0; to < c_.size; ++to)
      for (uint64_t g = 0; g < granules(c_.send[to].bytes); ++g)
        put(to, 0, g, granules(c_.send[to].bytes),
            load(c_.send[to].address + 16 * g, valid(c_.send[to].bytes, g)));
  }
  void push_parts() {
    if (!member(c_.sources, c_.rank)) return;
    for (uint32_t to = 0; to < c_.size; ++to) {
      const Range whole = part(c_, to);
      for (uint64_t g = 0; g < whole.count; ++g)
        put(to, 0, g, whole.count,
            load(c_.send[0].address + 16 * (whole.first + g), valid(c_.send[0].bytes, whole.first + g)));
    }
  }
  bool take_messages() {
    bool all = true;
    for (uint32_t from = 0; from < c_.size; ++from) {
      const Collective::Message& message = c_.recv[from];
      Granule granule;
      for (uint64_t& g = taken_[from]; g < granules(message.bytes) && take(from, 0, g, granule); ++g) {
        store(message.address + 16 * g, granule, valid(message.bytes, g));
        moved_ = true;
      }
      all = all && taken_[from] == granules(message.bytes);
    }
    return all;
  }
  bool reduce_messages() {
    const Collective::Message out = result();
    Granule granule;
    for (; reduced_ < granules(out.bytes) && reduce(sources(), reduced_, granule); ++reduced_) {
      store(out.address + 16 * reduced_, granule, valid(out.bytes, reduced_));
      moved_ = true;
    }
    return reduced_ == granules(out.bytes);
  }
  bool reduce_part() {
    Granule granule;
    const uint64_t count = part(c_, c_.rank).count;
    for (; reduced_ < count; ++reduced_) {
      if (c_.launch != 0 && take(c_.rank, 1, reduced_, granule)) continue;
      if (!reduce(c_.sources, reduced_, granule)) return false;
      for (uint32_t to = 0; to < c_.size; ++to)
        if (to != c_.rank && member(c_.targets, to)) put(to, 1, reduced_, count, granule);
      put(c_.rank, 1, reduced_, count, granule);
      moved_ = true;
    }
    return true;
  }
  bool take_parts() {
    bool all = true;
    for (uint32_t from = 0; from < c_.size && member(c_.targets, c_.rank); ++from) {
      const Range whole = part(c_, from);
      Granule granule;
      for (uint64_t& g = taken_[from]; g < whole.count && take(from, 1, g, granule); ++g) {
        const uint64_t place = whole.first + g;
        store(c_.recv[0].address + 16 * place, granule, valid(c_.send[0].bytes, place));
        moved_ = true;
      }
      all = all && taken_[from] == whole.count;
    }
    return all;
  }

  bool pushed_ = false;
  uint64_t reduced_ = 0, taken_[Collective::kRanks] = {};
};

class Blocks : public CollectiveKernel {
 public:
  Blocks(ContextObject& context, void** parameters)
      : CollectiveKernel(context, parameters), blocks_(c_.blocks), places_(blocks_) {}

 private:
  Collective::Places* places() {
    return reinterpret_cast<Collective::Places*>(at(c_.places, sizeof(Collective::Places)));
  }
  bool step() override {
    if (!begun_) {
      if (const Collective::Places* saved = c_.launch != 0 ? places() : nullptr; saved != nullptr)
        std::copy_n(saved->blocks, blocks_, places_.begin());
      for (uint32_t block = 0; c_.launch == 0 && c_.rounds != 0 && block < blocks_; ++block) send(block, 0);
      begun_ = true;
    }
    bool all = true;
    for (uint32_t block = 0; block < blocks_ && !failed_; ++block) all = run(block) && all;
    return all && !failed_;
  }
  bool leave(bool) override {
    Collective::Places* saved = places();
    if (saved != nullptr) std::copy_n(places_.begin(), blocks_, saved->blocks);
    return saved != nullptr;
  }

  /// One block, as far as it comes.
  bool run(uint32_t block) {
    uint64_t& place = places_[block];
    while (place != Collective::kEnded && !failed_) {
      const auto round = static_cast<uint32_t>(place / 2);
      if (round == c_.rounds) {
        place = Collective::kEnded;
        break;
      }
      if (place % 2 == 0) {
        if (!arrived(0, block, round)) return false;
        receive(block, round);
        if (round + 1 < c_.rounds) send(block, round + 1);
        ++place;
      }
      if (c_.form == Collective::two_shot) {
        if (!arrived(1, block, round)) return false;
        collect(block, round);
      }
      ++place;
      moved_ = true;
    }
    return !failed_;
  }

  char* slot(uint32_t in, uint32_t step, uint32_t block, uint32_t round, uint32_t source) {
    return in_area(in, Area::piece(c_, in, step, round & 1, block, source));
  }
  void signal(uint32_t step, uint32_t block, uint32_t round) {
    for (uint32_t to = 0; to < c_.size; ++to)
      if (to != c_.rank)
        __atomic_store_n(reinterpret_cast<uint64_t*>(
                             in_area(to, Area::flag(c_.areas[to], step, round & 1, block, c_.rank))),
                         mark(c_, round), __ATOMIC_RELEASE);
  }
  bool arrived(uint32_t step, uint32_t block, uint32_t round) {
    for (uint32_t from = 0; from < c_.size; ++from) {
      if (from == c_.rank) continue;
      const auto* flag = reinterpret_cast<const uint64_t*>(
          in_area(c_.rank, Area::flag(c_.areas[c_.rank], step, round & 1, block, from)));
      if (__atomic_load_n(flag, __ATOMIC_ACQUIRE) < mark(c_, round)) return false;
    }
    return true;
  }
  void copy(char* to, uint64_t from, uint64_t bytes) {
    if (const char* data = at(from, bytes); data != nullptr) std::memmove(to, data, bytes);
  }
  void copy_out(uint64_t to, const char* from, uint64_t bytes) {
    if (char* place = at(to, bytes); place != nullptr) std::memmove(place, from, bytes);
  }

  void send(uint32_t block, uint32_t round) {
    for (uint32_t to = 0; to < c_.size; ++to) {
      if (to == c_.rank) continue;
      if (c_.form == Collective::two_shot) {
        const Range r = piece_of_part(c_, to, round, block, blocks_);
        if (member(c_.sources, c_.rank))
          copy(slot(to, 0, block, round, c_.rank), c_.send[0].address + r.first, r.count);
      } else {
        const Range r = piece(c_, c_.send[to].bytes, round, block, blocks_);
        copy(slot(to, 0, block, round, c_.rank), c_.send[to].address + r.first, r.count);
      }
    }
    signal(0, block, round);
    if (c_.form != Collective::exchange) return;
    const Range own = piece(c_, c_.send[c_.rank].bytes, round, block, blocks_);
    if (const char* from = at(c_.send[c_.rank].address + own.first, own.count); from != nullptr)
      copy_out(c_.recv[c_.rank].address + own.first, from, own.count);
  }
  void receive(uint32_t block, uint32_t round) {
    if (c_.form == Collective::exchange) {
      for (uint32_t from = 0; from < c_.size; ++from) {
        if (from == c_.rank) continue;
        const Range r = piece(c_, c_.recv[from].bytes, round, block, blocks_);
        copy_out(c_.recv[from].address + r.first, slot(c_.rank, 0, block, round, from), r.count);
      }
    } else if (c_.form == Collective::reduce) {
      const Collective::Message out = result();
      const Range r = piece(c_, out.bytes, round, block, blocks_);
      reduce(block, round, sources(), 0, out.address + r.first, c_.send[c_.rank].address + r.first, r.count);
    } else {
      const Range r = piece_of_part(c_, c_.rank, round, block, blocks_);
      reduce(block, round, c_.sources, c_.targets, c_.recv[0].address + r.first, c_.send[0].address + r.first,
             r.count);
      signal(1, block, round);
    }
  }
  void reduce(uint32_t block, uint32_t round, uint32_t ranks, uint32_t targets, uint64_t out, uint64_t own,
              uint64_t bytes) {
    for (uint64_t g = 0; g < granules(bytes) && !failed_; ++g) {
      Granule terms[Collective::kRanks];
      int count = 0;
      for (uint32_t rank = 0; rank < c_.size; ++rank) {
        if (!member(ranks, rank)) continue;
        if (rank == c_.rank)
          terms[count++] = load(own + 16 * g, valid(bytes, g));
        else
          std::memcpy(&terms[count++], slot(c_.rank, 0, block, round, rank) + 16 * g, 16);
      }
      const Granule reduced =
          count == 1 ? terms[0] : fold(c_.reduction, count, [&](int i) { return terms[i]; });
      for (uint32_t to = 0; to < c_.size; ++to)
        if (to != c_.rank && member(targets, to))
          std::memcpy(slot(to, 1, block, round, c_.rank) + 16 * g, &reduced, 16);
      if (targets == 0 || member(targets, c_.rank)) store(out + 16 * g, reduced, valid(bytes, g));
    }
  }
  void collect(uint32_t block, uint32_t round) {
    for (uint32_t from = 0; from < c_.size && member(c_.targets, c_.rank); ++from) {
      if (from == c_.rank) continue;
      const Range r = piece_of_part(c_, from, round, block, blocks_);
      copy_out(c_.recv[0].address + r.first, slot(c_.rank, 1, block, round, from), r.count);
    }
  }

  const uint32_t blocks_;
  bool begun_ = false;
  std::vector<uint64_t> places_;
};

/// A call whose epoch, set and credits come from the area; it waits as long as it takes.
template <class Wire, bool pieces>
class InStream final : public Wire {
 public:
  InStream(ContextObject& context, void** parameters) : Wire(context, parameters) {
    std::memcpy(&s_, parameters[0], sizeof s_);
  }
  [[nodiscard]] std::unique_ptr<Kernel> again() const override { return std::make_unique<InStream>(*this); }

 private:
  StreamControl* control(uint32_t rank) {
    return reinterpret_cast<StreamControl*>(this->at(s_.control[rank], sizeof(StreamControl)));
  }
  bool enter() override {
    Collective& c = this->c_;
    StreamControl* own = control(c.rank);
    if (own == nullptr) return false;
    number_ = own->calls + 1;
    const uint64_t needed = StreamCollective::needed(*own, number_, pieces);
    for (uint32_t rank = 0; rank < c.size; ++rank)
      if (rank != c.rank && own->floor < needed &&
          __atomic_load_n(&own->finished[rank], __ATOMIC_ACQUIRE) < needed)
        return false;
    for (uint32_t rank = 0; rank < c.size && !pieces; ++rank)
      c.areas[rank] += StreamCollective::set_offset(c.size, number_);
    c.epoch = pieces ? static_cast<uint32_t>(number_) : StreamCollective::epoch(number_);
    c.epoch_high = static_cast<uint32_t>(number_ >> 32);
    c.patience = UINT64_MAX;
    c.launch = 0;
    return true;
  }
  bool leaves() override { return false; }
  bool leave(bool) override { return true; }
  bool tell(bool) override {
    const Collective& c = this->c_;
    StreamControl* own = control(c.rank);
    if (own == nullptr) return false;
    for (uint32_t rank = 0; rank < c.size && (pieces || s_.dependent == 0); ++rank) {
      StreamControl* peer = rank == c.rank ? nullptr : control(rank);
      if (peer != nullptr) __atomic_store_n(&peer->finished[c.rank], number_, __ATOMIC_RELEASE);
    }
    own->calls = number_;
    (pieces ? own->last_pieces : own->last_use[number_ % 2]) = number_;
    if (s_.dependent != 0) own->floor = number_ - 1;
    return !this->failed_;
  }

  StreamCollective s_{};
  uint64_t number_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> create_collective_packets(ContextObject& context, void** parameters) {
  return std::make_unique<Flagged<Packets>>(context, parameters);
}
std::unique_ptr<Kernel> create_collective_lines(ContextObject& context, void** parameters) {
  ++world().line_collectives;
  return std::make_unique<Flagged<Lines>>(context, parameters);
}
std::unique_ptr<Kernel> create_collective_blocks(ContextObject& context, void** parameters) {
  return std::make_unique<Blocks>(context, parameters);
}
std::unique_ptr<Kernel> create_stream_packets(ContextObject& context, void** parameters) {
  return std::make_unique<InStream<Flagged<Packets>, false>>(context, parameters);
}
std::unique_ptr<Kernel> create_stream_blocks(ContextObject& context, void** parameters) {
  return std::make_unique<InStream<Blocks, true>>(context, parameters);
}

std::unique_ptr<Kernel> create_call(ContextObject& context, uint64_t homes, const uint32_t* words) {
  const CallWord word = CallWord::unpacked(words[Command::items]);
  const char* home = reach_from(context, homes + word.port * sizeof(Collective), sizeof(Collective));
  if (homes == 0 || home == nullptr) return nullptr;
  Collective call;
  std::memcpy(&call, home, sizeof call);
  const auto address = [&](size_t low) { return uint64_t{words[low + 1]} << 32 | words[low]; };
  const CallWord::Bytes bytes{words[Command::bytes]};
  const Regular regular{word.shape,    word.root,     address(Command::src_low), address(Command::dst_low),
                        bytes.count(), word.reduction};
  for (uint32_t rank = 0; rank < call.size; ++rank) regular.messages(call, rank);
  call.epoch = words[Command::epoch];
  call.reduction = word.reduction;
  // Calls of a granule are done by one warp, which knows packets, and no parts.
  if (bytes.count() <= sizeof(Granule) && call.form == Collective::two_shot) return nullptr;
  void* parameters[] = {&call};
  return bytes.lines() ? create_collective_lines(context, parameters)
                       : create_collective_packets(context, parameters);
}

}  // namespace emucuda
