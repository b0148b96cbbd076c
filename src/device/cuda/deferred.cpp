// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/deferred.hpp"

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "base/counters.hpp"
#include "device/stream_words.hpp"

namespace weft::device {
namespace {

counters::Counter deferrals("gpu.deferred_releases", counters::Unit::events,
                            "Releases of GPU memory deferred because a stream may wait for a call");

std::atomic<uint64_t> waiting{0};

struct Deferred {
  std::function<void()> release;
  Memory mapped{};  // of an import
  std::string handle{};
};
std::mutex mutex;
std::vector<Deferred>& deferred() {
  static auto& list = *new std::vector<Deferred>;  // lives as long as the process
  return list;
}

void add(Deferred entry) {
  deferrals.add_shared();
  const std::lock_guard lock(mutex);
  deferred().push_back(std::move(entry));
}

}  // namespace

void streams_may_wait(int calls) { waiting.fetch_add(static_cast<uint64_t>(static_cast<int64_t>(calls))); }

namespace {
thread_local bool executes_for_stream = false;
}
ForStream::ForStream() { executes_for_stream = true; }
ForStream::~ForStream() { executes_for_stream = false; }
bool for_stream() { return executes_for_stream; }

namespace cuda {

void release_deferred() {
  std::vector<Deferred> released;
  {
    const std::lock_guard lock(mutex);
    released.swap(deferred());
  }
  for (const Deferred& entry : released) entry.release();
}

void release_or_defer(std::function<void()> release) {
  if (waiting.load() != 0) return add({std::move(release)});
  release_deferred();
  release();
}

void close_or_defer(const Memory& mapped, std::string handle, std::function<void()> close) {
  if (waiting.load() != 0) return add({std::move(close), mapped, std::move(handle)});
  release_deferred();
  close();
}

std::optional<Memory> revive(const std::string& handle, const void* context) {
  const std::lock_guard lock(mutex);
  for (auto at = deferred().begin(); at != deferred().end(); ++at) {
    if (handle.empty() || at->handle != handle || at->mapped.context != context) continue;
    const Memory mapped = at->mapped;
    deferred().erase(at);
    return mapped;
  }
  return std::nullopt;
}

}  // namespace cuda
}  // namespace weft::device
