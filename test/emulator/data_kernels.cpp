// SPDX-License-Identifier: BSD-3-Clause
// The kernels that work on data: the code that the GPU runs, on host addresses, some items a turn.
#include <algorithm>
#include <cstring>

#include "device/kernel/pack.hpp"
#include "device/kernel/reduce.hpp"
#include "launch.hpp"
#include "world.hpp"

namespace emucuda {
namespace {

namespace contract = weft::device::kernel;

constexpr uint64_t kItemsATurn = 1 << 16;

class Reduce : public Kernel {
 public:
  Reduce(ContextObject& context, void** parameters) : context_(context) {
    std::memcpy(&p_, parameters[0], sizeof p_);
  }

  Turn turn(uint64_t) override {
    contract::Reduce here = p_;
    if (p_.terms == 0 || p_.terms > contract::Reduce::kTerms || !aligned() || !map(here.dst))
      return Turn::illegal_address;
    for (uint32_t i = 0; i < p_.terms; ++i)
      if (!map(here.sources[i])) return Turn::illegal_address;
    const uint64_t end = std::min(here.items(), next_ + kItemsATurn);
    for (; next_ < end; next_ += contract::Reduce::kBatch) contract::reduce_batch(here, next_, 1);
    return next_ < here.items() ? Turn::worked : Turn::ended;
  }

 private:
  /// A vector as host code sees it. A pair's padding at the end may lie outside of the allocation.
  bool map(uint64_t& address) const {
    const uint32_t data = contract::data_bytes(p_.reduction.element);
    uint64_t bytes = p_.bytes;
    for (uint64_t at = bytes; at != 0 && ((data >> ((at - 1) % 16)) & 1) == 0; --at) --bytes;
    address = reinterpret_cast<uint64_t>(reach_from(context_, address, bytes));
    return address != 0;
  }

  /// As the hardware wants it.
  [[nodiscard]] bool aligned() const {
    uint64_t any = p_.dst + p_.head;
    for (uint32_t i = 0; i < p_.terms; ++i) any |= p_.sources[i] + p_.head;
    return p_.alignment != 0 && any % p_.alignment == 0;
  }

  ContextObject& context_;
  contract::Reduce p_;
  uint64_t next_ = 0;
};

/// Addresses of one side of a copy, as host code sees them.
class Side {
 public:
  Side(ContextObject& context, const contract::Layout& layout) : context_(context), layout_(layout) {}

  /// The table, if there is one.
  bool map() {
    if (layout_.segments == 0) return true;
    layout_.prefix = host(layout_.prefix, (layout_.segments + uint64_t{1}) * sizeof(uint32_t));
    layout_.displacement = host(layout_.displacement, layout_.segments * sizeof(int64_t));
    return layout_.prefix != 0 && layout_.displacement != 0;
  }
  /// A word, null when the GPU could not reach it or it is not aligned.
  char* word(uint32_t index, uint32_t size, uint32_t begin, uint32_t end) {
    const uint64_t at =
        contract::is_flat(layout_)
            ? contract::locate_flat(layout_, index, size)
            : contract::locate(layout_, index, size, contract::segments_of(layout_, begin, end, size));
    if (at % size != 0) return nullptr;
    if (at - page_ >= kPage || at - page_ + size > kPage) {  // a look-up a page is slow enough
      page_ = at / kPage * kPage;
      mapped_ = reinterpret_cast<char*>(host(page_, kPage));
      if (mapped_ == nullptr) {  // the allocation ends in it
        page_ = ~uint64_t{0};
        return reinterpret_cast<char*>(host(at, size));
      }
    }
    return mapped_ + (at - page_);
  }

 private:
  static constexpr uint64_t kPage = 4096;
  uint64_t host(uint64_t address, uint64_t bytes) const {
    return reinterpret_cast<uint64_t>(reach_from(context_, address, bytes));
  }
  ContextObject& context_;
  contract::Layout layout_;
  uint64_t page_ = ~uint64_t{0};
  char* mapped_ = nullptr;
};

class Pack : public Kernel {
 public:
  Pack(ContextObject& context, void** parameters)
      : p_(*static_cast<const contract::Pack*>(parameters[0])),
        dst_(context, p_.dst),
        src_(context, p_.src) {}

  Turn turn(uint64_t) override {
    if (!mapped_ && (!dst_.map() || !src_.map())) return Turn::illegal_address;
    mapped_ = true;
    const auto end = static_cast<uint32_t>(std::min<uint64_t>(p_.words, uint64_t{next_} + kItemsATurn));
    for (; next_ < end; ++next_) {
      const uint32_t begin = next_ / contract::Pack::kTile * contract::Pack::kTile;
      const auto tile_end =
          static_cast<uint32_t>(std::min<uint64_t>(p_.words, uint64_t{begin} + contract::Pack::kTile));
      char* to = dst_.word(next_, p_.size, begin, tile_end);
      const char* from = src_.word(next_, p_.size, begin, tile_end);
      if (to == nullptr || from == nullptr) return Turn::illegal_address;
      std::memcpy(to, from, p_.size);
    }
    return next_ < p_.words ? Turn::worked : Turn::ended;
  }

 private:
  const contract::Pack p_;
  Side dst_, src_;
  bool mapped_ = false;
  uint32_t next_ = 0;
};

/// Tiles by one block, the last first, some a turn; of those of a launch that waits, what is there.
class PackTiles : public Kernel {
 public:
  using Launch = contract::Launch;
  PackTiles(ContextObject& context, void** parameters)
      : context_(context),
        p_(*static_cast<const contract::PackTiles*>(parameters[0])),
        dst_(context, p_.pack.dst),
        src_(context, p_.pack.src) {}

  Turn turn(uint64_t time) override {
    line_ = map<Launch::Line>(p_.line);
    auto* memory = map<Launch::Memory>(p_.memory);
    signals_ = map<uint64_t>(p_.signals, p_.chunks);
    awaited_ = map<uint64_t>(p_.awaited, p_.apart == 0 ? 1 : p_.chunks);
    if (line_ == nullptr || memory == nullptr || (p_.signals != 0 && signals_ == nullptr) ||
        (p_.awaited != 0 && awaited_ == nullptr))
      return Turn::illegal_address;
    Launch::Words& words = memory->words[p_.number & 1];
    if (words.next == 0) return enter(*memory, words, time);
    bool worked = false;
    for (uint32_t i = 0; i < kTilesATurn && words.copied < p_.chunks; ++i) {
      const uint32_t tile = p_.chunks - 1 - words.copied;
      if (awaited_ != nullptr && __atomic_load_n(&awaited_[tile * p_.apart], __ATOMIC_ACQUIRE) != p_.epoch) {
        if (time - begin_ <= p_.patience) return worked ? Turn::worked : Turn::idle;
        __atomic_store_n(&line_->missed, p_.number, __ATOMIC_RELAXED);
      } else if (!move(tile)) {
        return Turn::illegal_address;
      }
      if (signals_ != nullptr) __atomic_store_n(&signals_[tile], p_.epoch, __ATOMIC_RELEASE);
      ++words.copied;
      worked = true;
    }
    if (words.copied < p_.chunks) return Turn::worked;
    __atomic_store_n(&line_->done, p_.number, __ATOMIC_RELEASE);
    return Turn::ended;
  }

 private:
  static constexpr uint32_t kTilesATurn = 16;
  template <class T>
  T* map(uint64_t address, size_t count = 1) {
    return address == 0 ? nullptr : reinterpret_cast<T*>(reach_from(context_, address, count * sizeof(T)));
  }

  Turn enter(Launch::Memory& memory, Launch::Words& words, uint64_t time) {
    begin_ = time;
    if (p_.checked == 0) {
      words.next = 1;
      memory.words[~p_.number & 1] = {};
    } else if (!enter_launch(p_, *line_, memory)) {
      return Turn::ended;
    }
    return dst_.map() && src_.map() ? Turn::worked : Turn::illegal_address;
  }

  bool move(uint32_t tile) {
    const uint32_t begin = tile * p_.tile, end = std::min(begin + p_.tile, p_.pack.words);
    for (uint32_t at = begin; at < end; ++at) {
      const uint32_t from = begin + (at - begin) / contract::Pack::kTile * contract::Pack::kTile,
                     to = std::min(from + contract::Pack::kTile, end);
      char* there = dst_.word(at, p_.pack.size, from, to);
      const char* here = src_.word(at, p_.pack.size, from, to);
      if (there == nullptr || here == nullptr) return false;
      std::memcpy(there, here, p_.pack.size);
    }
    return true;
  }

  ContextObject& context_;
  const contract::PackTiles p_;
  Side dst_, src_;
  Launch::Line* line_ = nullptr;
  uint64_t *signals_ = nullptr, *awaited_ = nullptr;
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

}  // namespace emucuda
