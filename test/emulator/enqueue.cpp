// SPDX-License-Identifier: BSD-3-Clause
// The kernel of enqueued sends and receives: runs the blocks of device/kernel/enqueue_protocol.hpp round
// robin, one step each.
#include <algorithm>
#include <cstring>
#include <vector>

#include "device/kernel/enqueue_protocol.hpp"
#include "enqueue_memory.hpp"
#include "world.hpp"

namespace emucuda {
namespace {

namespace contract = weft::device::kernel::enqueue;
using contract::LLPacket;
using contract::Step;

/// Address translation for the protocol. Invalid addresses set `fault` and are replaced by a dummy page.
struct Env : EnqueueMemory {
  explicit Env(const ContextObject& of) : context(of) {}
  const ContextObject& context;
  bool fault = false;

  char* translate(uint64_t address, uint64_t bytes) {
    alignas(256) static char dummy[1 << 20];
    char* at = bytes == 0 ? dummy : translate_for(context, address, bytes);
    fault = fault || at == nullptr;
    return at != nullptr ? at : dummy;
  }
  template <class T>
  T* at(uint64_t address) {
    return reinterpret_cast<T*>(translate(address, sizeof(T)));
  }
};

using Protocol = contract::Protocol<Env>;

class Enqueue : public Kernel {
 public:
  Enqueue(ContextObject& context, const contract::Batch& batch) : context_(context), batch_(batch) {}
  [[nodiscard]] std::unique_ptr<Kernel> clone() const override {
    return std::make_unique<Enqueue>(context_, batch_);
  }

  Turn turn(uint64_t) override {
    Env env(context_);
    Protocol protocol(env, batch_.head, batch_.ops);
    const uint32_t blocks = uint32_t{batch_.head.count} + batch_.head.helpers;
    bool worked = false;
    first_ = (first_ * 5 + 3) % blocks;  // pseudo-random block order
    for (uint32_t b = 0; b < blocks && !env.fault; ++b)
      worked = run((first_ + b) % blocks, env, protocol) || worked;
    if (env.fault) return Turn::illegal_address;
    return exited_ == blocks ? Turn::ended : worked ? Turn::worked : Turn::idle;
  }

 private:
  enum class Block : uint8_t { initial, running, exited };

  /// Runs one step of a block. Returns whether it made progress.
  bool run(uint32_t block, Env& env, Protocol& protocol) {
    if (blocks_[block] == Block::exited) return false;
    const bool is_leader = block < batch_.head.count;
    if (blocks_[block] == Block::initial && is_leader) phases_[block] = protocol.begin(block);
    blocks_[block] = Block::running;
    const Step step =
        is_leader ? protocol.next(block, phases_[block], drawn_[block]) : protocol.help(drawn_[block]);
    if (step.what == Step::finish) protocol.count(block);
    const bool may_leave =
        step.what == Step::finish ||
        (step.what == Step::nothing &&
         ((is_leader ? protocol.may_leave(block) : protocol.all_finished()) || protocol.cancelled()));
    if (may_leave) {
      blocks_[block] = Block::exited;
      ++exited_;
      protocol.leave();
      return true;
    }
    if (step.what == Step::nothing) {
      if (is_leader) protocol.beat(block);
      return false;
    }
    perform(step, env, protocol, batch_.layouts());
    protocol.performed(step);
    phases_[block] = protocol.phase_after(step);
    return true;
  }

  /// Calls function(memory, first, n) for the contiguous parts of `bytes` bytes, from `at` on, of one side.
  template <class Function>
  static void for_parts(Env& env, const contract::Runs* runs, uint64_t address, uint64_t at, uint64_t bytes,
                        Function&& function) {
    if (bytes == 0) return;
    if (runs == nullptr) return function(env.translate(address, bytes), uint64_t{0}, bytes);
    for (uint64_t first = 0; first < bytes && !env.fault;) {
      const uint64_t word = (at + first) / runs->word, in_word = (at + first) % runs->word;
      const uint64_t n = std::min(runs->word - in_word, bytes - first);
      const int64_t displacement = contract::displacement_of(*runs, static_cast<uint32_t>(word));
      function(env.translate(address + static_cast<uint64_t>(displacement) + in_word, n), first, n);
      first += n;
    }
  }

  static void perform(const Step& step, Env& env, Protocol& protocol, const contract::Runs* layouts) {
    const auto* const from = step.from_layout != 0 ? layouts + step.from_layout - 1 : nullptr;
    const auto* const to = step.to_layout != 0 ? layouts + step.to_layout - 1 : nullptr;
    std::vector<char> bytes(step.bytes);
    const auto gather = [&] {
      for_parts(env, from, step.from, step.at, step.bytes,
                [&](const char* memory, uint64_t first, uint64_t n) {
                  std::memcpy(bytes.data() + first, memory, n);
                });
    };
    const auto scatter = [&] {
      for_parts(env, to, step.to, step.at, step.bytes, [&](char* memory, uint64_t first, uint64_t n) {
        std::memcpy(memory, bytes.data() + first, n);
      });
    };
    if (step.what == Step::move) {
      gather();
      scatter();
      return;
    }
    auto* packets = reinterpret_cast<LLPacket*>(env.translate(step.packets, contract::kInlineBytes * 2));
    if (step.what == Step::write_inline) {
      protocol.write_header(step);
      gather();
    }
    for (uint64_t at = 0; at < step.bytes && !env.fault; at += 8) {
      const uint64_t n = std::min<uint64_t>(8, step.bytes - at);
      uint64_t data = 0;
      if (step.what == Step::write_inline) {
        std::memcpy(&data, bytes.data() + at, n);
        Env::put(&packets[at / 8], step.flag, data);
      } else {
        while (!Env::get(&packets[at / 8], step.flag, data))
          if (protocol.cancelled()) return;
        std::memcpy(bytes.data() + at, &data, n);
      }
    }
    if (step.what == Step::read_inline) scatter();
  }

  ContextObject& context_;
  const contract::Batch batch_;
  Block blocks_[contract::kOps + contract::kMaxHelpers] = {};
  uint32_t phases_[contract::kOps + contract::kMaxHelpers] = {};
  contract::DrawnChunk drawn_[contract::kOps + contract::kMaxHelpers] = {};
  uint32_t exited_ = 0, first_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> create_enqueue(ContextObject& context, void** parameters) {
  contract::Batch batch;
  std::memcpy(&batch, parameters[0], sizeof batch);
  return std::make_unique<Enqueue>(context, batch);
}

std::unique_ptr<Kernel> create_enqueue_small(ContextObject& context, void** parameters) {
  contract::Batch batch;
  std::memcpy(&batch, parameters[0], sizeof(contract::SmallBatch));
  return std::make_unique<Enqueue>(context, batch);
}

}  // namespace emucuda
