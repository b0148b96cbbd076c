// SPDX-License-Identifier: BSD-3-Clause
// CheckedTransfers: sends and receives of GPU memory whose buffers are compared for WEFT_CHECK=gpu. An inner
// transfer moves the data; the program's transfer completes when the data has moved and the buffer has been
// compared, with an error if queued GPU work has changed it. Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "core/instance.hpp"
#include "p2p/message/buffer_check.hpp"

namespace weft::p2p {

class CheckedTransfers final : public core::Poller {
 public:
  explicit CheckedTransfers(core::Instance& instance) : instance_(instance) {}
  ~CheckedTransfers() override;
  CheckedTransfers(const CheckedTransfers&) = delete;
  CheckedTransfers& operator=(const CheckedTransfers&) = delete;

  /// The inner transfer for a transfer that is filled in and about to start; the caller starts it. Takes the
  /// snapshot of a send. Null: there is nothing to compare, start `t` itself. Messages of collectives, and
  /// buffers in host memory, are not compared.
  [[nodiscard]] Transfer* make_inner(Transfer& t);
  /// The inner transfer of an active transfer; null: it has none.
  [[nodiscard]] Transfer* find_inner(const Transfer& t) const;
  /// Whether the transfer moves the data of another one: the program does not know it.
  [[nodiscard]] bool is_inner(const Transfer& t) const;
  bool poll() override;

 private:
  struct Entry {
    Transfer* outer;
    Transfer* inner;
    const char* call;       // name of the MPI call that has started it
    bool comparing, asked;  // `check` was started; the receive has asked for it
    BufferCheck check;
  };
  /// Returns whether the transfer has ended.
  [[nodiscard]] bool advance(Entry& entry);
  void end(std::unique_ptr<Entry> entry);

  core::Instance& instance_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace weft::p2p
