// SPDX-License-Identifier: BSD-3-Clause
// Slab: a type-stable pool. Its memory is never unmapped, so any value a caller presents can be checked by
// range, alignment and liveness without touching memory that is gone. It grows by ranges, each four times as
// large as the one before: limits on address space (ulimit -v, no overcommit) leave a process room to start.
// Threading: create, destroy and check are serialised by the caller (the instance lock).
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "base/result.hpp"

namespace weft {

/// What handle checking found out about a value.
enum class HandleState { live, freed, foreign };

/// Pool of objects of type T with stable addresses. T needs no base class: liveness is kept beside it.
template <class T>
class Slab {
 public:
  explicit Slab(size_t capacity = size_t{1} << 24) : capacity_(capacity) {}
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  /// Constructs an object; nullptr when as many live as may, or no memory is left.
  template <class... A>
  T* create(A&&... args) {
    Cell* cell = free_;
    if (cell != nullptr) {
      free_ = cell->next;
    } else {
      if (used_ == room() && !grow()) return nullptr;
      cell = ranges_[made_ - 1].cells + used_++;
    }
    T* object = new (cell->storage) T(std::forward<A>(args)...);
    cell->live = kLive;
    ++live_;
    return object;
  }

  /// Destroys an object that create() returned.
  void destroy(T* object) {
    Cell* cell = cell_of(object);
    object->~T();
    cell->live = kFreed;
    cell->next = free_;
    free_ = cell;
    --live_;
  }

  /// Classifies any value; reads memory only inside the slab.
  [[nodiscard]] HandleState check(const void* handle) const {
    size_t cells = used_;
    for (size_t i = made_; i-- > 0; cells = i != 0 ? ranges_[i - 1].room : 0) {
      const auto offset = reinterpret_cast<uintptr_t>(handle) - reinterpret_cast<uintptr_t>(ranges_[i].cells);
      if (offset >= cells * sizeof(Cell)) continue;
      if (offset % sizeof(Cell) != 0) [[unlikely]]
        return HandleState::foreign;
      return ranges_[i].cells[offset / sizeof(Cell)].live == kLive ? HandleState::live : HandleState::freed;
    }
    return HandleState::foreign;
  }

  [[nodiscard]] size_t live() const { return live_; }

 private:
  static constexpr uint32_t kLive = 0x7765'6674, kFreed = 0x6672'6565;
  struct Cell {
    alignas(T) unsigned char storage[sizeof(T)];  // first: the handle is the cell's address
    Cell* next;
    uint32_t live;
  };
  static Cell* cell_of(T* object) { return reinterpret_cast<Cell*>(object); }
  struct Range {
    Cell* cells = nullptr;
    size_t room = 0;
  };
  static constexpr size_t kFirstBytes = size_t{256} << 10, kRanges = 12;

  [[nodiscard]] size_t room() const { return made_ == 0 ? 0 : ranges_[made_ - 1].room; }
  /// Another range, all of whose cells are unused.
  bool grow() {
    size_t before = 0;
    for (const Range& range : ranges_) before += range.room;
    const size_t first = std::max<size_t>(kFirstBytes / sizeof(Cell), 16);
    size_t cells = std::min(made_ == 0 ? first : room() * 4, capacity_ - before);
    if (made_ == kRanges) return false;
    for (; cells != 0; cells = cells > first ? cells / 2 : 0) {
      void* memory = ::mmap(nullptr, cells * sizeof(Cell), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) continue;
      ranges_[made_++] = {static_cast<Cell*>(memory), cells};
      used_ = 0;
      return true;
    }
    return false;
  }

  size_t capacity_;
  Range ranges_[kRanges];
  size_t made_ = 0;  ///< ranges; all but the last are used up
  Cell* free_ = nullptr;
  size_t used_ = 0, live_ = 0;  ///< cells of the last range; objects
};

}  // namespace weft
