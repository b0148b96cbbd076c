// SPDX-License-Identifier: BSD-3-Clause
// The collective kernels of the emulated GPU, by the contract of device/kernel/collective.hpp: the first turn
// pushes, later turns receive what has arrived, until the call completes or times out.
#include "device/kernel/collective.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "device/kernel/copy.hpp"
#include "device/kernel/stream_beat.hpp"
#include "simple_kernel.hpp"

namespace emucuda {
namespace {

using namespace weft::device::kernel;

/// LL: a vector as two packets.
class ProtoLL {
 public:
  static uint64_t slots(uint64_t area, uint32_t step, uint32_t source, uint32_t size) {
    return RegionLayout::ll_packets(area, step, source, size);
  }
  static void put(char* slots, uint64_t g, bool, const Vec16& vec, uint32_t flag) {
    auto* words = reinterpret_cast<uint64_t*>(slots + 32 * g);
    require_older(__atomic_load_n(words, __ATOMIC_RELAXED) >> 32 != flag);
    for (int i = 0; i < 4; ++i)
      __atomic_store_n(words + i, uint64_t{flag} << 32 | vec.words[i], __ATOMIC_RELEASE);
  }
  static bool receive(const char* slots, uint64_t g, Vec16& vec, uint32_t flag) {
    const auto* words = reinterpret_cast<const uint64_t*>(slots + 32 * g);
    for (int i = 0; i < 4; ++i) {
      const uint64_t word = __atomic_load_n(words + i, __ATOMIC_ACQUIRE);
      if (word >> 32 != flag) return false;
      vec.words[i] = static_cast<uint32_t>(word);
    }
    return true;
  }
};

/// LL128: the flag of a line is set with its last vector.
class ProtoLL128 {
 public:
  static uint64_t slots(uint64_t area, uint32_t step, uint32_t source, uint32_t size) {
    return RegionLayout::ll128_lines(area, step, source, size);
  }
  static void put(char* slots, uint64_t g, bool last, const Vec16& vec, uint32_t flag) {
    LL128Line& line = reinterpret_cast<LL128Line*>(slots)[g / LL128Line::kVectors];
    require_older(__atomic_load_n(&line.flag, __ATOMIC_RELAXED) != flag);
    line.data[g % LL128Line::kVectors] = vec;
    if (last || g % LL128Line::kVectors == LL128Line::kVectors - 1)
      __atomic_store_n(&line.flag, flag, __ATOMIC_RELEASE);
  }
  static bool receive(const char* slots, uint64_t g, Vec16& vec, uint32_t flag) {
    const LL128Line& line = reinterpret_cast<const LL128Line*>(slots)[g / LL128Line::kVectors];
    if (__atomic_load_n(&line.flag, __ATOMIC_ACQUIRE) != flag) return false;
    vec = line.data[g % LL128Line::kVectors];
    return true;
  }
};

template <class Protocol>
class LLKernel : public CollectiveKernel {
 public:
  using CollectiveKernel::CollectiveKernel;

 private:
  bool step() override {
    if (!sent_ && c_.launch == 0) c_.form == Collective::two_shot ? push_parts() : push_messages();
    sent_ = true;
    if (failed_) return false;
    if (c_.form == Collective::exchange) return receive_messages();
    if (c_.form == Collective::reduce) return reduce_messages();
    return reduce_part() && receive_parts();
  }

  void put(uint32_t to, uint32_t step, uint64_t g, uint64_t count, const Vec16& vec) {
    Protocol::put(in_region(to, Protocol::slots(c_.regions[to], step, c_.rank, c_.size)), g, g + 1 == count,
                  vec, c_.epoch);
  }
  bool receive(uint32_t from, uint32_t step, uint64_t g, Vec16& vec) {
    return Protocol::receive(in_region(c_.rank, Protocol::slots(c_.regions[c_.rank], step, from, c_.size)), g,
                             vec, c_.epoch);
  }
  bool reduce(uint32_t ranks, uint64_t g, Vec16& reduced) {
    Vec16 terms[Collective::kRanks];
    int count = 0;
    for (uint32_t rank = 0; rank < c_.size; ++rank)
      if (member(ranks, rank) && !receive(rank, 0, g, terms[count++])) return false;
    reduced = count == 1 ? terms[0] : fold(c_.reduction, count, [&](int i) { return terms[i]; });
    return true;
  }

  void push_messages() {
    for (uint32_t to = 0; to < c_.size; ++to)
      for (uint64_t g = 0; g < vec16_count(c_.send[to].bytes); ++g)
        put(to, 0, g, vec16_count(c_.send[to].bytes),
            load(c_.send[to].address + 16 * g, valid_bytes(c_.send[to].bytes, g)));
  }
  void push_parts() {
    if (!member(c_.sources, c_.rank)) return;
    for (uint32_t to = 0; to < c_.size; ++to) {
      const Range whole = part(c_, to);
      for (uint64_t g = 0; g < whole.count; ++g)
        put(to, 0, g, whole.count,
            load(c_.send[0].address + 16 * (whole.first + g),
                 valid_bytes(c_.send[0].bytes, whole.first + g)));
    }
  }
  bool receive_messages() {
    bool all = true;
    for (uint32_t from = 0; from < c_.size; ++from) {
      const Collective::Message& message = c_.recv[from];
      Vec16 vec;
      for (uint64_t& g = received_[from]; g < vec16_count(message.bytes) && receive(from, 0, g, vec); ++g) {
        store(message.address + 16 * g, vec, valid_bytes(message.bytes, g));
        progressed_ = true;
      }
      all = all && received_[from] == vec16_count(message.bytes);
    }
    return all;
  }
  bool reduce_messages() {
    const Collective::Message out = result();
    Vec16 vec;
    for (; reduced_ < vec16_count(out.bytes) && reduce(sources(), reduced_, vec); ++reduced_) {
      store(out.address + 16 * reduced_, vec, valid_bytes(out.bytes, reduced_));
      progressed_ = true;
    }
    return reduced_ == vec16_count(out.bytes);
  }
  bool reduce_part() {
    Vec16 vec;
    const uint64_t count = part(c_, c_.rank).count;
    for (; reduced_ < count; ++reduced_) {
      if (c_.launch != 0 && receive(c_.rank, 1, reduced_, vec)) continue;
      if (!reduce(c_.sources, reduced_, vec)) return false;
      for (uint32_t to = 0; to < c_.size; ++to)
        if (to != c_.rank && member(c_.targets, to)) put(to, 1, reduced_, count, vec);
      put(c_.rank, 1, reduced_, count, vec);
      progressed_ = true;
    }
    return true;
  }
  bool receive_parts() {
    bool all = true;
    for (uint32_t from = 0; from < c_.size && member(c_.targets, c_.rank); ++from) {
      const Range whole = part(c_, from);
      Vec16 vec;
      for (uint64_t& g = received_[from]; g < whole.count && receive(from, 1, g, vec); ++g) {
        const uint64_t resume = whole.first + g;
        store(c_.recv[0].address + 16 * resume, vec, valid_bytes(c_.send[0].bytes, resume));
        progressed_ = true;
      }
      all = all && received_[from] == whole.count;
    }
    return all;
  }

  bool sent_ = false;
  uint64_t reduced_ = 0, received_[Collective::kRanks] = {};
};

/// An enqueued call, whose epoch, LL set and credits come from StreamControl; no timeout, but a cancel word.
template <class Protocol, bool chunks>
class StreamKernel final : public Protocol {
 public:
  StreamKernel(ContextObject& context, void** parameters) : Protocol(context, parameters) {
    std::memcpy(&s_, parameters[0], sizeof s_);
  }
  [[nodiscard]] std::unique_ptr<Kernel> clone() const override {
    return std::make_unique<StreamKernel>(*this);
  }

 private:
  StreamControl* control(uint32_t rank) {
    return reinterpret_cast<StreamControl*>(this->at(s_.control[rank], sizeof(StreamControl)));
  }
  bool enter() override {
    Collective& c = this->c_;
    StreamControl* own = control(c.rank);
    if (own == nullptr) return false;
    number_ = own->calls + 1;
    const uint64_t needed = StreamCollective::needed(*own, number_, chunks);
    for (uint32_t rank = 0; rank < c.size; ++rank)
      if (rank != c.rank && own->floor < needed &&
          __atomic_load_n(&own->finished[rank], __ATOMIC_ACQUIRE) < needed)
        if (!cancelled()) return false;
    for (uint32_t rank = 0; rank < c.size && !chunks; ++rank)
      c.regions[rank] += StreamCollective::set_offset(c.size, number_);
    c.epoch = chunks ? static_cast<uint32_t>(number_) : StreamCollective::epoch(number_);
    c.epoch_high = static_cast<uint32_t>(number_ >> 32);
    c.timeout_ns = UINT64_MAX;
    c.launch = 0;
    return true;
  }
  /// Returns whether the call is cancelled. Called while it waits: writes the beat.
  bool cancelled() {
    const StreamBeat beat = StreamBeat::of(s_.call);
    auto* beat_word = reinterpret_cast<uint64_t*>(this->at(beat.address, sizeof(uint64_t)));
    if (beat_word != nullptr) __atomic_store_n(beat_word, beat.value(++turns_), __ATOMIC_RELAXED);
    const auto* word = reinterpret_cast<const uint32_t*>(this->at(s_.cancel, sizeof(uint32_t)));
    return word != nullptr && __atomic_load_n(word, __ATOMIC_ACQUIRE) != 0;
  }
  bool exits_early() override { return cancelled(); }
  bool save_state(bool) override { return true; }
  bool publish_end(bool) override {
    const Collective& c = this->c_;
    StreamControl* own = control(c.rank);
    if (own == nullptr) return false;
    for (uint32_t rank = 0; rank < c.size && (chunks || s_.synchronizing == 0); ++rank) {
      StreamControl* peer = rank == c.rank ? nullptr : control(rank);
      if (peer != nullptr) __atomic_store_n(&peer->finished[c.rank], number_, __ATOMIC_RELEASE);
    }
    own->calls = number_;
    (chunks ? own->last_simple : own->last_use[number_ % 2]) = number_;
    if (s_.synchronizing != 0) own->floor = number_ - 1;
    return !this->failed_;
  }

  StreamCollective s_{};
  uint64_t number_ = 0;
  uint64_t turns_ = 0;  // while it waits
};

}  // namespace

std::unique_ptr<Kernel> create_collective_ll(ContextObject& context, void** parameters) {
  return std::make_unique<LLKernel<ProtoLL>>(context, parameters);
}
std::unique_ptr<Kernel> create_collective_ll128(ContextObject& context, void** parameters) {
  ++world().ll128_collectives;
  return std::make_unique<LLKernel<ProtoLL128>>(context, parameters);
}
std::unique_ptr<Kernel> create_collective_simple(ContextObject& context, void** parameters) {
  return std::make_unique<SimpleKernel>(context, parameters);
}
std::unique_ptr<Kernel> create_stream_ll(ContextObject& context, void** parameters) {
  return std::make_unique<StreamKernel<LLKernel<ProtoLL>, false>>(context, parameters);
}
std::unique_ptr<Kernel> create_stream_simple(ContextObject& context, void** parameters) {
  return std::make_unique<StreamKernel<SimpleKernel, true>>(context, parameters);
}

std::unique_ptr<Kernel> create_call(ContextObject& context, uint64_t slot_configs, const uint32_t* words) {
  const CallWord word = CallWord::unpacked(words[Command::items]);
  const char* config =
      translate_for(context, slot_configs + word.slot * sizeof(Collective), sizeof(Collective));
  if (slot_configs == 0 || config == nullptr) return nullptr;
  Collective call;
  std::memcpy(&call, config, sizeof call);
  const auto address = [&](size_t low) { return uint64_t{words[low + 1]} << 32 | words[low]; };
  const CallWord::Bytes bytes{words[Command::bytes]};
  const Regular regular{word.shape,    word.root,     address(Command::src_low), address(Command::dst_low),
                        bytes.count(), word.reduction};
  for (uint32_t rank = 0; rank < call.size; ++rank) regular.messages(call, rank);
  call.epoch = words[Command::epoch];
  call.reduction = word.reduction;
  // One warp executes one-vector calls: LL only, without parts.
  if (bytes.count() <= sizeof(Vec16) && call.form == Collective::two_shot) return nullptr;
  void* parameters[] = {&call};
  return bytes.ll128() ? create_collective_ll128(context, parameters)
                       : create_collective_ll(context, parameters);
}

}  // namespace emucuda
