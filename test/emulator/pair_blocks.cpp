// SPDX-License-Identifier: BSD-3-Clause
// Exchanges of blocks by pairs of ranks on the emulated GPU, by the contract of
// device/kernel/pair_blocks.hpp. The thread blocks advance in turn, each as far as it can.
#include "device/kernel/pair_blocks.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "device/kernel/stream_beat.hpp"
#include "enqueue_memory.hpp"
#include "simple_kernel.hpp"

namespace emucuda {
namespace {

using namespace weft::device::kernel;

class PairKernel : public Kernel {
 protected:
  PairKernel(ContextObject& context, void** parameters) : context_(context) {
    std::memcpy(&s_, parameters[0], sizeof s_);
    ++world().block_collectives;
  }

  /// A thread block of a pair, or of none.
  struct Part {
    uint32_t peer, k;
    PairSplit split;
    bool ended = false, sent = false;
    uint32_t round = 0;
  };
  void begin(const PairCall& call) {
    call_ = call;
    for (uint32_t peer = 0; peer < s_.size; ++peer) {
      const PairSplit split = s_.split(peer);
      for (uint32_t k = 0; k < split.blocks; ++k) parts_.push_back({peer, k, split});
    }
  }
  /// Returns whether all thread blocks have ended.
  bool advance() {
    bool over = true;
    for (Part& part : parts_) over = (part.ended || advance(part)) && over;
    return over;
  }

 private:
  /// Returns whether the thread block has ended.
  bool advance(Part& part) {
    if (part.peer == s_.rank)
      copy_own(part);
    else if (!(part.split.chunk_bytes != 0 ? exchange_chunks(part) : exchange_packets(part)))
      return false;
    progressed_ = part.ended = true;
    return true;
  }

  /// Calls function(memory, n) for the contiguous parts of bytes [from, from + bytes) of block i.
  template <class Function>
  void for_memory(uint32_t i, uint64_t from, uint64_t bytes, Function&& function) {
    const enqueue::Runs runs = s_.runs(i);
    for (uint64_t done = 0; done < bytes && !failed_;) {
      const uint64_t word = (from + done) / runs.word, in_word = (from + done) % runs.word;
      const uint64_t n = std::min(runs.word - in_word, bytes - done);
      const auto displacement = enqueue::displacement_of(runs, static_cast<uint32_t>(word));
      const uint64_t address = s_.blocks[i].address + static_cast<uint64_t>(displacement);
      if (address % runs.word != 0) failed_ = true;
      if (char* memory = at<char>(address + in_word, n); memory != nullptr) function(memory, n);
      done += n;
    }
  }
  /// Copies the bytes of range `r` of the message in list `list` from its blocks to `packed`, or back.
  void copy(const Part& part, const uint8_t* list, const Range& r, char* packed, bool packs) {
    uint64_t first = 0;
    for (uint32_t i = list[part.peer]; i < list[part.peer + 1]; ++i) {
      const uint64_t begin = std::max(first, r.first), end = std::min(first + s_.bytes(i), r.first + r.count);
      if (begin < end) {
        char* other = packed + (begin - r.first);
        for_memory(i, begin - first, end - begin, [&](char* memory, uint64_t n) {
          packs ? std::memcpy(other, memory, n) : std::memcpy(memory, other, n);
          other += n;
        });
      }
      first = s_.behind(first, i);
    }
  }
  [[nodiscard]] uint64_t bytes_of(const Part& part, const uint8_t* list) const {
    return s_.message_bytes(list, part.peer);
  }
  /// The bytes of a message that this thread block moves in LL packets.
  [[nodiscard]] Range packets_of(const Part& part, const uint8_t* list) const {
    const uint64_t bytes = bytes_of(part, list);
    const Range packets = share((bytes + 7) / 8, part.k, part.split.blocks);
    return within(8 * packets.first, 8 * packets.count, bytes);
  }

  bool exchange_packets(Part& part) {
    const uint32_t flag = call_.flag;
    if (!part.sent) {
      const Range r = packets_of(part, s_.from);
      std::vector<char> data(r.count + 8);
      copy(part, s_.from, r, data.data(), true);
      auto* const packets =
          at<LLPacket>(s_.packets(part.peer, s_.rank, call_) + 2 * r.first, r.count / 8 + 1);
      for (uint64_t i = 0; 8 * i < r.count && packets != nullptr; ++i) {
        uint64_t word;
        std::memcpy(&word, &data[8 * i], sizeof word);
        require_older(__atomic_load_n(&packets[i].low_flag, __ATOMIC_RELAXED) != flag);
        EnqueueMemory::put(reinterpret_cast<enqueue::LLPacket*>(packets + i), flag, word);
      }
      part.sent = progressed_ = true;
    }
    const Range r = packets_of(part, s_.to);
    const auto* const packets =
        at<LLPacket>(s_.packets(s_.rank, part.peer, call_) + 2 * r.first, r.count / 8 + 1);
    std::vector<char> data(r.count + 8);
    for (uint64_t i = 0; 8 * i < r.count && packets != nullptr; ++i) {
      uint64_t word;
      if (!EnqueueMemory::get(reinterpret_cast<const enqueue::LLPacket*>(packets + i), flag, word))
        return false;
      std::memcpy(&data[8 * i], &word, sizeof word);
    }
    copy(part, s_.to, r, data.data(), false);
    return !failed_;
  }

  bool exchange_chunks(Part& part) {
    const uint64_t longest = std::max(bytes_of(part, s_.from), bytes_of(part, s_.to));
    for (; PairBlocks::chunk(part.split, longest, part.round, 0).count != 0 && !failed_;
         ++part.round, part.sent = false) {
      const uint64_t mark = PairBlocks::mark(call_, part.round);
      if (!part.sent) {
        const Range r = chunk_of(part, s_.from);
        if (char* slot = at<char>(s_.slot(part.peer, s_.rank, part.round, part.k), r.count); slot != nullptr)
          copy(part, s_.from, r, slot, true);
        auto* const flag = at<uint64_t>(s_.flag(part.peer, s_.rank, part.round, part.k), 1);
        if (flag == nullptr) return false;
        require_older(__atomic_load_n(flag, __ATOMIC_RELAXED) < mark);
        __atomic_store_n(flag, mark, __ATOMIC_RELEASE);
        part.sent = progressed_ = true;
      }
      const auto* const flag = at<uint64_t>(s_.flag(s_.rank, part.peer, part.round, part.k), 1);
      if (flag == nullptr || __atomic_load_n(flag, __ATOMIC_ACQUIRE) < mark) return false;
      const Range r = chunk_of(part, s_.to);
      if (char* slot = at<char>(s_.slot(s_.rank, part.peer, part.round, part.k), r.count); slot != nullptr)
        copy(part, s_.to, r, slot, false);
    }
    return !failed_;
  }
  [[nodiscard]] Range chunk_of(const Part& part, const uint8_t* list) const {
    return PairBlocks::chunk(part.split, bytes_of(part, list), part.round, part.k);
  }

  void copy_own(const Part& part) {
    const uint32_t skipped = s_.to[part.peer] - s_.from[part.peer];
    for (uint32_t i = s_.from[part.peer]; i < s_.from[part.peer + 1]; ++i) {
      if (s_.bytes(i) != s_.bytes(i + skipped) || s_.form[i].word != s_.form[i + skipped].word)
        abort_weft("broken rule", "the blocks of a message differ between its sides");
      const Range mine = share(s_.blocks[i].words, part.k, part.split.blocks);
      const uint64_t from = mine.first * s_.form[i].word;
      std::vector<char> data(mine.count * s_.form[i].word);
      size_t done = 0;
      for_memory(i, from, data.size(), [&](const char* memory, uint64_t n) {
        std::memcpy(data.data() + done, memory, n);
        done += n;
      });
      done = 0;
      for_memory(i + skipped, from, data.size(), [&](char* memory, uint64_t n) {
        std::memcpy(memory, data.data() + done, n);
        done += n;
      });
    }
  }

 protected:
  template <class T>
  T* at(uint64_t address, uint64_t count) {
    static T none;
    if (count == 0) return &none;
    char* const here = translate_for(context_, address, count * sizeof(T));
    failed_ = failed_ || here == nullptr;
    return reinterpret_cast<T*>(here);
  }

  ContextObject& context_;
  PairBlocks s_;
  std::vector<Part> parts_;
  PairCall call_{};
  bool entered_ = false, failed_ = false, progressed_ = false;
};

/// Of a call that all ranks have entered, which exits on a timeout.
class EnteredPairs final : public PairKernel {
 public:
  EnteredPairs(ContextObject& context, void** parameters) : PairKernel(context, parameters) {
    ++world().pair_collectives;
  }
  Turn turn(uint64_t time) override {
    failed_ = progressed_ = false;
    if (!entered_) {
      begin(PairCall::entered(s_.epoch));
      resume();
      last_progress_ = time;
    }
    entered_ = true;
    const bool over = !failed_ && advance();
    if (failed_) return Turn::illegal_address;
    if (progressed_) last_progress_ = time;
    if (!over && time - last_progress_ <= s_.timeout_ns && !exits_at_random())
      return progressed_ ? Turn::worked : Turn::idle;
    ++(over ? world().collectives : world().timed_out_collectives);
    return end(over) ? Turn::ended : Turn::illegal_address;
  }

 private:
  void resume() {
    const auto* const saved = s_.launch != 0 ? at<Collective::ResumeState>(s_.resume_state, 1) : nullptr;
    for (size_t i = 0; i < parts_.size() && saved != nullptr; ++i) {
      parts_[i].ended = saved->blocks[i] == Collective::kEnded;
      parts_[i].round = static_cast<uint32_t>(saved->blocks[i]);
      parts_[i].sent = true;
    }
  }
  bool end(bool over) {
    auto* const saved = at<Collective::ResumeState>(s_.resume_state, 1);
    auto* const status = at<uint64_t>(s_.status, 1);
    if (saved == nullptr || status == nullptr) return false;
    for (size_t i = 0; i < parts_.size(); ++i)
      saved->blocks[i] = parts_[i].ended ? Collective::kEnded : parts_[i].round;
    __atomic_store_n(status, Collective::outcome(s_.epoch, s_.launch, !over), __ATOMIC_RELEASE);
    return true;
  }

  uint64_t last_progress_ = 0;
};

/// Of an enqueued call.
class EnqueuedPairs final : public PairKernel {
 public:
  EnqueuedPairs(ContextObject& context, void** parameters) : PairKernel(context, parameters) {}
  [[nodiscard]] std::unique_ptr<Kernel> clone() const override {
    return std::make_unique<EnqueuedPairs>(*this);
  }
  Turn turn(uint64_t) override {
    failed_ = progressed_ = false;
    const bool leaves = cancelled();
    if (!entered_ && !leaves && !enter()) return failed_ ? Turn::illegal_address : Turn::idle;
    entered_ = true;
    const bool over = advance();
    if (failed_) return Turn::illegal_address;
    if (!over && !leaves) return progressed_ ? Turn::worked : Turn::idle;
    return finish() ? Turn::ended : Turn::illegal_address;
  }

 private:
  bool enter() {
    StreamControl* const own = at<StreamControl>(s_.control(s_.rank), 1);
    if (own == nullptr) return false;
    const uint64_t number = own->calls + 1, needed = s_.needed(*own, number);
    for (uint32_t peer = 0; peer < s_.size; ++peer)
      if (peer != s_.rank && own->floor < needed &&
          __atomic_load_n(&own->finished[peer], __ATOMIC_ACQUIRE) < needed)
        return false;
    begin(PairCall::enqueued(s_.size, number));
    return true;
  }
  /// Returns whether the call is cancelled. Writes the beat.
  bool cancelled() {
    auto* const beat = at<uint64_t>(s_.status, 1);
    if (beat != nullptr)
      __atomic_store_n(beat, StreamBeat{s_.status, s_.launch}.value(++turns_), __ATOMIC_RELAXED);
    const auto* const word = at<uint32_t>(s_.timeout_ns & ~Collective::kCancelWord, 1);
    return word != nullptr && __atomic_load_n(word, __ATOMIC_ACQUIRE) != 0;
  }
  bool finish() {
    StreamControl* const own = at<StreamControl>(s_.control(s_.rank), 1);
    for (uint32_t peer = 0; peer < s_.size; ++peer) {
      StreamControl* const there = peer == s_.rank ? nullptr : at<StreamControl>(s_.control(peer), 1);
      if (there != nullptr) __atomic_store_n(&there->finished[s_.rank], call_.number, __ATOMIC_RELEASE);
    }
    if (own == nullptr || failed_) return false;
    own->calls = call_.number;
    if (s_.ll) own->last_use[call_.number % 2] = call_.number;
    if (s_.simple) own->last_simple = call_.number;
    return true;
  }

  uint64_t turns_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> create_pairs(ContextObject& context, void** parameters) {
  PairBlocks call;
  std::memcpy(&call, parameters[0], sizeof call);
  if (call.enqueued()) return std::make_unique<EnqueuedPairs>(context, parameters);
  return std::make_unique<EnteredPairs>(context, parameters);
}

}  // namespace emucuda
