// SPDX-License-Identifier: BSD-3-Clause
// Memory accesses of the enqueue protocol by host threads.
#pragma once
#include <cstdint>

#include "device/kernel/enqueue_protocol.hpp"

namespace emucuda {

/// The part of the protocol's Env except address translation.
struct EnqueueMemory {
  using LLPacket = weft::device::kernel::enqueue::LLPacket;
  static uint32_t peek(const uint32_t* from) { return __atomic_load_n(from, __ATOMIC_RELAXED); }
  static uint32_t load(const uint32_t* from) { return __atomic_load_n(from, __ATOMIC_ACQUIRE); }
  static void store(uint32_t* to, uint32_t value) { __atomic_store_n(to, value, __ATOMIC_RELEASE); }
  static void signal(uint32_t* to, uint32_t value) { store(to, value); }
  static void publish(uint32_t* to, uint32_t value) { store(to, value); }
  static void fence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
  static void put(LLPacket* to, uint32_t flag, uint64_t data) {
    auto* words = reinterpret_cast<uint64_t*>(to);
    __atomic_store_n(words, uint64_t{flag} << 32 | static_cast<uint32_t>(data), __ATOMIC_RELEASE);
    __atomic_store_n(words + 1, uint64_t{flag} << 32 | data >> 32, __ATOMIC_RELEASE);
  }
  static bool get(const LLPacket* from, uint32_t flag, uint64_t& data) {
    const auto* words = reinterpret_cast<const uint64_t*>(from);
    const uint64_t low = __atomic_load_n(words, __ATOMIC_ACQUIRE);
    const uint64_t high = __atomic_load_n(words + 1, __ATOMIC_ACQUIRE);
    data = high << 32 | static_cast<uint32_t>(low);
    return low >> 32 == flag && high >> 32 == flag;
  }
  static uint32_t add(uint32_t* to, uint32_t value) {
    return __atomic_fetch_add(to, value, __ATOMIC_ACQ_REL);
  }
  static bool exchange(uint32_t* at, uint32_t expected, uint32_t value) {
    return __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  }
};

}  // namespace emucuda
