// SPDX-License-Identifier: BSD-3-Clause
// Memory of a kind that the program asks MPI for (mpi_memory_alloc_kinds). GPU memory is allocated in the
// caller's current context; no context is created. Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "device/memory.hpp"

namespace weft::device {

/// Memory kinds that a program accepts, best first.
struct AllocationKinds {
  struct Entry {
    std::string text;  ///< as the program wrote it
    MemoryKind kind;
  };
  std::string text;  ///< the whole list
  std::vector<Entry> entries;

  /// Calls `attempt(entry)`, which returns a Status, until it succeeds. Returns the text of that entry, or
  /// Errc::no_mem with all reasons.
  template <class Attempt>
  [[nodiscard]] Result<std::string> first(Attempt&& attempt) const {
    std::string reasons;
    for (const Entry& entry : entries) {
      const Status made = attempt(entry);
      if (made.ok()) return entry.text;
      reasons += (reasons.empty() ? "" : "; ") + entry.text + ": " + made.error().message();
    }
    if (reasons.empty()) reasons = "known are system, mpi, cuda:device, cuda:host and cuda:managed";
    return Error(Errc::no_mem, "mpi_memory_alloc_kinds = " + text + ": no listed kind can be allocated (" +
                                   reasons + "): add system to the list");
  }
};

/// Memory of the driver; freed on destruction. Tolerates a destroyed context.
class Allocation {
 public:
  Allocation() = default;
  Allocation(Allocation&& other) noexcept { swap(other); }
  Allocation& operator=(Allocation&& other) noexcept {
    Allocation(std::move(other)).swap(*this);
    return *this;
  }
  ~Allocation();
  /// Allocates at least `bytes` of a kind other than MemoryKind::host. GPU memory can be mapped by peers.
  [[nodiscard]] static Result<Allocation> create(MemoryKind kind, size_t bytes);
  [[nodiscard]] explicit operator bool() const { return memory_.base != 0; }
  [[nodiscard]] std::byte* data() const { return reinterpret_cast<std::byte*>(memory_.base); }
  [[nodiscard]] const Memory& memory() const { return memory_; }

 private:
  void swap(Allocation& other) noexcept { std::swap(memory_, other.memory_); }
  Memory memory_;
};

/// A description by which register_host() finds the caller's current context. Errc::unsupported with the
/// reason if there is none.
[[nodiscard]] Result<Memory> current_context();

}  // namespace weft::device
