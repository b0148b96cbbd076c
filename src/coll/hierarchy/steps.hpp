// SPDX-License-Identifier: BSD-3-Clause
// Steps of hierarchical collectives: calls on parts of a vector, the request in progress between hosts,
// temporary vectors.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/result.hpp"
#include "coll/schedule/call.hpp"
#include "coll/schedule/collective.hpp"
#include "core/instance.hpp"
#include "device/pool.hpp"

namespace weft::coll {

/// A call with the same operands on another communicator.
[[nodiscard]] Call derive_call(const Call& whole, Collective what, core::Communicator& comm, int root);

/// Restricts the call to elements [first, first + n) of its vectors; `element` is their size in bytes.
void select_elements(Call& call, int64_t first, int64_t n, uint64_t element);

/// The setting coll.hierarchy_segment_bytes, in bytes.
[[nodiscard]] uint64_t segment_bytes(const Call& call);

/// A vector of `elements` in segments of about `bytes` bytes.
struct VectorSegments {
  int64_t total, segment;
  VectorSegments(int64_t elements, int64_t element_bytes, uint64_t bytes)
      : total(elements),
        segment(std::max<int64_t>(1, static_cast<int64_t>(bytes) / std::max<int64_t>(1, element_bytes))) {}
  [[nodiscard]] int64_t count() const { return std::max<int64_t>(1, (total + segment - 1) / segment); }
  [[nodiscard]] int64_t first(int64_t i) const { return i * segment; }
  [[nodiscard]] int64_t size(int64_t i) const { return std::min(segment, total - first(i)); }
};

/// The nonblocking collective between hosts for one segment.
class InterHostRequest {
 public:
  explicit InterHostRequest(core::Instance& instance) : instance_(instance) {}
  ~InterHostRequest() { static_cast<void>(wait()); }
  InterHostRequest(const InterHostRequest&) = delete;
  InterHostRequest& operator=(const InterHostRequest&) = delete;
  [[nodiscard]] Status start(const Call& call);
  [[nodiscard]] Status wait();

 private:
  core::Instance& instance_;
  core::Request* request_ = nullptr;
};

/// Runs the steps of a call and keeps their first error. After an error the remaining steps still run, since
/// other ranks wait for them, but with empty messages, which the peers detect.
class StepRunner {
 public:
  explicit StepRunner(const Call& call) {
    if (call.failed != nullptr) record_error(call.failed->copy());
  }
  void run(Call step);
  void start(InterHostRequest& inter_host, Call step);
  /// The first error; null: none so far.
  [[nodiscard]] const Error* error() const { return error_.ok() ? nullptr : &error_.error(); }
  void record_error(Status status) {
    if (!status.ok() && error_.ok()) error_ = std::move(status);
  }
  [[nodiscard]] Status take() { return std::move(error_); }

 private:
  Status error_;
};

/// Temporary memory for a vector like an operand, in the same kind of memory.
class TemporaryVector {
 public:
  [[nodiscard]] Status allocate(const Operand& operand);
  /// After a failed allocate(): the original operand, for steps that touch no data.
  [[nodiscard]] const Operand& operand() const { return operand_; }

 private:
  Operand operand_;
  device::Workspace workspace_;
  std::unique_ptr<std::byte[]> heap_;
};

}  // namespace weft::coll
