// SPDX-License-Identifier: BSD-3-Clause
// Records: calls of the program that a stream starts, and their two queues from GPU to CPU: of calls that are
// enqueued once, and of captured calls.
#pragma once
#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "core/communicator.hpp"
#include "core/instance.hpp"
#include "core/request.hpp"
#include "stream/order/words.hpp"
#include "stream/order/work.hpp"

namespace weft::stream::order {

/// An ordinary call with its arguments. Created, run and destroyed under the instance lock; a captured call
/// runs once per launch of its graph.
class Call {
 public:
  virtual ~Call() = default;
  [[nodiscard]] virtual Status run() = 0;
  /// The call will not be executed.
  virtual void skip(const Error&) {}
};

/// Receives the outcome of calls. Under the instance lock.
class Outcomes {
 public:
  virtual ~Outcomes() = default;
  virtual void call_failed(const char* name, const Error& error) = 0;
  virtual void call_ended(bool captured) = 0;
  /// A call has waited for longer than the limit: its stream goes on, and the call may still end.
  virtual void call_overdue(const char* name, const Error& error) = 0;
  virtual void overdue_call_ended() = 0;
  /// A call has not been executed, so later ones would match other calls of the peers.
  virtual void call_skipped(const char* name, const Error& error) = 0;
  /// Whether a call is not executed: an earlier one is overdue, or has been skipped and the program did not
  /// know when it enqueued this one. `number`: of the call on its communicator; 0: captured.
  [[nodiscard]] virtual bool skips(uint64_t number) const = 0;
};

class Executor;

/// A stream of the program, as its calls see it.
struct Place {
  void* stream;  ///< its handle
  Executor& executor;
  Queue& queue;
};

class Record final : public Work {
 public:
  /// `done`: finished when the call has run; may be null. `after`: set when the record may start; may be
  /// null.
  Record(core::Communicator& comm, const char* name, std::unique_ptr<Call> call,
         std::shared_ptr<Outcomes> outcomes, const Slot& words, const Place& place, bool is_captured)
      : slot(words),
        captured(is_captured),
        place_(place),
        comm_(core::Ref<core::Communicator>::share(&comm)),
        name_(name),
        call_(std::move(call)),
        outcomes_(std::move(outcomes)) {}
  void run() override;
  void skip() override;
  /// Whether the stream starts the call, and it may begin.
  [[nodiscard]] bool take_start() const {
    return (after == nullptr || after->load(std::memory_order_acquire)) && slot.take_start();
  }

  const Slot slot;
  const bool captured;
  core::Request* done = nullptr;             ///< finished after the call; null: none
  std::shared_ptr<std::atomic<bool>> after;  ///< the call begins when it is true; null: at once
  std::shared_ptr<std::atomic<bool>> ended;  ///< becomes true after the call; null: nobody waits
  uint64_t number = 0;                       ///< of the call on its communicator; 0: captured
  bool skipped = false;                      ///< has ended without having been executed

 private:
  class Limit;
  void execute();
  /// The stream goes on, though the call has not ended.
  void let_stream_go_on();
  void end();
  const Place place_;
  core::Ref<core::Communicator> comm_;
  const char* const name_;
  std::unique_ptr<Call> call_;
  std::shared_ptr<Outcomes> outcomes_;
};

/// The calls of one stream, in call order.
class StreamCalls final : public Queue {
 public:
  explicit StreamCalls(Words& words) : words_(words) {}
  void push(std::unique_ptr<Record> record) { records_.push_back(std::move(record)); }
  /// Takes back the record pushed last, which the stream does not start.
  [[nodiscard]] std::unique_ptr<Record> pop();
  [[nodiscard]] Work* started() override;
  void finished(Work& work) override;
  [[nodiscard]] Work* started_behind() override;
  [[nodiscard]] bool idle() const override { return records_.empty(); }
  void abandon() override { records_.clear(); }

 private:
  Words& words_;
  std::deque<std::unique_ptr<Record>> records_;
};

/// The calls of one capture, which may start again and again until its graphs are destroyed.
class CapturedCalls final : public Queue {
 public:
  explicit CapturedCalls(Words& words);
  ~CapturedCalls() override;
  void push(std::unique_ptr<Record> record) { records_.push_back(std::move(record)); }
  [[nodiscard]] std::unique_ptr<Record> pop();
  /// The graphs exist no more. Any thread, with any locks.
  void destroy() { destroyed_.store(true, std::memory_order_release); }
  [[nodiscard]] Work* started() override;
  void finished(Work& work) override;
  [[nodiscard]] Work* started_behind() override;
  [[nodiscard]] bool idle() const override {
    return records_.empty() && !destroyed_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool ended() const override { return released_; }
  void abandon() override { records_.clear(); }

 private:
  /// Destroys the records, under the instance lock.
  struct Release final : Work {
    explicit Release(CapturedCalls& owner) : calls(owner) {}
    void run() override { calls.release(); }
    CapturedCalls& calls;
  };
  void release();

  Words& words_;
  std::vector<std::unique_ptr<Record>> records_;
  size_t next_ = 0;  // the record that is expected to start
  Release release_;
  std::atomic<bool> destroyed_{false};
  bool released_ = false;
};

}  // namespace weft::stream::order
