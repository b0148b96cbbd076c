// SPDX-License-Identifier: BSD-3-Clause
// The copy kernels of Weft, by the contract of device/kernel/copy.hpp, and `emucuda_spin(flag, value)`, which
// runs until the 32-bit word at `flag` has the value.
#include <algorithm>
#include <cstring>

#include "cancellable_launch.hpp"
#include "device/kernel/collective.hpp"
#include "device/kernel/copy.hpp"
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
  char* to = translate_for(context, dst, bytes);
  const char* from = translate_for(context, src, bytes);
  if (to == nullptr || from == nullptr) return false;
  std::memmove(to, from, bytes);
  return true;
}

/// The batch copy kernel with one block, several chunks per turn.
class BatchCopy : public Kernel {
 public:
  using BatchCopyParams = contract::BatchCopyParams;
  BatchCopy(ContextObject& context, void** parameters)
      : context_(context), params_(parameter<BatchCopyParams>(parameters, 0)) {}
  [[nodiscard]] std::unique_ptr<Kernel> clone() const override { return std::make_unique<BatchCopy>(*this); }
  Turn turn(uint64_t) override {
    auto* line = map<BatchCopyParams::HostState>(params_.host_state);
    auto* memory = map<BatchCopyParams::Memory>(params_.memory);
    if (line == nullptr || memory == nullptr || params_.count > BatchCopyParams::kMax)
      return Turn::illegal_address;
    BatchCopyParams::Words& words = memory->words[params_.number & 1];
    if (words.next == 0)  // the first turn checks for cancellation, the second starts
      return enter_launch(params_, *line, *memory) ? Turn::worked : Turn::ended;
    for (uint32_t i = 0; i < kChunksPerTurn && words.copied < params_.chunks; ++i)
      if (!copy_chunk(params_.chunks - 1 - words.copied++)) return Turn::illegal_address;
    if (words.copied < params_.chunks) return Turn::worked;
    __atomic_store_n(&line->done, params_.number, __ATOMIC_RELEASE);
    ++world().batch_copies;
    return Turn::ended;
  }

 private:
  static constexpr uint32_t kChunksPerTurn = 16;
  template <class T>
  T* map(uint64_t address) {
    return reinterpret_cast<T*>(translate_for(context_, address, sizeof(T)));
  }

  /// Copies chunks in reverse order: real blocks take them in any order.
  bool copy_chunk(uint32_t chunk) {
    for (uint32_t i = 0; i < params_.count; ++i) {
      const contract::CopyItem& item = params_.items[i];
      const auto chunks = static_cast<uint32_t>(BatchCopyParams::chunks_of(item.bytes, params_.chunk));
      if (chunk >= chunks) {
        chunk -= chunks;
        continue;
      }
      const uint64_t offset = uint64_t{chunk} * params_.chunk;
      return copy(context_, item.dst + offset, item.src + offset,
                  std::min<uint64_t>(params_.chunk, item.bytes - offset));
    }
    return false;
  }

  ContextObject& context_;
  BatchCopyParams params_;
};

class ResidentKernel : public Kernel {
 public:
  ResidentKernel(ContextObject& context, void** parameters)
      : context_(context),
        params_(parameter<contract::ResidentKernelParams>(parameters, 0)),
        next_(params_.first) {}
  [[nodiscard]] bool is_resident() const override { return true; }

  Turn turn(uint64_t time) override {
    ring_ = map<contract::Command>(params_.ring, contract::ResidentKernelParams::kSlots);
    status_ = map<uint64_t>(params_.status, 1);
    if (ring_ == nullptr || status_ == nullptr ||
        map<contract::ResidentKernelParams::Memory>(params_.memory, 1) == nullptr)
      return Turn::illegal_address;
    if (begin_ == 0) {
      begin_ = last_ = time;
      publish(params_.instance - 1);
    }
    if (call_ != nullptr) return continue_call(time);
    uint32_t words[8];
    const bool taken = take(words);
    const bool over = taken ? words[contract::Command::blocks] == 0
                            : time - begin_ > params_.lifetime_ns || time - last_ > params_.idle_timeout_ns;
    if (over || exits_at_random()) {
      publish(params_.instance);
      return Turn::ended;
    }
    if (!taken) return Turn::idle;
    if ((words[contract::Command::items] & contract::CallWord::kCall) != 0) {
      call_ = create_call(context_, params_.slot_configs, words);
      return call_ != nullptr ? continue_call(time) : Turn::illegal_address;
    }
    if (!serve(words)) return Turn::illegal_address;
    return finish(time);
  }

 private:
  /// Continues a collective, which takes several turns.
  Turn continue_call(uint64_t time) {
    const Turn turn = call_->turn(time);
    if (turn != Turn::ended) return turn;
    call_.reset();
    ++world().resident_kernel_calls;
    return finish(time);
  }
  Turn finish(uint64_t time) {
    ++next_;
    ++world().resident_kernel_commands;
    last_ = time;
    publish(params_.instance - 1);
    return Turn::worked;
  }

  template <class T>
  T* map(uint64_t address, size_t count) {
    return reinterpret_cast<T*>(translate_for(context_, address, count * sizeof(T)));
  }

  static uint64_t address(const uint32_t* words, size_t low) {
    return words[low] | uint64_t{words[low + 1]} << 32;
  }

  /// Reads the next command, if completely written.
  bool take(uint32_t* words) {
    const contract::Command& line = ring_[next_ % contract::ResidentKernelParams::kSlots];
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
    if (count >> 28 == contract::Command::kPacked >> 28) {
      contract::PackedAccumulate packed{};
      for (uint32_t i = 0; i < contract::PackedAccumulate::kAddressWords; ++i)
        packed.addresses[i] = words[contract::Command::packed_word(i)];
      packed.rest = count;
      return execute_accumulate(context_, packed.unpack());
    }
    if (count == contract::Command::kAccumulate) {
      const auto* call = map<contract::Accumulate>(src, 1);
      return call != nullptr && execute_accumulate(context_, *call);
    }
    if (count == 0)
      return copy(context_, address(words, contract::Command::dst_low), src, words[contract::Command::bytes]);
    const auto* items = map<contract::CopyItem>(src, count);
    if (items == nullptr || count > contract::ResidentKernelParams::kItems) return false;
    for (uint32_t i = count; i-- != 0;)  // reverse order: real warps take the items in any order
      if (!copy(context_, items[i].dst, items[i].src, items[i].bytes)) return false;
    return true;
  }

  /// Stores the inline data of a command.
  [[nodiscard]] bool store(const uint32_t* words) const {
    const uint32_t bytes = words[contract::Command::bytes];
    if (bytes == 0) return true;
    char* to = translate_for(context_, address(words, contract::Command::dst_low), bytes);
    if (to == nullptr || bytes > contract::Command::kInlineBytes) return false;
    std::memcpy(to, words + contract::Command::src_low, bytes);
    return true;
  }

  void publish(uint32_t ended) {
    const uint64_t word = uint64_t{params_.instance << 16 | (ended & 0xFFFF)} << 32 | (next_ - 1);
    __atomic_store_n(status_, word, __ATOMIC_RELEASE);
  }

  ContextObject& context_;
  const contract::ResidentKernelParams params_;
  contract::Command* ring_ = nullptr;
  uint64_t* status_ = nullptr;
  uint64_t begin_ = 0, last_ = 0;
  uint32_t next_;
  std::unique_ptr<Kernel> call_;  // collective in progress
};

/// A turn of a kernel that ends as soon as the word at `flag` is `value`.
Kernel::Turn until(const ContextObject& context, Address flag, uint32_t value) {
  const char* word = translate_for(context, flag, sizeof(uint32_t));
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
  [[nodiscard]] std::unique_ptr<Kernel> clone() const override { return std::make_unique<Spin>(*this); }
  Turn turn(uint64_t) override { return until(context_, flag_, value_); }

 private:
  ContextObject& context_;
  Address flag_;
  uint32_t value_;
};

/// `weft_bench_work` of bench/interference.cu: a number of rounds, then waits for a flag.
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

/// `weft_bench_delay` of bench/common/kernels.c: ends after a number of ns.
class Delay : public Kernel {
 public:
  Delay(ContextObject&, void** parameters) : ns_(parameter<uint64_t>(parameters, 0)) {}
  Turn turn(uint64_t time) override {
    if (begin_ == 0) begin_ = time;
    return time - begin_ < ns_ ? Turn::idle : Turn::ended;
  }

 private:
  uint64_t begin_ = 0, ns_;
};

/// `weft_bench_copy` of bench/common/kernels.c: copies doubles between two strides.
class StridedCopy : public Kernel {
 public:
  StridedCopy(ContextObject& context, void** parameters)
      : context_(context),
        to_(parameter<Address>(parameters, 0)),
        to_stride_(parameter<uint64_t>(parameters, 1) * sizeof(double)),
        from_(parameter<Address>(parameters, 2)),
        from_stride_(parameter<uint64_t>(parameters, 3) * sizeof(double)),
        count_(parameter<uint64_t>(parameters, 4)) {}
  Turn turn(uint64_t) override {
    char* to = translate_for(context_, to_, (count_ - 1) * to_stride_ + sizeof(double));
    const char* from = translate_for(context_, from_, (count_ - 1) * from_stride_ + sizeof(double));
    if (to == nullptr || from == nullptr) return Turn::illegal_address;
    for (uint64_t i = 0; i < count_; ++i)
      std::memcpy(to + i * to_stride_, from + i * from_stride_, sizeof(double));
    return Turn::ended;
  }

 private:
  ContextObject& context_;
  Address to_;
  uint64_t to_stride_;
  Address from_;
  uint64_t from_stride_, count_;
};

template <class K>
std::unique_ptr<Kernel> create(ContextObject& context, void** parameters) {
  return std::make_unique<K>(context, parameters);
}

}  // namespace

bool exits_at_random() {
  uint32_t& random = world().random;
  if (random == 0) return false;
  random ^= random << 13;
  random ^= random >> 17;
  random ^= random << 5;
  return random % 16 == 0;
}

const KernelEntry* find_kernel(const char* name) {
  static const KernelEntry entries[] = {{"weft_batch_copy", create<BatchCopy>},
                                        {"weft_resident_kernel", create<ResidentKernel>},
                                        {"weft_reduce", create_reduce},
                                        {"weft_scale", create_scale},
                                        {"weft_pack", create_pack},
                                        {"weft_accumulate", create_accumulate},
                                        {"weft_window_sync", create_window_sync},
                                        {"weft_pack_flat", create_pack},
                                        {"weft_pack_tiles", create_pack_tiles},
                                        {"weft_pack_tiles_flat", create_pack_tiles},
                                        {"weft_collective_ll", create_collective_ll},
                                        {"weft_collective_ll128", create_collective_ll128},
                                        {"weft_collective_simple", create_collective_simple},
                                        {"weft_collective_direct", create_collective_direct},
                                        {"weft_collective_blocks", create_collective_blocks},
                                        {"weft_collective_stream_ll", create_stream_ll},
                                        {"weft_collective_stream_simple", create_stream_simple},
                                        {"weft_collective_pairs", create_pairs},
                                        {"weft_enqueue", create_enqueue},
                                        {"weft_enqueue_layouts", create_enqueue},
                                        {"weft_enqueue_small", create_enqueue_small},
                                        {"jacobi_sweep_4", create_sweep},
                                        {"jacobi_sweep_1", create_sweep},
                                        {"jacobi_sweep_4_norm", create_sweep_norm},
                                        {"jacobi_sweep_1_norm", create_sweep_norm},
                                        {"jacobi_set_columns", create_set_columns},
                                        {"emucuda_spin", create<Spin>},
                                        {"weft_bench_work", create<Work>},
                                        {"weft_bench_delay", create<Delay>},
                                        {"weft_bench_copy", create<StridedCopy>}};
  for (const KernelEntry& entry : entries)
    if (std::strcmp(entry.name, name) == 0) return &entry;
  return nullptr;
}

}  // namespace emucuda
