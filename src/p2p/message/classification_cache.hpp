// SPDX-License-Identifier: BSD-3-Clause
// ClassificationCache: the active send and receive whose memory was classified last. Their classification
// holds for other buffers of the same allocation. Threading: under the instance lock.
#pragma once
#include "p2p/message/transfer.hpp"

namespace weft::p2p {

class ClassificationCache {
 public:
  /// Returns the cached transfer of the kind of `t`; null: none.
  [[nodiscard]] const Transfer* find(const Transfer& t) const { return slots_[slot_of(t)]; }
  /// Replaces the cached transfer: the one started last probably stays active longest.
  void set(Transfer& t) {
    Transfer*& slot = slots_[slot_of(t)];
    if (slot != nullptr) slot->classification_slot = nullptr;
    slot = &t;
    t.classification_slot = &slot;
  }
  /// Returns an active transfer on device memory; null: none is cached.
  [[nodiscard]] const Transfer* active() const { return slots_[0] != nullptr ? slots_[0] : slots_[1]; }

 private:
  [[nodiscard]] static bool slot_of(const Transfer& t) { return t.kind == core::Request::Kind::receive; }
  Transfer* slots_[2] = {};
};

}  // namespace weft::p2p
