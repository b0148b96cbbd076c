// SPDX-License-Identifier: BSD-3-Clause
// Slab: a type-stable pool. Its memory is never unmapped, so any handle value is validated by range,
// alignment and liveness without reading unmapped memory. Each range is four times the previous one, which
// keeps the initial address space small (ulimit -v, no overcommit). Threading: create, destroy and check are
// serialised by the caller (the instance lock).
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "base/result.hpp"

namespace weft {

/// Result of validating a handle value; foreign: not an object of this slab.
enum class HandleState { live, freed, foreign };

/// Pool of objects of type T with stable addresses. Liveness is stored next to the object, not in T.
template <class T>
class Slab {
 public:
  explicit Slab(size_t capacity = size_t{1} << 24) : capacity_(capacity) {}
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  /// Constructs an object; nullptr if the slab is at capacity or memory is exhausted.
  template <class... A>
  T* create(A&&... args) {
    Cell* cell = free_;
    if (cell != nullptr) {
      free_ = cell->next;
    } else {
      if (used_ == last_capacity() && !grow()) return nullptr;
      cell = ranges_[range_count_ - 1].cells + used_++;
    }
    Unused unused{*this, cell};
    T* object = new (cell->storage) T(std::forward<A>(args)...);
    unused.cell = nullptr;
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

  /// Classifies any value; reads only memory of the slab.
  [[nodiscard]] HandleState check(const void* handle) const {
    size_t cells = used_;
    for (size_t i = range_count_; i-- > 0; cells = i != 0 ? ranges_[i - 1].capacity : 0) {
      const auto offset = reinterpret_cast<uintptr_t>(handle) - reinterpret_cast<uintptr_t>(ranges_[i].cells);
      if (offset >= cells * sizeof(Cell)) continue;
      if (offset % sizeof(Cell) != 0) [[unlikely]]
        return HandleState::foreign;
      return static_cast<const Cell*>(handle)->live == kLive ? HandleState::live : HandleState::freed;
    }
    return HandleState::foreign;
  }

  /// Calls `visit(object)` for each live object, in the order of addresses of a range. `visit` must not
  /// create objects.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (size_t i = 0; i < range_count_; ++i) {
      const size_t cells = i + 1 == range_count_ ? used_ : ranges_[i].capacity;
      for (size_t n = 0; n < cells; ++n)
        if (Cell& cell = ranges_[i].cells[n]; cell.live == kLive) visit(*reinterpret_cast<T*>(cell.storage));
    }
  }

  [[nodiscard]] size_t live() const { return live_; }

 private:
  static constexpr uint32_t kLive = 0x7765'6674, kFreed = 0x6672'6565;
  struct Cell {
    alignas(T) unsigned char storage[sizeof(T)];  // first member: the object's address is the cell's
    Cell* next;
    uint32_t live;
  };
  /// Returns the cell to the slab if the constructor throws.
  struct Unused {
    ~Unused() {
      if (cell == nullptr) return;
      cell->live = kFreed;
      cell->next = slab.free_;
      slab.free_ = cell;
    }
    Slab& slab;
    Cell* cell;
  };
  static Cell* cell_of(T* object) { return reinterpret_cast<Cell*>(object); }
  struct Range {
    Cell* cells = nullptr;
    size_t capacity = 0;
  };
  static constexpr size_t kFirstBytes = size_t{256} << 10, kRanges = 12;

  /// Cells of the newest range.
  [[nodiscard]] size_t last_capacity() const {
    return range_count_ == 0 ? 0 : ranges_[range_count_ - 1].capacity;
  }
  /// Maps another range of unused cells; halves its size while mmap fails.
  bool grow() {
    size_t total = 0;
    for (const Range& range : ranges_) total += range.capacity;
    const size_t first = std::max<size_t>(kFirstBytes / sizeof(Cell), 16);
    size_t cells = std::min(range_count_ == 0 ? first : last_capacity() * 4, capacity_ - total);
    if (range_count_ == kRanges) return false;
    for (; cells != 0; cells = cells > first ? cells / 2 : 0) {
      void* memory = ::mmap(nullptr, cells * sizeof(Cell), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) continue;
      ranges_[range_count_++] = {static_cast<Cell*>(memory), cells};
      used_ = 0;
      return true;
    }
    return false;
  }

  size_t capacity_;
  Range ranges_[kRanges];
  size_t range_count_ = 0;  ///< all ranges but the last are full
  Cell* free_ = nullptr;
  size_t used_ = 0, live_ = 0;  ///< used cells of the last range; live objects
};

}  // namespace weft
