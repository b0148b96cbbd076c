// SPDX-License-Identifier: BSD-3-Clause
// The waits of kernels as a wait of this process: `weft hang` and `weft top` show it.
#include <utility>

#include "base/clock.hpp"
#include "rma/kernel_queue.hpp"
#include "rma/window.hpp"

namespace weft::rma {
namespace {

/// Time between two looks at what kernels wait for, and time without a sign of a wait after which it has
/// ended: a thread gives one every 1024 polls.
constexpr uint64_t kLookIntervalNs = 10'000'000, kMaxQuietNs = 200'000'000;

}  // namespace

/// Publishes a long wait of a kernel as a wait of this process.
void KernelQueue::observe_waits() {
  const uint64_t now = monotonic_ns();
  if (now < looked_ns_ + kLookIntervalNs) return;
  looked_ns_ = now;
  const uint32_t waits = __atomic_load_n(&status_.waits, __ATOMIC_ACQUIRE);
  if (waits != waits_seen_) {
    waits_seen_ = waits;
    waits_ns_ = now;
    publish_wait(now);
  } else if (waiting_since_ns_ != 0 && now > waits_ns_ + kMaxQuietNs) {
    waiting_since_ns_ = 0;
    if (record_ != nullptr) window_.instance.waits.withdraw(*std::exchange(record_, nullptr));
  } else if (record_ != nullptr) {
    publish_wait(now);
  }
}

void KernelQueue::publish_wait(uint64_t now) {
  static const char kCaller[] = "kernel";
  core::Operands wait{wait_table::What::window_operations, status_.waiting_rank};
  if (wait.rank < 0)
    wait = {wait_table::What::window_notification, -1, static_cast<int>(status_.waiting_counter)};
  if (waiting_since_ns_ == 0 || wait.what != waited_for_.what || wait.rank != waited_for_.rank ||
      wait.tag != waited_for_.tag) {
    if (record_ != nullptr) window_.instance.waits.withdraw(*std::exchange(record_, nullptr));
    waiting_since_ns_ = now;
    waited_for_ = wait;
  }
  if (now < waiting_since_ns_ + wait_table::kPublishNs) return;
  window_.instance.waits.publish(record_, {reinterpret_cast<uint64_t>(kCaller), window_.comm.get()},
                                 {nullptr, &waited_for_, window_.comm.get()}, waiting_since_ns_, now);
}

}  // namespace weft::rma
