// SPDX-License-Identifier: BSD-3-Clause
#include "compat/mpich_handles.hpp"

#include <new>

namespace weft::compat {

bool several_threads = true;

void Slots::grow() {
  if (used_ == kChunks) throw std::bad_alloc();
  auto* const chunk = new Slot[kChunk];  // never freed: handles may be read at any time
  for (uint32_t i = 0; i < kChunk; ++i)
    chunk[i] = {reinterpret_cast<void*>(kInvalidNative), 0, i + 1 < kChunk ? used_ * kChunk + i + 1 : kNone};
  chunks_[used_].store(chunk, std::memory_order_release);
  free_ = used_++ * kChunk;
}

Handle Slots::add_locked(void* native, SlotKind kind) {
  const std::lock_guard guard(lock_);
  if (!kind.shared) return take(native, kind);
  if (known_ == nullptr) known_ = new std::unordered_map<void*, uint32_t>;
  const auto [entry, is_new] = known_->try_emplace(native, 0);
  if (!is_new) {
    ++slot(entry->second).references;
    return static_cast<Handle>(kind.tag << 26 | entry->second);
  }
  try {
    const Handle handle = take(native, kind);
    entry->second = index(handle);
    return handle;
  } catch (...) {
    known_->erase(entry);
    throw;
  }
}

void Slots::remove_locked(Handle handle, SlotKind kind) {
  const std::lock_guard guard(lock_);
  void* const native = this->native(handle);
  if (native == reinterpret_cast<void*>(kInvalidNative)) return;
  Slot& slot = this->slot(index(handle));
  if (--slot.references > 0) return;
  if (kind.shared) known_->erase(native);
  give(slot, index(handle));
}

}  // namespace weft::compat
