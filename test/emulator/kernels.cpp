// SPDX-License-Identifier: BSD-3-Clause
// The kernels of the emulated GPU: those of Weft, by the contract of device/kernel/copy.hpp, and
// `emucuda_spin(flag, value)`, which runs until the 32-bit word at `flag` has the value.
#include <algorithm>
#include <cstring>

#include "device/kernel/collective.hpp"
#include "device/kernel/copy.hpp"
#include "launch.hpp"
#include "world.hpp"

namespace emucuda {
namespace {

namespace contract = weft::device::kernel;

template <class T>
T parameter(void** parameters, size_t index) {
  T value;
  std::memcpy(&value, parameters[index], sizeof value);
  return value;
}

bool copy(const ContextObject& context, uint64_t dst, uint64_t src, uint64_t bytes) {
  if (bytes == 0) return true;
  char* to = reach_from(context, dst, bytes);
  const char* from = reach_from(context, src, bytes);
  if (to == nullptr || from == nullptr) return false;
  std::memmove(to, from, bytes);
  return true;
}

/// A list by one block, some chunks a turn.
class CopyList : public Kernel {
 public:
  using List = contract::List;
  CopyList(ContextObject& context, void** parameters)
      : context_(context), list_(parameter<List>(parameters, 0)) {}
  [[nodiscard]] std::unique_ptr<Kernel> again() const override { return std::make_unique<CopyList>(*this); }
  Turn turn(uint64_t) override {
    auto* line = map<List::Line>(list_.line);
    auto* memory = map<List::Memory>(list_.memory);
    if (line == nullptr || memory == nullptr || list_.count > List::kMax) return Turn::illegal_address;
    List::Words& words = memory->words[list_.number & 1];
    if (words.next == 0)  // the first turn decides, the second begins
      return enter_launch(list_, *line, *memory) ? Turn::worked : Turn::ended;
    for (uint32_t i = 0; i < kChunksATurn && words.copied < list_.chunks; ++i)
      if (!copy_chunk(list_.chunks - 1 - words.copied++)) return Turn::illegal_address;
    if (words.copied < list_.chunks) return Turn::worked;
    __atomic_store_n(&line->done, list_.number, __ATOMIC_RELEASE);
    ++world().lists;
    return Turn::ended;
  }

 private:
  static constexpr uint32_t kChunksATurn = 16;
  template <class T>
  T* map(uint64_t address) {
    return reinterpret_cast<T*>(reach_from(context_, address, sizeof(T)));
  }

  /// The blocks of a real launch take the chunks in any order: here from the end.
  bool copy_chunk(uint32_t chunk) {
    for (uint32_t i = 0; i < list_.count; ++i) {
      const contract::Item& item = list_.items[i];
      const auto chunks = static_cast<uint32_t>(List::chunks_of(item.bytes, list_.chunk));
      if (chunk >= chunks) {
        chunk -= chunks;
        continue;
      }
      const uint64_t offset = uint64_t{chunk} * list_.chunk;
      return copy(context_, item.dst + offset, item.src + offset,
                  std::min<uint64_t>(list_.chunk, item.bytes - offset));
    }
    return false;
  }

  ContextObject& context_;
  List list_;
};

class Copier : public Kernel {
 public:
  Copier(ContextObject& context, void** parameters)
      : context_(context), p_(parameter<contract::Copier>(parameters, 0)), next_(p_.first) {}
  [[nodiscard]] bool is_copier() const override { return true; }

  Turn turn(uint64_t time) override {
    ring_ = map<contract::Command>(p_.ring, contract::Copier::kSlots);
    status_ = map<uint64_t>(p_.status, 1);
    if (ring_ == nullptr || status_ == nullptr || map<contract::Copier::Memory>(p_.memory, 1) == nullptr)
      return Turn::illegal_address;
    if (begin_ == 0) {
      begin_ = last_ = time;
      publish(p_.generation - 1);
    }
    if (call_ != nullptr) return go_on(time);
    uint32_t words[8];
    const bool taken = take(words);
    const bool over =
        taken ? words[contract::Command::blocks] == 0 : time - begin_ > p_.life || time - last_ > p_.linger;
    if (over || leaves_at_random()) {
      publish(p_.generation);
      return Turn::ended;
    }
    if (!taken) return Turn::idle;
    if ((words[contract::Command::items] & contract::CallWord::kCall) != 0) {
      call_ = create_call(context_, p_.homes, words);
      return call_ != nullptr ? go_on(time) : Turn::illegal_address;
    }
    if (!serve(words)) return Turn::illegal_address;
    return finish(time);
  }

 private:
  /// A collective, which takes several turns.
  Turn go_on(uint64_t time) {
    const Turn turn = call_->turn(time);
    if (turn != Turn::ended) return turn;
    call_.reset();
    ++world().copier_calls;
    return finish(time);
  }
  Turn finish(uint64_t time) {
    ++next_;
    ++world().copier_commands;
    last_ = time;
    publish(p_.generation - 1);
    return Turn::worked;
  }

  template <class T>
  T* map(uint64_t address, size_t count) {
    return reinterpret_cast<T*>(reach_from(context_, address, count * sizeof(T)));
  }

  static uint64_t address(const uint32_t* words, size_t low) {
    return words[low] | uint64_t{words[low + 1]} << 32;
  }

  /// The next command, if its whole line is there.
  bool take(uint32_t* words) {
    const contract::Command& line = ring_[next_ % contract::Copier::kSlots];
    for (size_t i = 0; i < 8; ++i) {
      const uint64_t pair =
          __atomic_load_n(reinterpret_cast<const uint64_t*>(&line.pairs[i]), __ATOMIC_ACQUIRE);
      if (static_cast<uint32_t>(pair >> 32) != next_) return false;
      words[i] = static_cast<uint32_t>(pair);
    }
    return true;
  }

  bool serve(const uint32_t* words) {
    const uint64_t src = address(words, contract::Command::src_low);
    const uint32_t count = words[contract::Command::items];
    if (count == contract::Command::kInline) return store(words);
    if (count == 0)
      return copy(context_, address(words, contract::Command::dst_low), src, words[contract::Command::bytes]);
    const auto* items = map<contract::Item>(src, count);
    if (items == nullptr || count > contract::Copier::kItems) return false;
    for (uint32_t i = count; i-- != 0;)  // the warps of a real one take them in any order
      if (!copy(context_, items[i].dst, items[i].src, items[i].bytes)) return false;
    return true;
  }

  /// The data of the command itself.
  [[nodiscard]] bool store(const uint32_t* words) const {
    const uint32_t bytes = words[contract::Command::bytes];
    if (bytes == 0) return true;
    char* to = reach_from(context_, address(words, contract::Command::dst_low), bytes);
    if (to == nullptr || bytes > contract::Command::kInlineBytes) return false;
    std::memcpy(to, words + contract::Command::src_low, bytes);
    return true;
  }

  void publish(uint32_t gone) {
    const uint64_t word = uint64_t{p_.generation << 16 | (gone & 0xFFFF)} << 32 | (next_ - 1);
    __atomic_store_n(status_, word, __ATOMIC_RELEASE);
  }

  ContextObject& context_;
  const contract::Copier p_;
  contract::Command* ring_ = nullptr;
  uint64_t* status_ = nullptr;
  uint64_t begin_ = 0, last_ = 0;
  uint32_t next_;
  std::unique_ptr<Kernel> call_;  // under way
};

/// A turn of a kernel that ends when the word at `flag` is `value`.
Kernel::Turn until(const ContextObject& context, Address flag, uint32_t value) {
  const char* word = reach_from(context, flag, sizeof(uint32_t));
  if (word == nullptr) return Kernel::Turn::illegal_address;
  const uint32_t seen = __atomic_load_n(reinterpret_cast<const uint32_t*>(word), __ATOMIC_ACQUIRE);
  return seen == value ? Kernel::Turn::ended : Kernel::Turn::idle;
}

class Spin : public Kernel {
 public:
  Spin(ContextObject& context, void** parameters)
      : context_(context),
        flag_(parameter<Address>(parameters, 0)),
        value_(parameter<uint32_t>(parameters, 1)) {}
  [[nodiscard]] std::unique_ptr<Kernel> again() const override { return std::make_unique<Spin>(*this); }
  Turn turn(uint64_t) override { return until(context_, flag_, value_); }

 private:
  ContextObject& context_;
  Address flag_;
  uint32_t value_;
};

/// `weft_bench_work` of bench/interference.cu: so many rounds, then a flag.
class Work : public Kernel {
 public:
  Work(ContextObject& context, void** parameters)
      : context_(context),
        flag_(parameter<Address>(parameters, 0)),
        value_(parameter<uint32_t>(parameters, 1)),
        rounds_(parameter<uint64_t>(parameters, 2)) {}
  Turn turn(uint64_t) override {
    if (rounds_ != 0) return --rounds_, Turn::worked;
    if (flag_ == 0) return Turn::ended;
    return until(context_, flag_, value_);
  }

 private:
  ContextObject& context_;
  Address flag_;
  uint32_t value_;
  uint64_t rounds_;
};

template <class K>
std::unique_ptr<Kernel> create(ContextObject& context, void** parameters) {
  return std::make_unique<K>(context, parameters);
}

}  // namespace

bool leaves_at_random() {
  uint32_t& random = world().random;
  if (random == 0) return false;
  random ^= random << 13;
  random ^= random >> 17;
  random ^= random << 5;
  return random % 16 == 0;
}

const KernelEntry* find_kernel(const char* name) {
  static const KernelEntry entries[] = {{"weft_copy_list", create<CopyList>},
                                        {"weft_copier", create<Copier>},
                                        {"weft_reduce", create_reduce},
                                        {"weft_pack", create_pack},
                                        {"weft_pack_flat", create_pack},
                                        {"weft_pack_tiles", create_pack_tiles},
                                        {"weft_pack_tiles_flat", create_pack_tiles},
                                        {"weft_collective_packets", create_collective_packets},
                                        {"weft_collective_lines", create_collective_lines},
                                        {"weft_collective_blocks", create_collective_blocks},
                                        {"weft_collective_direct", create_collective_direct},
                                        {"weft_collective_stream_packets", create_stream_packets},
                                        {"weft_collective_stream_blocks", create_stream_blocks},
                                        {"weft_enqueue", create_enqueue},
                                        {"weft_enqueue_few", create_enqueue_few},
                                        {"emucuda_spin", create<Spin>},
                                        {"weft_bench_work", create<Work>}};
  for (const KernelEntry& entry : entries)
    if (std::strcmp(entry.name, name) == 0) return &entry;
  return nullptr;
}

}  // namespace emucuda
