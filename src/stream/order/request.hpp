// SPDX-License-Identifier: BSD-3-Clause
// Request: a nonblocking or persistent operation in stream order. The stream starts it; the host may complete
// it with any function, or the stream may await it. Threading: under the instance lock.
#pragma once
#include <cstdint>

#include "base/slab.hpp"
#include "core/communicator.hpp"
#include "core/instance.hpp"
#include "core/request.hpp"

namespace weft::stream::order {

class Executor;

class Request final : public core::Request, private core::Poller {
 public:
  Request(core::Communicator& communicator, Executor& executor);
  ~Request() override;
  static Slab<Request>& slab();
  /// The request if it is one of this class, else null.
  [[nodiscard]] static Request* of(core::Request& request) {
    return request.kind == Kind::ordered ? static_cast<Request*>(&request) : nullptr;
  }

  // Of the program, in call order.
  /// The stream will start it once more.
  void issue();
  /// It will not: its start could not be enqueued.
  void retract();
  /// The program has freed it: a captured one never completes for the host, and its graphs keep what they
  /// need.
  void drop_captured();
  /// The stream will await it: the program's view of it ends. Destroys it if it is not persistent.
  void leave_to_stream();
  Status start() override;
  Status cancel() override;
  void destroy() override { release(); }
  [[nodiscard]] core::Operands operands() const override;
  uint64_t capture = 0;      ///< id of the capture that contains the operation; 0: none
  bool host_memory = false;  ///< a buffer is memory that the program may access as soon as the call returns
  const char* name = "";     ///< of the function that created it
  /// Enqueues the start of a persistent request.
  using Restart = Status (*)(Request& request);
  Restart restart = nullptr;

  // Of the executor, in stream order.
  /// Runs `made`, an operation that has been started; null: it failed with `error`. `counts`: it was issued
  /// once, and not captured.
  void begin(core::Request* made, Status error, bool counts);
  /// Its start will not be executed.
  void skip(Status error, bool counts);
  /// The operation of a persistent request, made before.
  void adopt(core::Request& operation) { inner_ = &operation; }
  [[nodiscard]] core::Request* inner() const { return inner_; }
  /// Whether the operation that the stream has started last is in flight.
  [[nodiscard]] bool running() const { return running_; }
  /// Returns the outcome of the operation that has ended last.
  [[nodiscard]] Status ended_with() const;
  void retain() { ++references_; }
  void release();

 private:
  bool poll() override;
  void end();

  Executor& executor_;
  core::Request* inner_ = nullptr;
  Status ended_with_;
  uint32_t references_ = 1;                      // the program's, one per record, one while it runs
  uint64_t issued_ = 0, begun_ = 0, ended_ = 0;  // operations, not counting captured ones
  uint64_t cancelled_ = 0;                       // number of the operation cancelled last; 0: none
  bool running_ = false, counts_ = false;
};

/// A reference of a record.
class RequestRef {
 public:
  explicit RequestRef(Request& request) : request_(&request) { request.retain(); }
  RequestRef(RequestRef&& other) noexcept : request_(other.request_) { other.request_ = nullptr; }
  RequestRef(const RequestRef&) = delete;
  RequestRef& operator=(const RequestRef&) = delete;
  RequestRef& operator=(RequestRef&&) = delete;
  ~RequestRef() {
    if (request_ != nullptr) request_->release();
  }
  [[nodiscard]] Request& operator*() const { return *request_; }
  Request* operator->() const { return request_; }

 private:
  Request* request_;
};

}  // namespace weft::stream::order
