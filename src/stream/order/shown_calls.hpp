// SPDX-License-Identifier: BSD-3-Clause
// Shown calls: the calls of one stream outside of captures, which readers from outside see
// (base/queued_table.hpp). Created and destroyed under the instance lock; otherwise as StreamCalls.
#pragma once
#include <deque>
#include <memory>
#include <utility>

#include "base/queued_table.hpp"
#include "core/communicator.hpp"
#include "stream/order/record.hpp"
#include "stream/order/words.hpp"

namespace weft::stream::order {

class ShownCalls final : public Queue {
 public:
  /// `stream`: its handle, as the program knows it.
  ShownCalls(Words& words, const void* stream);
  ~ShownCalls() override;
  ShownCalls(const ShownCalls&) = delete;
  ShownCalls& operator=(const ShownCalls&) = delete;

  /// A call as readers see it. Under the instance lock.
  struct Description {
    Description(const core::Communicator& comm, const char* name);
    queued_table::HostCall call{};
  };
  void push(std::unique_ptr<Record> record, const Description& description);
  /// Takes back the record pushed last, which the stream does not start.
  [[nodiscard]] std::unique_ptr<Record> pop();
  [[nodiscard]] Work* started() override;
  void finished(Work& work) override;
  [[nodiscard]] Work* started_behind() override { return calls_.started_behind(); }
  [[nodiscard]] bool idle() const override { return calls_.idle(); }
  void abandon() override;

 private:
  [[nodiscard]] queued_table::HostCall& shown(uint64_t number) {
    return shown_calls_[number % queued_table::kHostCalls];
  }
  void hide_first();

  StreamCalls calls_;
  std::deque<const Record*> records_;  // those of calls_
  queued_table::HostCalls shown_{};
  const std::unique_ptr<queued_table::HostCall[]> shown_calls_;
};

}  // namespace weft::stream::order
