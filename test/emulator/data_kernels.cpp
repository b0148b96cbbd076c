// SPDX-License-Identifier: BSD-3-Clause
// Reduction and pack kernels: the GPU code with host addresses, several items per turn.
#include <algorithm>
#include <cstring>

#include "cancellable_launch.hpp"
#include "device/kernel/pack.hpp"
#include "device/kernel/reduce.hpp"
#include "device/kernel/scale.hpp"
#include "layout_side.hpp"
#include "world.hpp"

namespace emucuda {
namespace {

namespace contract = weft::device::kernel;

constexpr uint64_t kItemsPerTurn = 1 << 16;

class Reduce : public Kernel {
 public:
  Reduce(ContextObject& context, void** parameters) : context_(context) {
    std::memcpy(&params_, parameters[0], sizeof params_);
  }

  Turn turn(uint64_t) override {
    contract::Reduce here = params_;
    if (params_.terms == 0 || params_.terms > contract::Reduce::kTerms || !aligned() || !map(here.dst))
      return Turn::illegal_address;
    for (uint32_t i = 0; i < params_.terms; ++i)
      if (!map(here.sources[i])) return Turn::illegal_address;
    const uint64_t end = std::min(here.items(), next_ + kItemsPerTurn);
    for (; next_ < end; next_ += contract::Reduce::kBatch) contract::reduce_batch(here, next_, 1);
    return next_ < here.items() ? Turn::worked : Turn::ended;
  }

 private:
  /// Translates the address of a vector. The padding of a final value-index pair may lie outside of the
  /// allocation.
  bool map(uint64_t& address) const {
    const uint32_t data = contract::data_bytes(params_.reduction.element);
    uint64_t bytes = params_.bytes;
    for (uint64_t at = bytes; at != 0 && ((data >> ((at - 1) % 16)) & 1) == 0; --at) --bytes;
    address = reinterpret_cast<uint64_t>(translate_for(context_, address, bytes));
    return address != 0;
  }

  /// Whether all addresses have the alignment that the hardware requires.
  [[nodiscard]] bool aligned() const {
    uint64_t any = params_.dst + params_.head;
    for (uint32_t i = 0; i < params_.terms; ++i) any |= params_.sources[i] + params_.head;
    return params_.alignment != 0 && any % params_.alignment == 0;
  }

  ContextObject& context_;
  contract::Reduce params_;
  uint64_t next_ = 0;
};

class Scale : public Kernel {
 public:
  Scale(ContextObject& context, void** parameters) : context_(context) {
    std::memcpy(&params_, parameters[0], sizeof params_);
  }

  Turn turn(uint64_t) override {
    contract::Scale here = params_;
    contract::Reduce& vector = here.vector;
    const uint64_t any = (vector.dst + vector.head) | (vector.sources[0] + vector.head);
    if (vector.alignment == 0 || any % vector.alignment != 0) return Turn::illegal_address;
    const auto map = [&](uint64_t& address, uint64_t bytes) {
      address = reinterpret_cast<uint64_t>(translate_for(context_, address, bytes));
      return address != 0;
    };
    if (!map(vector.dst, vector.bytes) || !map(vector.sources[0], vector.bytes)) return Turn::illegal_address;
    if (here.factor_address != 0 &&
        !map(here.factor_address, contract::element_size(vector.reduction.element)))
      return Turn::illegal_address;
    const contract::Vec16 factor = contract::factor_of(here);
    const uint64_t end = std::min(vector.items(), next_ + kItemsPerTurn);
    for (; next_ < end; ++next_) contract::scale_item(here, factor, next_);
    return next_ < vector.items() ? Turn::worked : Turn::ended;
  }

 private:
  ContextObject& context_;
  contract::Scale params_;
  uint64_t next_ = 0;
};

class Pack : public Kernel {
 public:
  Pack(ContextObject& context, void** parameters)
      : params_(*static_cast<const contract::Pack*>(parameters[0])),
        dst_(context, params_.dst),
        src_(context, params_.src) {}

  Turn turn(uint64_t) override {
    if (!mapped_ && (!dst_.map() || !src_.map())) return Turn::illegal_address;
    mapped_ = true;
    const auto end =
        static_cast<uint32_t>(std::min<uint64_t>(params_.words, uint64_t{next_} + kItemsPerTurn));
    for (; next_ < end; ++next_) {
      const uint32_t begin = next_ / contract::Pack::kTile * contract::Pack::kTile;
      const auto tile_end =
          static_cast<uint32_t>(std::min<uint64_t>(params_.words, uint64_t{begin} + contract::Pack::kTile));
      char* to = dst_.word(next_, params_.size, begin, tile_end);
      const char* from = src_.word(next_, params_.size, begin, tile_end);
      if (to == nullptr || from == nullptr) return Turn::illegal_address;
      std::memcpy(to, from, params_.size);
    }
    return next_ < params_.words ? Turn::worked : Turn::ended;
  }

 private:
  const contract::Pack params_;
  LayoutSide dst_, src_;
  bool mapped_ = false;
  uint32_t next_ = 0;
};

/// Processes tiles in reverse order, several per turn; waits for the flag of each tile if required.
class PackTiles : public Kernel {
 public:
  using CancellableLaunch = contract::CancellableLaunch;
  PackTiles(ContextObject& context, void** parameters)
      : context_(context),
        params_(*static_cast<const contract::PackTiles*>(parameters[0])),
        dst_(context, params_.pack.dst),
        src_(context, params_.pack.src) {}

  Turn turn(uint64_t time) override {
    host_ = map<CancellableLaunch::HostState>(params_.host_state);
    auto* memory = map<CancellableLaunch::Memory>(params_.memory);
    signals_ = map<uint64_t>(params_.signals, params_.chunks);
    wait_flags_ = map<uint64_t>(params_.wait_flags, params_.flag_stride == 0 ? 1 : params_.chunks);
    if (host_ == nullptr || memory == nullptr || (params_.signals != 0 && signals_ == nullptr) ||
        (params_.wait_flags != 0 && wait_flags_ == nullptr))
      return Turn::illegal_address;
    CancellableLaunch::Words& words = memory->words[params_.number & 1];
    if (words.next == 0) return enter(*memory, words, time);
    bool worked = false;
    for (uint32_t i = 0; i < kTilesPerTurn && words.copied < params_.chunks; ++i) {
      const uint32_t tile = params_.chunks - 1 - words.copied;
      if (wait_flags_ != nullptr &&
          __atomic_load_n(&wait_flags_[tile * params_.flag_stride], __ATOMIC_ACQUIRE) != params_.epoch) {
        if (time - begin_ <= params_.timeout_ns) return worked ? Turn::worked : Turn::idle;
        __atomic_store_n(&host_->timed_out, params_.number, __ATOMIC_RELAXED);
      } else if (!move(tile)) {
        return Turn::illegal_address;
      }
      if (signals_ != nullptr) __atomic_store_n(&signals_[tile], params_.epoch, __ATOMIC_RELEASE);
      ++words.copied;
      worked = true;
    }
    if (words.copied < params_.chunks) return Turn::worked;
    __atomic_store_n(&host_->done, params_.number, __ATOMIC_RELEASE);
    return Turn::ended;
  }

 private:
  static constexpr uint32_t kTilesPerTurn = 16;
  template <class T>
  T* map(uint64_t address, size_t count = 1) {
    return address == 0 ? nullptr : reinterpret_cast<T*>(translate_for(context_, address, count * sizeof(T)));
  }

  Turn enter(CancellableLaunch::Memory& memory, CancellableLaunch::Words& words, uint64_t time) {
    begin_ = time;
    if (params_.cancellable == 0) {
      words.next = 1;
      memory.words[~params_.number & 1] = {};
    } else if (!enter_launch(params_, *host_, memory)) {
      return Turn::ended;
    }
    return dst_.map() && src_.map() ? Turn::worked : Turn::illegal_address;
  }

  bool move(uint32_t tile) {
    const uint32_t begin = tile * params_.tile_words,
                   end = std::min(begin + params_.tile_words, params_.pack.words);
    for (uint32_t at = begin; at < end; ++at) {
      const uint32_t from = begin + (at - begin) / contract::Pack::kTile * contract::Pack::kTile,
                     to = std::min(from + contract::Pack::kTile, end);
      char* there = dst_.word(at, params_.pack.size, from, to);
      const char* here = src_.word(at, params_.pack.size, from, to);
      if (there == nullptr || here == nullptr) return false;
      std::memcpy(there, here, params_.pack.size);
    }
    return true;
  }

  ContextObject& context_;
  const contract::PackTiles params_;
  LayoutSide dst_, src_;
  CancellableLaunch::HostState* host_ = nullptr;
  uint64_t *signals_ = nullptr, *wait_flags_ = nullptr;
  uint64_t begin_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> create_pack_tiles(ContextObject& context, void** parameters) {
  return std::make_unique<PackTiles>(context, parameters);
}

std::unique_ptr<Kernel> create_pack(ContextObject& context, void** parameters) {
  return std::make_unique<Pack>(context, parameters);
}

std::unique_ptr<Kernel> create_reduce(ContextObject& context, void** parameters) {
  return std::make_unique<Reduce>(context, parameters);
}

std::unique_ptr<Kernel> create_scale(ContextObject& context, void** parameters) {
  return std::make_unique<Scale>(context, parameters);
}

}  // namespace emucuda
