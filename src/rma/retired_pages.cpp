// SPDX-License-Identifier: BSD-3-Clause
#include "rma/retired_pages.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "core/remote_memory.hpp"

namespace weft::rma {

void RetiredPages::remove_queue() {
  WEFT_ASSERT(queues_ != 0);
  if (--queues_ != 0) return;
  std::vector<Pages> pages;
  pages.swap(kept_);
  for (Pages& each : pages) free(std::move(each));
}

void RetiredPages::give(Pages pages) {
  if (queues_ == 0 || !pages.pinned) return free(std::move(pages));
  kept_.push_back(std::move(pages));
}

RetiredPages::Pages RetiredPages::take(uint64_t bytes) {
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const Pages& pages) { return pages.bytes == bytes; });
  if (bytes == 0 || found == kept_.end()) return {};
  Pages pages = std::move(*found);
  kept_.erase(found);
  std::memset(pages.memory, 0, bytes);
  return pages;
}

/// The driver may wait for kernels, which wait for another thread of this process: without the lock.
void RetiredPages::free(Pages pages) {
  if (pages.pinned) instance_.unlocked([&] { pages.pinned = {}; });
  instance_.remote_memory().rma().free(pages.memory);
}

}  // namespace weft::rma
