// SPDX-License-Identifier: BSD-3-Clause
// File: individual and shared file pointers. The shared pointer is a word in a window at rank 0: other
// processes of its host change it in place, those of other hosts by messages that rank 0 executes.
#include <numeric>

#include "core/op.hpp"
#include "datatype/predefined.hpp"
#include "io/backend/error.hpp"
#include "io/file/file.hpp"

namespace weft::io {
namespace {

constexpr uintptr_t kSum = 0x21, kReplace = 0x3c, kNoOp = 0x3d, kInt64 = 0x258;  // handles of the ABI

/// An atomic operation on the shared file pointer. Destroyed only when ready().
class PointerUpdate final : public Event {
 public:
  PointerUpdate(rma::Window& window, uintptr_t op, int64_t operand) : operand_(operand) {
    const datatype::Datatype& type = *datatype::predefined(kInt64);
    request_ = rma::WindowRequest::slab().create();
    if (request_ == nullptr) {
      outcome_ = core::no_more_requests();
      return;
    }
    const p2p::Buffer result = p2p::buffer_of(&old, 1, type);
    outcome_ = window.accumulate(p2p::buffer_of(&operand_, 1, type), &result, {0, 0, 1, type},
                                 *core::Op::predefined(op), request_);
  }
  ~PointerUpdate() override {
    if (request_ == nullptr) return;
    if (request_->complete())
      request_->destroy();
    else
      request_->detached = true;
  }
  [[nodiscard]] bool ready() override { return !outcome_.ok() || request_->complete(); }
  [[nodiscard]] Status take() { return outcome_.ok() ? std::move(request_->outcome) : std::move(outcome_); }

  int64_t old = 0;  ///< value before the operation, when ready

 private:
  const int64_t operand_;
  rma::WindowRequest* request_;
  Status outcome_;
};

Status add_checked(int64_t base, int64_t offset, int64_t& sum) {
  if (__builtin_add_overflow(base, offset, &sum) || sum < 0)
    return Error(Errc::arg, "offset = " + std::to_string(offset) + " moves the file pointer from " +
                                std::to_string(base) + " to before the start of the view");
  return {};
}

}  // namespace

Result<int64_t> File::end_position() const {
  auto bytes = size();
  if (!bytes) return bytes;
  return (view->stream_before(*bytes) + view->etype_size - 1) / view->etype_size;
}

Status File::seek(int64_t offset, Whence whence) {
  WEFT_TRY(check_random_access());
  int64_t base = whence == Whence::current ? position_ : 0;
  if (whence == Whence::end) {
    auto end = end_position();
    if (!end) return std::move(end).error();
    base = *end;
  }
  return add_checked(base, offset, position_);
}

Result<int64_t> File::shared_position() {
  if (shared_ == nullptr) return local_shared_;
  PointerUpdate query(*shared_, kNoOp, 0);
  core::wait_until(instance, [&] { return query.ready(); });
  WEFT_TRY(query.take());
  return query.old;
}

/// Collective: all earlier accesses by the shared pointer have their offsets before it changes.
Status File::set_shared(int64_t value) {
  if (shared_ == nullptr) {
    local_shared_ = value;
    return {};
  }
  WEFT_TRY(agree({}));
  Status own;
  if (comm->rank() == 0) {
    PointerUpdate update(*shared_, kReplace, value);
    core::wait_until(instance, [&] { return update.ready(); });
    own = update.take();
  }
  return agree(std::move(own));
}

Status File::seek_shared(int64_t offset, Whence whence) {
  Status own;
  int64_t base = 0, value = 0;
  if (whence != Whence::set) {
    auto found = whence == Whence::current ? shared_position() : end_position();
    if (found)
      base = *found;
    else
      own = std::move(found).error();
  }
  if (own.ok()) own = add_checked(base, offset, value);
  WEFT_TRY(agree(std::move(own)));
  return set_shared(value);
}

Task File::fetch_shared(Operation& operation, int64_t etypes, bool ordered, int64_t& first) {
  if (shared_ == nullptr) {
    first = local_shared_;
    local_shared_ += etypes;
    co_return Status();
  }
  if (!ordered) {
    PointerUpdate update(*shared_, kSum, etypes);
    co_await update;
    first = update.old;
    co_return update.take();
  }
  co_await operation.turn();
  const auto ranks = static_cast<size_t>(comm->size()), rank = static_cast<size_t>(comm->rank());
  std::vector<int64_t> counts(ranks), bases(ranks);
  Collective gather(
      coll::record_call(coll::Collective::allgather, *comm, &etypes, counts.data(), sizeof etypes),
      operation.next_tag());
  co_await gather;
  WEFT_CO_TRY(gather.take());
  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  int64_t base = 0;
  Status own;
  if (rank == 0) {
    PointerUpdate update(*shared_, kSum, total);
    co_await update;
    base = update.old;
    own = update.take();
  }
  Collective spread(coll::record_call(coll::Collective::allgather, *comm, &base, bases.data(), sizeof base),
                    operation.next_tag());
  co_await spread;
  WEFT_CO_TRY(std::move(own));
  WEFT_CO_TRY(spread.take());
  first = std::accumulate(counts.begin(), counts.begin() + static_cast<ptrdiff_t>(rank), bases[0]);
  co_return Status();
}

}  // namespace weft::io
