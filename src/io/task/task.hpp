// SPDX-License-Identifier: BSD-3-Clause
// Task: a coroutine that executes an access. It is suspended while it waits for an event and resumed by
// polling, so that blocking, nonblocking and split calls share one implementation.
// Threading: under the instance lock.
#pragma once
#include <coroutine>
#include <new>
#include <utility>

#include "base/result.hpp"

namespace weft::io {

/// Something that a task waits for. It lives in the frame of the task.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  virtual ~Event() = default;
  [[nodiscard]] virtual bool ready() = 0;
};

class [[nodiscard]] Task {
 public:
  /// The innermost suspended task of a chain of tasks, and the event that it waits for.
  struct Context {
    std::coroutine_handle<> leaf;
    Event* event = nullptr;
  };

  struct promise_type {
    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> task) noexcept {
        const promise_type& promise = task.promise();
        promise.context->leaf = promise.parent;
        if (promise.parent) return promise.parent;
        return std::noop_coroutine();
      }
      void await_resume() noexcept {}
    };
    Final final_suspend() noexcept { return {}; }
    void return_value(Status status) { result = std::move(status); }
    void unhandled_exception() {
      try {
        throw;
      } catch (const std::bad_alloc&) {
        result = Error(Errc::no_mem, "out of memory in a file access: free memory, or access less at once");
      }
    }

    struct AwaitEvent {
      Event& event;
      [[nodiscard]] bool await_ready() { return event.ready(); }
      void await_suspend(std::coroutine_handle<promise_type> task) {
        task.promise().context->event = &event;
        task.promise().context->leaf = task;
      }
      void await_resume() {}
    };
    AwaitEvent await_transform(Event& event) { return {event}; }
    struct AwaitTask {
      Task& task;
      [[nodiscard]] bool await_ready() { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> parent) {
        promise_type& child = task.handle_.promise();
        child.context = parent.promise().context;
        child.parent = parent;
        return task.handle_;
      }
      Status await_resume() { return std::move(task.handle_.promise().result); }
    };
    /// The awaited task must be a named variable.
    AwaitTask await_transform(Task& task) { return {task}; }

    Context* context = nullptr;
    std::coroutine_handle<promise_type> parent;
    Status result;
  };

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Task(const Task&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  /// Prepares the task to be run by step().
  void begin(Context& context) {
    handle_.promise().context = &context;
    context.leaf = handle_;
  }
  /// Resumes the task if its event is ready. Returns whether it was resumed.
  static bool step(Context& context) {
    if (context.event != nullptr && !context.event->ready()) return false;
    context.event = nullptr;
    context.leaf.resume();
    return true;
  }
  [[nodiscard]] bool done() const { return handle_.done(); }
  [[nodiscard]] Status& result() { return handle_.promise().result; }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

}  // namespace weft::io

/// Returns the error of a failed Result from the enclosing task.
#define WEFT_CO_TRY(expression)                                      \
  do {                                                               \
    if (auto weft_try_ = (expression); !weft_try_.ok()) [[unlikely]] \
      co_return std::move(weft_try_).error();                        \
  } while (0)
