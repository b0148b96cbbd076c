// SPDX-License-Identifier: BSD-3-Clause
// SlotArea: the region of shared memory in which a rank publishes data and descriptors of collectives for the
// other ranks of a communicator. Valid when zeroed.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/shm/layout.hpp"

namespace weft::coll::host {

using transport::shm::kCacheLine;

inline constexpr uint32_t kSlots = 32, kPages = 8;
inline constexpr int kMaxRanks = 32;  ///< of a communicator that uses slot areas
inline constexpr size_t kSlotBytes = 48, kPageBytes = 16 * 1024;

/// Data published by a rank in one step of a blocking collective. `sequence`, the step number, is stored
/// last. Data larger than kSlotBytes are in the step's page.
struct Slot {
  alignas(kCacheLine) std::atomic<uint64_t> sequence;
  uint32_t size;
  alignas(16) std::byte data[kSlotBytes];
};

inline constexpr uint32_t kCallDescriptors = 32;
inline constexpr size_t kCallDescriptorBytes = 312, kSetupBytes = 504;
/// Calls, order slots and starts are numbered from here on: the numbers wrap early, so that every program
/// exercises it.
inline constexpr uint32_t kFirstCall = 0U - 24;

/// Descriptor of one nonblocking or persistent collective call; `number` is stored last.
struct CallDescriptor {
  alignas(kCacheLine) std::atomic<uint32_t> number;
  alignas(8) std::byte data[kCallDescriptorBytes];
};

/// State of a rank's one-time setup of GPU collectives; `stage` is stored last.
struct SetupDescriptor {
  alignas(kCacheLine) std::atomic<uint32_t> stage;
  alignas(8) std::byte data[kSetupBytes];
};

/// Shared memory of one rank in one communicator: written by its owner, read by the communicator's other
/// ranks. Blocking collectives use slots and pages round-robin; coll/gpu uses the other fields.
struct SlotArea : transport::shm::LeasedRegion {
  alignas(kCacheLine) std::atomic<uint64_t> done;  ///< last step whose data the owner has acknowledged
  Slot slots[kSlots];
  alignas(kCacheLine) std::atomic<uint32_t> seen;      ///< last call descriptor read by the owner
  alignas(kCacheLine) std::atomic<uint32_t> finished;  ///< calls finished by the owner
  static constexpr uint64_t kUnassigned = UINT64_MAX;  ///< of an order slot: no call has the key UINT32_MAX
  /// Order in which all ranks run the calls: number << 32 | key of the call; only the slot area of rank 0 is
  /// used.
  alignas(kCacheLine) std::atomic<uint64_t> order_slots[kCallDescriptors / 4];
  std::atomic<uint64_t> failed;  ///< last call whose kernel failed on the owner's GPU
  /// Last call that the owner's kernels have ended: they push nothing of it, nor of earlier ones, any more.
  std::atomic<uint64_t> ended;
  /// 1 once the owner has given up a step because a rank has failed: what it published may change.
  std::atomic<uint32_t> broken;
  /// Builds with assertions: the last step whose data the owner has read, and the steps for which it has
  /// claimed its slots and pages.
  alignas(kCacheLine) std::atomic<uint64_t> read;
  std::atomic<uint64_t> slot_steps[kSlots], page_steps[kPages];
  SetupDescriptor setup;
  CallDescriptor call_descriptors[kCallDescriptors];
  alignas(4096) std::byte pages[kPages][kPageBytes];

  /// Clears all words but the data, by the owner at the start of a lease.
  void clear();
};

}  // namespace weft::coll::host
