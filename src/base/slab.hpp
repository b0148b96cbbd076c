// SPDX-License-Identifier: BSD-3-Clause
// Slab: a type-stable pool. Its address range is reserved once and never unmapped, so any value a caller
// presents can be checked by range, alignment and liveness without touching memory that is gone.
// Threading: acquire/release are serialised by the caller (the instance lock).
#pragma once
#include <sys/mman.h>

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

  /// Constructs an object; nullptr when the address range is used up.
  template <class... A>
  T* create(A&&... args) {
    Cell* cell = free_;
    if (cell != nullptr) {
      free_ = cell->next;
    } else {
      if (cells_ == nullptr && !reserve()) return nullptr;
      if (used_ == capacity_) return nullptr;
      cell = cells_ + used_++;
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
    const auto offset = reinterpret_cast<uintptr_t>(handle) - reinterpret_cast<uintptr_t>(cells_);
    if (cells_ == nullptr || offset >= used_ * sizeof(Cell) || offset % sizeof(Cell) != 0) [[unlikely]]
      return HandleState::foreign;
    return cells_[offset / sizeof(Cell)].live == kLive ? HandleState::live : HandleState::freed;
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
  bool reserve() {
    void* range = ::mmap(nullptr, capacity_ * sizeof(Cell), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return false;
    cells_ = static_cast<Cell*>(range);
    return true;
  }

  size_t capacity_;
  Cell* cells_ = nullptr;
  Cell* free_ = nullptr;
  size_t used_ = 0, live_ = 0;
};

}  // namespace weft
