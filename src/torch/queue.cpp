// SPDX-License-Identifier: BSD-3-Clause
#include "torch/queue.hpp"

#include <ctime>
#include <utility>

namespace weft::torch {
namespace {

constexpr unsigned kDisableTiming = 2;  // CU_EVENT_DISABLE_TIMING
constexpr int kNotReady = 600;          // CUDA_ERROR_NOT_READY
constexpr int kOutOfMemory = 2;         // CUDA_ERROR_OUT_OF_MEMORY
constexpr int kCaptureActive = 1;       // CU_STREAM_CAPTURE_STATUS_ACTIVE
constexpr double kSlowSeconds = 0.1;    // after which the watching thread looks at an operation

Outcome cuda(int code) { return {.cuda = code, .mpi = 0}; }

}  // namespace

double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void EventPool::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (void* event : free_) functions_.cuEventDestroy_v2(event);
  free_.clear();
}

void EventPool::give_back(void* event) {
  const std::lock_guard lock(mutex_);
  if (closed_)
    functions_.cuEventDestroy_v2(event);
  else
    free_.push_back(event);
}

Event EventPool::take() {
  void* event = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      event = free_.back();
      free_.pop_back();
    }
  }
  if (event == nullptr && functions_.cuEventCreate(&event, kDisableTiming) != 0) return nullptr;
  return {event, [pool = shared_from_this()](void* unused) { pool->give_back(unused); }};
}

/// The context of the GPU is current while this object lives: threads that have used another GPU, or none,
/// have another one.
class Queue::InContext {
 public:
  explicit InContext(const Queue& queue) : functions_(queue.functions_) {
    void* current = nullptr;
    functions_.cuCtxGetCurrent(&current);
    pushed_ = current != queue.context_ && functions_.cuCtxPushCurrent_v2(queue.context_) == 0;
  }
  ~InContext() {
    void* popped = nullptr;
    if (pushed_) functions_.cuCtxPopCurrent_v2(&popped);
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;

 private:
  const Functions& functions_;
  bool pushed_;
};

Queue::Queue(const Functions& functions, void* comm, void* own)
    : functions_(functions),
      comm_(comm),
      own_(own),
      pool_(std::make_shared<EventPool>(functions)),
      target_(own) {
  functions_.cuCtxGetCurrent(&context_);
}

int Queue::make(const Call& call) const {
  using enum Call::Function;
  switch (call.function) {
    case bcast:
      return functions_.MPIX_Bcast_enqueue_c(call.recv, call.count, call.type, call.root, comm_);
    case allreduce:
      return functions_.MPIX_Allreduce_enqueue_c(call.send, call.recv, call.count, call.type, call.op, comm_);
    case reduce_scatter_block:
      return functions_.MPIX_Reduce_scatter_block_enqueue_c(call.send, call.recv, call.count, call.type,
                                                            call.op, comm_);
    case allgather:
      return functions_.MPIX_Allgather_enqueue_c(call.send, call.count, call.type, call.recv, call.count,
                                                 call.type, comm_);
    case alltoall:
      return functions_.MPIX_Alltoall_enqueue_c(call.send, call.count, call.type, call.recv, call.count,
                                                call.type, comm_);
  }
  __builtin_unreachable();
}

/// Lets a captured stream wait for the operation before in another stream of the same capture: no stream can
/// wait for an event of another capture.
Outcome Queue::order_captured(void* current) {
  if (captured_.event == nullptr || captured_.stream == current) return {};
  int status = 0;
  uint64_t id = 0;
  if (const int code = functions_.cuStreamGetCaptureInfo_v2(current, &status, &id, nullptr, nullptr, nullptr);
      code != 0)
    return cuda(code);
  return captured_.id == id ? wait(current, captured_.event) : Outcome{};
}

/// Chooses the stream of the next operation, which follows the operations before and the current stream.
Outcome Queue::order(void* current, bool asynchronous, Operation& operation) {
  int status = 0;
  // The legacy default stream is never captured; the driver refuses to answer while another stream is.
  if (current != nullptr)
    if (const int code = functions_.cuStreamIsCapturing(current, &status); code != 0) return cuda(code);
  operation = {.stream = current, .captured = status == kCaptureActive, .any = false};
  if (operation.captured) {
    if (const Outcome outcome = order_captured(current); !outcome.ok()) return outcome;
  } else {
    bool ordered = last_ == nullptr || current == last_stream_;
    if (asynchronous) {
      if (begin_ == nullptr) begin_ = pool_->take();
      if (begin_ == nullptr) return cuda(kOutOfMemory);
      if (const int code = functions_.cuEventRecord(begin_.get(), current); code != 0) return cuda(code);
      if (const Outcome outcome = wait(own_, begin_); !outcome.ok()) return outcome;
      operation.stream = own_;
      ordered = ordered || own_ == last_stream_;
    }
    if (!ordered)
      if (const Outcome outcome = wait(operation.stream, last_); !outcome.ok()) return outcome;
  }
  if (operation.stream == target_) return {};
  const int code = functions_.MPIX_Stream_comm_redirect(comm_, operation.stream);
  if (code == 0) target_ = operation.stream;
  return {.cuda = 0, .mpi = code};
}

Outcome Queue::begin(void* current, bool asynchronous, const Call* calls, size_t count,
                     Operation& operation) {
  std::unique_lock lock(mutex_);
  if (closed_) return {.cuda = 0, .mpi = kErrComm};
  const InContext in_context(*this);
  Outcome outcome = order(current, asynchronous, operation);
  for (size_t i = 0; i < count && outcome.ok(); ++i) {
    operation.any = true;
    outcome.mpi = make(calls[i]);
  }
  if (operation.any) lock.release();
  return outcome;
}

Outcome Queue::end(const Operation& operation, Watched watched, Event& event, bool& watch) {
  const std::lock_guard lock(mutex_, std::adopt_lock);
  const InContext in_context(*this);
  event = pool_->take();
  if (event == nullptr) return cuda(kOutOfMemory);
  if (const int code = functions_.cuEventRecord(event.get(), operation.stream); code != 0) return cuda(code);
  if (operation.captured) {
    watch = !has_captured_.exchange(true, std::memory_order_relaxed);  // from a sleep without a limit
    int status = 0;
    captured_.stream = operation.stream;
    captured_.event = event;
    return cuda(functions_.cuStreamGetCaptureInfo_v2(operation.stream, &status, &captured_.id, nullptr,
                                                     nullptr, nullptr));
  }
  last_ = event;
  last_stream_ = operation.stream;
  watched.event = event;
  const std::lock_guard watched_lock(watched_mutex_);
  watch = watched_.empty();
  watched_.push_back(std::move(watched));
  return {};
}

Outcome Queue::wait(void* stream, const Event& event) {
  const InContext in_context(*this);
  return cuda(functions_.cuStreamWaitEvent(stream, event.get(), 0));
}

bool Queue::complete(const Event& event, Outcome& outcome) const {
  const InContext in_context(*this);
  const int code = functions_.cuEventQuery(event.get());
  outcome = cuda(code == kNotReady ? 0 : code);
  return code == 0;
}

bool Queue::idle(Outcome& outcome) {
  Event last;
  {
    const std::lock_guard lock(mutex_);
    last = last_;
  }
  return last == nullptr || complete(last, outcome);
}

/// Each operation follows the one before, so a binary search finds the complete ones: a query of an event
/// takes the driver's lock, which calls of the program need. The newest is queried first.
Outcome Queue::find_complete(std::vector<Watched>& done) {
  Outcome outcome;
  Event newest;  // that is complete
  size_t complete_count = 0, end = watched();
  for (size_t i = end - 1; complete_count < end; i = (complete_count + end) / 2) {
    Event event;
    {
      const std::lock_guard lock(watched_mutex_);
      if (i >= watched_.size()) return outcome;  // another thread has moved them
      event = watched_[i].event;
    }
    if (complete(event, outcome)) {
      complete_count = i + 1;
      newest = event;
    } else if (!outcome.ok()) {
      return outcome;
    } else {
      end = i;
    }
  }
  const std::lock_guard lock(watched_mutex_);
  if (complete_count == 0 || complete_count > watched_.size() || watched_[complete_count - 1].event != newest)
    return outcome;
  for (; complete_count > 0; --complete_count) {
    done.push_back(std::move(watched_.front()));
    watched_.pop_front();
  }
  return outcome;
}

void Queue::collect(std::vector<Watched>& done) {
  if (!has_complete_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(watched_mutex_);
  has_complete_.store(false, std::memory_order_relaxed);
  done.insert(done.end(), complete_.begin(), complete_.end());
  complete_.clear();
}

void Queue::forget(std::vector<Watched>& done) {
  const std::lock_guard lock(watched_mutex_);
  done.insert(done.end(), complete_.begin(), complete_.end());
  done.insert(done.end(), watched_.begin(), watched_.end());
  complete_.clear();
  watched_.clear();
}

Outcome Queue::retire(std::vector<Watched>& done) {
  collect(done);
  return find_complete(done);
}

/// Without elements nothing is enqueued, but the call fails if a kernel has left before its end.
bool Queue::may_have_failed() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || closed_) return false;  // the next time
  int revoked = 0;
  if (functions_.MPIX_Comm_is_revoked(comm_, &revoked) != 0 || revoked != 0) return true;
  if (!unchecked_ && !has_captured()) return false;
  if (functions_.MPIX_Bcast_enqueue_c(nullptr, 0, reinterpret_cast<void*>(kByte), 0, comm_) != 0) return true;
  unchecked_ = false;
  return false;
}

bool Queue::needs_look(double now) {
  std::vector<Watched> done;
  const Outcome found = find_complete(done);
  Watched first{};
  bool late = oldest(first) && (first.deadline < now || first.begin + kSlowSeconds < now);
  {
    const std::lock_guard lock(watched_mutex_);
    if (!done.empty()) {
      if (complete_.empty()) complete_since_ = now;
      complete_.insert(complete_.end(), done.begin(), done.end());
      has_complete_.store(true, std::memory_order_relaxed);
      unchecked_ = true;
    }
    late = late || (!complete_.empty() && complete_since_ + kSlowSeconds < now);
  }
  return !found.ok() || may_have_failed() || late;
}

bool Queue::oldest(Watched& found) {
  const std::lock_guard lock(watched_mutex_);
  if (watched_.empty()) return false;
  found = watched_.front();
  return true;
}

size_t Queue::watched() {
  const std::lock_guard lock(watched_mutex_);
  return watched_.size();
}

Outcome Queue::close() {
  int code = 0;
  if (target_ != own_) code = functions_.MPIX_Stream_comm_redirect(comm_, own_);
  target_ = own_;
  begin_ = last_ = captured_.event = nullptr;
  closed_ = true;
  pool_->close();
  return {.cuda = 0, .mpi = code};
}

}  // namespace weft::torch
