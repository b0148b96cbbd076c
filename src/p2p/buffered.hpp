// SPDX-License-Identifier: BSD-3-Clause
// Buffers for buffered mode (MPI 5.0 section 3.6): one for the process, one for each session and
// communicator. An owner is the address of the session or communicator; null: the process. Threading: the
// instance lock.
#pragma once
#include <cstdint>
#include <unordered_map>

#include "core/communicator.hpp"

namespace weft::p2p {

struct SendBuffer;

class SendBuffers {
 public:
  SendBuffers();
  ~SendBuffers();
  [[nodiscard]] SendBuffer* find(const void* owner);
  /// The buffer that sends on a communicator use, or null.
  [[nodiscard]] SendBuffer* of(const core::Communicator& comm);
  /// Number of the oldest message that an owner's buffer holds; the greatest number when there is none.
  [[nodiscard]] uint64_t oldest(const void* owner);
  [[nodiscard]] Status attach(const void* owner, void* address, int64_t size);
  void erase(const void* owner);
  [[nodiscard]] bool idle();
  /// Messages are counted, so that a flush knows those that were there before it.
  uint64_t next_number() { return ++number_; }
  [[nodiscard]] uint64_t last_number() const { return number_; }

 private:
  std::unordered_map<const void*, SendBuffer> attached_;
  uint64_t number_ = 0;
};

}  // namespace weft::p2p
