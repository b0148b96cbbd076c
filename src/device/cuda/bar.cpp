// SPDX-License-Identifier: BSD-3-Clause
#include "device/bar.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/counters.hpp"
#include "base/log.hpp"
#include "base/secure.hpp"
#include "device/copy.hpp"
#include "device/cuda/bar.hpp"
#include "device/pool.hpp"

namespace weft::device {
namespace {

config::Choice setting_gdrcopy("gpu.gdrcopy", 0, {"auto", "on", "off"},
                               "CPU access to GPU memory through gdrcopy for small messages: auto (if "
                               "installed and working), on (reports "
                               "a slow path if not working), off.",
                               "gdrcopy is installed and must not be used (off) or must work (on)");
config::Path setting_library("gpu.gdrcopy_library", "libgdrapi.so.2", "Name or path of the gdrcopy library.",
                             "gdrcopy is installed outside the linker's search path");

counters::Counter reads("gpu.gdrcopy_reads", counters::Unit::events,
                        "GPU messages read by the CPU through gdrcopy");
counters::Counter writes("gpu.gdrcopy_writes", counters::Unit::events,
                         "Messages written to GPU memory by the CPU through gdrcopy");
counters::Counter mapped_ranges("gpu.gdrcopy_mappings", counters::Unit::objects,
                                "Ranges of GPU memory mapped through gdrcopy");

log::SlowPath no_gdrcopy{"gpu.no_gdrcopy", "small GPU messages take about 3 us longer"};

constexpr uintptr_t kPage = 64 << 10;  // pinning granularity in bytes
constexpr size_t kMappings = 64, kDevices = 64;

struct Handle {  // gdr_mh_t
  unsigned long value;
};

/// The used functions of the gdrcopy library.
struct Library {
  void* (*open)() = nullptr;
  int (*close)(void*) = nullptr;
  int (*pin)(void*, unsigned long, size_t, uint64_t, uint32_t, Handle*) = nullptr;
  int (*unpin)(void*, Handle) = nullptr;
  int (*map)(void*, Handle, void**, size_t) = nullptr;
  int (*unmap)(void*, Handle, void*, size_t) = nullptr;
  int (*write)(Handle, void*, const void*, size_t) = nullptr;
  int (*read)(Handle, void*, const void*, size_t) = nullptr;
};

/// Pinned and mapped pages of one allocation.
struct Mapping {
  uintptr_t begin = 0, end = 0;
  uint64_t buffer_id = 0;
  Handle handle{};
  char* at = nullptr;
  uint64_t used = 0;
  [[nodiscard]] bool covers(uintptr_t address, size_t n, uint64_t id) const {
    return buffer_id == id && address >= begin && address + n <= end;
  }
};

enum class State : uint8_t { unknown, absent, ready };
enum class Verdict : uint8_t { unknown, works, fails };

std::atomic<State> state{State::unknown};
std::mutex mutex;  // guards all variables below
Library library;
void* session = nullptr;
auto& mappings = *new std::vector<Mapping>;
std::array<Verdict, kDevices> verdicts{};
uint64_t use_clock = 0;

void refuse(const std::string& why) {
  if (setting_gdrcopy.is("on")) no_gdrcopy.hit(why);
}

template <class F>
bool find(void* handle, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(handle, name));
  return function != nullptr;
}

/// Opens library and kernel module on the first call.
State open_library() {
  const std::lock_guard lock(mutex);
  if (state.load() != State::unknown) return state.load();
  const std::string& path = setting_library.value();
  void* handle = setting_gdrcopy.is("off") ? nullptr : secure::open_library(path, RTLD_NOW | RTLD_LOCAL);
  const bool usable =
      handle != nullptr && find(handle, "gdr_open", library.open) &&
      find(handle, "gdr_close", library.close) && find(handle, "gdr_pin_buffer", library.pin) &&
      find(handle, "gdr_unpin_buffer", library.unpin) && find(handle, "gdr_map", library.map) &&
      find(handle, "gdr_unmap", library.unmap) && find(handle, "gdr_copy_to_mapping", library.write) &&
      find(handle, "gdr_copy_from_mapping", library.read);
  session = usable ? library.open() : nullptr;
  if (!usable)
    refuse(setting_library.value() + " (WEFT_GPU_GDRCOPY_LIBRARY) cannot be used");
  else if (session == nullptr)
    refuse("gdr_open failed: the kernel module gdrdrv is not loaded");
  state.store(session != nullptr ? State::ready : State::absent);
  return state.load();
}

bool ready() {
  const State now = state.load(std::memory_order_acquire);
  return now == State::ready || (now == State::unknown && available() && open_library() == State::ready);
}

void unpin(const Mapping& mapping) {  // may fail for freed memory
  library.unmap(session, mapping.handle, mapping.at, mapping.end - mapping.begin);
  library.unpin(session, mapping.handle);
  mapped_ranges.subtract();
}

void unpin_all() {
  for (const Mapping& mapping : mappings) unpin(mapping);
  mappings.clear();
}

/// Pins and maps the pages of [address, address + n); null on failure.
Mapping* pin(uintptr_t address, size_t n, uint64_t id) {
  Mapping mapping;
  mapping.begin = address / kPage * kPage;
  mapping.end = (address + n + kPage - 1) / kPage * kPage;
  mapping.buffer_id = id;
  const size_t size = mapping.end - mapping.begin;
  // Drops stale pages of freed memory at the same addresses.
  std::erase_if(mappings, [&](const Mapping& old) {
    const bool gone = old.buffer_id != id && old.begin < mapping.end && mapping.begin < old.end &&
                      old.covers(address, n, old.buffer_id);
    if (gone) unpin(old);
    return gone;
  });
  if (mappings.size() == kMappings) {
    const auto oldest = std::min_element(mappings.begin(), mappings.end(),
                                         [](const Mapping& a, const Mapping& b) { return a.used < b.used; });
    unpin(*oldest);
    mappings.erase(oldest);
  }
  if (library.pin(session, mapping.begin, size, 0, 0, &mapping.handle) != 0) return nullptr;
  void* at = nullptr;
  if (library.map(session, mapping.handle, &at, size) != 0) {
    library.unpin(session, mapping.handle);
    return nullptr;
  }
  mapping.at = static_cast<char*>(at);
  mapped_ranges.add();
  mappings.push_back(mapping);
  return &mappings.back();
}

/// The mapping of a range, created on demand; null on failure.
Mapping* mapping_of(uintptr_t address, size_t n, uint64_t id) {
  for (Mapping& mapping : mappings)
    if (mapping.covers(address, n, id)) {
      mapping.used = ++use_clock;
      return &mapping;
    }
  Mapping* pinned = pin(address, n, id);
  if (pinned == nullptr)
    refuse("GPU memory cannot be pinned");
  else
    pinned->used = ++use_clock;
  return pinned;
}

bool read_mapped(uintptr_t address, uint64_t id, void* to, size_t n) {
  const Mapping* mapping = mapping_of(address, n, id);
  return mapping != nullptr &&
         library.read(mapping->handle, to, mapping->at + (address - mapping->begin), n) == 0;
}

bool write_mapped(uintptr_t address, uint64_t id, const void* from, size_t n) {
  const Mapping* mapping = mapping_of(address, n, id);
  return mapping != nullptr &&
         library.write(mapping->handle, mapping->at + (address - mapping->begin), from, n) == 0;
}

/// Whether BAR accesses and copy engines read each other's data.
bool moves_bytes(const Memory& memory) {
  std::array<char, 16> written{}, seen{};
  for (size_t i = 0; i < written.size(); ++i) written[i] = static_cast<char>(0x5a ^ (i * 37));
  auto* const at = reinterpret_cast<char*>(memory.base);
  if (!write_mapped(memory.base, memory.buffer_id, written.data(), written.size()) ||
      !copy(seen.data(), {}, at, memory, seen.size()) || seen != written)
    return false;
  std::reverse(written.begin(), written.end());
  return copy(at, memory, written.data(), {}, written.size()) &&
         read_mapped(memory.base, memory.buffer_id, seen.data(), seen.size()) && seen == written;
}

Verdict prove(const Memory& near) {
  auto scratch = allocate_scratch(near, kPage);
  if (!scratch) return Verdict::fails;
  const bool works = moves_bytes(*scratch);
  std::erase_if(mappings, [&](const Mapping& mapping) {
    const bool ours = mapping.buffer_id == scratch->buffer_id;
    if (ours) unpin(mapping);
    return ours;
  });
  free_scratch(*scratch);
  if (!works) refuse("a test transfer failed or returned wrong data");
  return works ? Verdict::works : Verdict::fails;
}

/// Whether the memory is cuMemAlloc memory on a device that passed the test transfer. Under the mutex.
bool reaches(const Memory& memory) {
  if (!memory.on_device() || !memory.legacy_ipc || memory.device < 0 ||
      static_cast<size_t>(memory.device) >= kDevices)
    return false;
  Verdict& verdict = verdicts[static_cast<size_t>(memory.device)];
  if (verdict == Verdict::unknown) verdict = prove(memory);
  return verdict == Verdict::works;
}

}  // namespace

bool bar_ready() { return ready(); }

bool bar_read(const void* from, const Memory& memory, void* to, size_t n) {
  if (!ready() || n > kMaxBarRead || !memory.covers(from, n)) return false;
  const std::lock_guard lock(mutex);
  if (!reaches(memory) || !read_mapped(reinterpret_cast<uintptr_t>(from), memory.buffer_id, to, n))
    return false;
  reads.add();
  return true;
}

bool bar_write(void* to, const Memory& memory, const void* from, size_t n) {
  if (!ready() || n > kMaxBarWrite || !memory.covers(to, n)) return false;
  const std::lock_guard lock(mutex);
  if (!reaches(memory) || !write_mapped(reinterpret_cast<uintptr_t>(to), memory.buffer_id, from, n))
    return false;
  writes.add();
  return true;
}

void cuda::close_bar() {
  const std::lock_guard lock(mutex);
  if (session != nullptr) {
    unpin_all();
    library.close(session);
  }
  session = nullptr;
  verdicts.fill(Verdict::unknown);
  state.store(State::unknown);
}

}  // namespace weft::device
