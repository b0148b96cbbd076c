// SPDX-License-Identifier: BSD-3-Clause
// Sparse: a table with one entry per process that can be known, few of which are used. Untouched pages take
// no memory, so a job of a million processes costs address space only.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace weft::p2p {

/// T has a member `bool initialised`, initially false. The first access to an entry constructs it and calls
/// `initialise`.
template <class T>
class Sparse {
 public:
  using Initialise = void (*)(void* owner, uint32_t index, T& entry);
  Sparse(size_t count, void* owner, Initialise init_peer)
      : bytes_(count * sizeof(T)), owner_(owner), initialise_(init_peer) {
    void* pages =
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    ::madvise(pages, bytes_, MADV_NOHUGEPAGE);  // a huge page would cost 2 MiB per touched entry
    entries_ = static_cast<T*>(pages);
  }
  ~Sparse() {
    for (const uint32_t index : initialised_) std::destroy_at(entries_ + index);
    ::munmap(static_cast<void*>(entries_), bytes_);
  }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;

  [[nodiscard]] T& operator[](uint32_t index) {
    T& entry = entries_[index];
    if (!entry.initialised) [[unlikely]]
      make(index);
    return entry;
  }

  /// The entry belongs to another process now: constructs and initialises it anew.
  void renew(uint32_t index) {
    T& entry = (*this)[index];
    std::destroy_at(&entry);
    std::construct_at(&entry);
    entry.initialised = true;
    initialise_(owner_, index, entry);
  }

  /// The table as its users hold it: an access takes no more instructions than through the table itself.
  class View {
   public:
    explicit View(Sparse& table) : entries_(table.entries_), table_(&table) {}
    [[nodiscard]] T& operator[](uint32_t index) const {
      T& entry = entries_[index];
      if (!entry.initialised) [[unlikely]]
        table_->make(index);
      return entry;
    }

   private:
    T* entries_;
    Sparse* table_;
  };

  /// Calls f(index, entry) for all entries in use.
  template <class F>
  void for_each(F&& f) const {
    for (const uint32_t index : initialised_) f(index, entries_[index]);
  }

 private:
  [[gnu::noinline]] void make(uint32_t index) {
    T* entry = std::construct_at(entries_ + index);
    entry->initialised = true;
    initialised_.push_back(index);
    initialise_(owner_, index, *entry);
  }

  size_t bytes_;
  void* owner_;
  Initialise initialise_;
  T* entries_;
  std::vector<uint32_t> initialised_;
};

}  // namespace weft::p2p
