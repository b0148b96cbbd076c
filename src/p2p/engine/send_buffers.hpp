// SPDX-License-Identifier: BSD-3-Clause
// Buffers for buffered mode (MPI 5.0 section 3.6): one for the process, one per session and per communicator.
// An owner is the address of the session or communicator; null: the process.
// Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/communicator.hpp"
#include "p2p/message/transfer.hpp"

namespace weft::p2p {

/// A message in a buffer: sent from `data`.
struct BufferedCopy {
  Transfer transfer{core::Request::Kind::send};
  std::vector<std::byte> data;
  int64_t charge = 0;
  uint64_t number = 0;  // increases with every buffered message of the process
};

struct SendBuffer {
  void* address;
  int64_t size;
  int64_t used = 0;
  std::vector<std::unique_ptr<BufferedCopy>> copies;  // in the order of `number`

  [[nodiscard]] bool automatic() const { return size == kAutomatic; }
  void reap() {
    std::erase_if(copies, [this](const std::unique_ptr<BufferedCopy>& copy) {
      if (!copy->transfer.complete()) return false;
      used -= copy->charge;
      return true;
    });
  }
};

class SendBuffers {
 public:
  [[nodiscard]] SendBuffer* find(const void* owner);
  /// Returns the buffer for sends on a communicator; null: none.
  [[nodiscard]] SendBuffer* of(const core::Communicator& comm);
  /// Returns the number of the oldest message in an owner's buffer; UINT64_MAX: none.
  [[nodiscard]] uint64_t oldest(const void* owner);
  [[nodiscard]] Status attach(const void* owner, void* address, int64_t size);
  void erase(const void* owner);
  [[nodiscard]] bool idle();
  /// Number of the next message. A flush waits for the messages up to last_number().
  uint64_t next_number() { return ++number_; }
  [[nodiscard]] uint64_t last_number() const { return number_; }

 private:
  std::unordered_map<const void*, SendBuffer> attached_;
  uint64_t number_ = 0;
};

}  // namespace weft::p2p
