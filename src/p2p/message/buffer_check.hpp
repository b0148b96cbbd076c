// SPDX-License-Identifier: BSD-3-Clause
// BufferCheck: whether queued GPU work changes the elements of a typed buffer, for WEFT_CHECK=gpu.
// Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "core/communicator.hpp"
#include "device/race_check.hpp"
#include "p2p/message/transfer.hpp"

namespace weft::p2p {

class BufferCheck {
 public:
  enum class Side : uint8_t { input, output };
  enum class Verdict : uint8_t { pending, unchanged, changed };

  /// Takes a snapshot of the first `bytes` bytes of the packed stream. Returns false if there is nothing to
  /// compare: host memory, no queued GPU work, no elements, or elements in several allocations.
  [[nodiscard]] bool start(const Buffer& buffer, const device::Memory& memory, uint64_t bytes);
  /// The same for all of a buffer; classifies it.
  [[nodiscard]] bool start(const Buffer& buffer);
  /// Requires start(). `unchanged` also if the work did not end in time.
  [[nodiscard]] Verdict poll();
  /// The error of a changed buffer: problem, the call `call` on `comm`, buffer, position, remedy. `peer`: for
  /// messages, such as "to rank 1 with tag 7"; else empty. With check.gpu_races=report, writes it to the log
  /// and returns success.
  [[nodiscard]] Status report(Side side, const std::string& call, const core::Communicator& comm,
                              const std::string& peer) const;

 private:
  [[nodiscard]] Verdict compare();

  device::RaceCheck check_;
  Buffer buffer_{};
  device::Memory memory_;
  int64_t low_ = 0;       // displacement of the first byte of the snapshot
  uint64_t bytes_ = 0;    // of the packed stream
  uint64_t changed_ = 0;  // first changed byte of the packed stream
};

}  // namespace weft::p2p
