// SPDX-License-Identifier: BSD-3-Clause
// Sparse: a table with an entry for every process of the job, of which a process uses few. Pages that nobody
// touches take no memory, so a job of a million costs address space only.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace weft::p2p {

/// T has a member `bool met`, false at first; an entry is made, and `meet` called, when it is first asked
/// for.
template <class T>
class Sparse {
 public:
  using Meet = void (*)(void* owner, uint32_t index, T& entry);
  Sparse(size_t count, void* owner, Meet meet) : bytes_(count * sizeof(T)), owner_(owner), meet_(meet) {
    void* room =
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) throw std::bad_alloc();
    ::madvise(room, bytes_, MADV_NOHUGEPAGE);  // else the first touch takes 2 MiB
    entries_ = static_cast<T*>(room);
  }
  ~Sparse() {
    for (const uint32_t index : met_) std::destroy_at(entries_ + index);
    ::munmap(static_cast<void*>(entries_), bytes_);
  }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;

  [[nodiscard]] T& operator[](uint32_t index) {
    T& entry = entries_[index];
    if (!entry.met) [[unlikely]]
      make(index);
    return entry;
  }

 private:
  [[gnu::noinline]] void make(uint32_t index) {
    T* entry = std::construct_at(entries_ + index);
    entry->met = true;
    met_.push_back(index);
    meet_(owner_, index, *entry);
  }

  size_t bytes_;
  void* owner_;
  Meet meet_;
  T* entries_;
  std::vector<uint32_t> met_;
};

}  // namespace weft::p2p
