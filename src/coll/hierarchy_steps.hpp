// SPDX-License-Identifier: BSD-3-Clause
// What the steps of a collective by hosts share: calls on parts of a vector, the messages under way between
// hosts, room for partial results. For hierarchy.cpp and rails.cpp.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/result.hpp"
#include "coll/call.hpp"
#include "coll/schedule.hpp"
#include "core/instance.hpp"
#include "device/workspace.hpp"

namespace weft::coll {

/// A call on another communicator with the same vector.
[[nodiscard]] Call on(const Call& whole, Collective what, core::Communicator& comm, int root);

/// Its elements [first, first + n) only.
void narrow(Call& call, int64_t first, int64_t n, uint64_t element);

/// The setting coll.hierarchy_piece: bytes that one rank passes on to other hosts at a time.
[[nodiscard]] uint64_t piece_bytes(const Call& call);

/// A vector of `elements` in pieces of about `bytes`.
struct Pieces {
  int64_t count, each;
  Pieces(int64_t elements, int64_t element_bytes, uint64_t bytes)
      : count(elements),
        each(std::max<int64_t>(1, static_cast<int64_t>(bytes) / std::max<int64_t>(1, element_bytes))) {}
  [[nodiscard]] int64_t number() const { return std::max<int64_t>(1, (count + each - 1) / each); }
  [[nodiscard]] int64_t first(int64_t i) const { return i * each; }
  [[nodiscard]] int64_t size(int64_t i) const { return std::min(each, count - first(i)); }
};

/// The messages between hosts of one piece.
class UnderWay {
 public:
  explicit UnderWay(core::Instance& instance) : instance_(instance) {}
  ~UnderWay() { static_cast<void>(wait()); }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
  [[nodiscard]] Status start(const Call& call);
  [[nodiscard]] Status wait();

 private:
  core::Instance& instance_;
  core::Request* request_ = nullptr;
};

/// The first error of a call's steps. All are made whatever happened, since others wait for them; but once
/// one has failed, those after it move nothing, and who depends on them sees that.
class Outcome {
 public:
  explicit Outcome(const Call& call) {
    if (call.failed != nullptr) note(call.failed->copy());
  }
  void run(Call step);
  void start(UnderWay& messages, Call step);
  /// Null: none yet.
  [[nodiscard]] const Error* error() const { return first_.ok() ? nullptr : &first_.error(); }
  void note(Status status) {
    if (!status.ok() && first_.ok()) first_ = std::move(status);
  }
  [[nodiscard]] Status take() { return std::move(first_); }

 private:
  Status first_;
};

/// Room for a vector like an operand, in the same kind of memory.
class Like {
 public:
  [[nodiscard]] Status make(const Operand& operand);
  /// Without room: the operand that it was to be like, for steps that touch nothing.
  [[nodiscard]] const Operand& operand() const { return operand_; }

 private:
  Operand operand_;
  device::Workspace workspace_;
  std::unique_ptr<std::byte[]> heap_;
};

}  // namespace weft::coll
