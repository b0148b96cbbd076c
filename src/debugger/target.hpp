// SPDX-License-Identifier: BSD-3-Clause
// Target: the memory of the process that is debugged, and the list of names in it (src/api/debugger.cpp) that
// tells where its objects are.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace weft::debugger {

/// A failed read of the process's memory.
struct Unreadable {};

class Target {
 public:
  /// Reads memory of the process; returns false on failure.
  using Read = std::function<bool(uint64_t address, size_t bytes, void* to)>;
  explicit Target(Read read) : read_(std::move(read)) {}

  /// Reads the list at `address`. Returns false if it is empty (before MPI_Init) or of another version.
  [[nodiscard]] bool load(uint64_t address);
  /// The value of a name, which the list has.
  [[nodiscard]] uint64_t operator[](const char* name) const { return names_.at(name); }

  // All throw Unreadable.
  template <class T>
  [[nodiscard]] T value(uint64_t address) const {
    T found{};
    fetch(address, sizeof found, &found);
    return found;
  }
  [[nodiscard]] uint64_t word(uint64_t address) const { return value<uint64_t>(address); }
  [[nodiscard]] std::string text(uint64_t address) const;                  ///< a std::string
  [[nodiscard]] std::string characters(uint64_t address, size_t n) const;  ///< up to a zero
  [[nodiscard]] std::vector<uint32_t> processes(uint64_t group) const;
  /// Addresses of the live objects of a slab.
  [[nodiscard]] std::vector<uint64_t> objects(const std::string& slab) const;
  /// Addresses of the nodes of a matching queue.
  [[nodiscard]] std::vector<uint64_t> nodes(const char* queue) const;

 private:
  void fetch(uint64_t address, size_t bytes, void* to) const {
    if (!read_(address, bytes, to)) throw Unreadable{};
  }
  Read read_;
  std::map<std::string, uint64_t, std::less<>> names_;
};

}  // namespace weft::debugger
