// SPDX-License-Identifier: BSD-3-Clause
// Counters: one registry of everything that the library counts. `MPIX_Counters`, tests and MPI_T
// performance variables read it. A counter is one declaration beside the code that counts.
#pragma once
#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

namespace weft::counters {

enum class Unit : uint8_t { events, bytes, nanoseconds, objects };
[[nodiscard]] const char* name_of(Unit unit);  ///< "events", "bytes", "ns", "objects"
/// total: grows; level: goes up and down; high_water: the highest value of a level.
enum class Kind : uint8_t { total, level, high_water };

/// A number that grows, a current level, or the highest value of a level. Static storage only.
class Counter {
 public:
  /// `name`: "p2p.stale_ids"; `help`: a noun phrase.
  Counter(const char* name, Unit unit, const char* help)
      : Counter(name, unit, help, unit == Unit::objects ? Kind::level : Kind::total) {}
  Counter(const char* name, Unit unit, const char* help, Kind kind);
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  /// Writers are serialised, by the instance lock or a lock of their own: no atomic read-modify-write.
  void add(uint64_t n = 1) {
    std::atomic<uint64_t>& value = cell();
    value.store(value.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void subtract(uint64_t n = 1) { add(0 - n); }
  /// The same rule for writers. Keeps the larger value.
  void raise_to(uint64_t n) {
    if (n > value()) cell().store(n, std::memory_order_relaxed);
  }
  /// Writers are several threads without a common lock. Returns the value before.
  uint64_t add_shared(uint64_t n = 1) { return cell().fetch_add(n, std::memory_order_relaxed); }
  /// Any thread may read.
  [[nodiscard]] uint64_t value() const { return cell().load(std::memory_order_relaxed); }
  [[nodiscard]] const char* name() const { return name_; }
  [[nodiscard]] const char* help() const { return help_; }
  [[nodiscard]] Unit unit() const { return unit_; }
  [[nodiscard]] Kind kind() const { return kind_; }

 private:
  friend void publish();
  [[nodiscard]] std::atomic<uint64_t>& cell() const { return *cell_.load(std::memory_order_relaxed); }
  const char* name_;
  const char* help_;
  mutable std::atomic<uint64_t> own_{0};
  std::atomic<std::atomic<uint64_t>*> cell_{&own_};  // own_, or a value in shared memory
  Unit unit_;
  Kind kind_;
};

/// Moves the values of all counters into shared memory for readers outside of the job (counter_table.hpp),
/// where they stay until the process ends. Later calls do nothing. Without memory nothing is published.
void publish();
/// All counters in the order of their names.
[[nodiscard]] std::vector<const Counter*> all();
/// The counter of this name; null if there is none.
[[nodiscard]] const Counter* find(std::string_view name);

}  // namespace weft::counters
