// SPDX-License-Identifier: BSD-3-Clause
// File: individual and shared file pointers. The shared pointer is a word in a window at rank 0: other
// processes of its host change it in place, those of other hosts by messages that rank 0 executes.
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

/// Moves a file pointer; all in etypes.
Status add_checked(const View& view, int64_t base, int64_t offset, int64_t& sum) {
  datatype::Checked math;
  sum = math.add(base, offset);
  const int64_t end = view.stream_end() / view.etype_size;
  if (!math.overflow() && sum >= 0 && sum <= end) return {};
  return Error(Errc::arg, "offset = " + std::to_string(offset) + " moves the file pointer from " +
                              std::to_string(base) + " to " +
                              (offset < 0 ? "before the start of the view"
                                          : "beyond the largest offset of the view, " + std::to_string(end)));
}

}  // namespace

Result<int64_t> File::end_position() const {
  auto bytes = size();
  if (!bytes) return bytes;
  const int64_t stream = view->stream_before(*bytes);
  return stream == 0 ? 0 : (stream - 1) / view->etype_size + 1;
}

Status File::seek(int64_t offset, Whence whence) {
  WEFT_TRY(check_random_access());
  int64_t base = whence == Whence::current ? position_ : 0;
  if (whence == Whence::end) {
    auto end = end_position();
    if (!end) return std::move(end).error();
    base = *end;
  }
  int64_t moved = 0;
  WEFT_TRY(add_checked(*view, base, offset, moved));
  position_ = moved;
  return {};
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
  if (own.ok()) own = add_checked(*view, base, offset, value);
  WEFT_TRY(agree(std::move(own)));
  return set_shared(value);
}

/// Adds to the shared file pointer, unless the access would end beyond the view.
Task File::add_to_shared(const View& its_view, int64_t etypes, int64_t& first) {
  constexpr const char* kName = "the shared file pointer";
  if (shared_ == nullptr) {
    first = local_shared_;
    WEFT_CO_TRY(its_view.place(kName, first, etypes));
    local_shared_ += etypes;
    co_return Status();
  }
  PointerUpdate update(*shared_, kSum, etypes);
  co_await update;
  first = update.old;
  WEFT_CO_TRY(update.take());
  auto placed = its_view.place(kName, first, etypes);
  if (placed) co_return Status();
  PointerUpdate undo(*shared_, kSum, -etypes);
  co_await undo;
  WEFT_CO_TRY(undo.take());
  co_return std::move(placed).error();
}

/// Collective: the shared file pointer moves by the sum of all ranks, and `first` follows the lower ranks.
Task File::add_to_shared_in_order(Operation& operation, const View& its_view, int64_t etypes,
                                  int64_t& first) {
  co_await operation.turn();
  const auto ranks = static_cast<size_t>(comm->size()), rank = static_cast<size_t>(comm->rank());
  std::vector<int64_t> counts(ranks), bases(ranks);
  Collective gather(
      coll::record_call(coll::Collective::allgather, *comm, &etypes, counts.data(), sizeof etypes),
      operation.next_tag());
  co_await gather;
  Status own = gather.take();
  datatype::Checked math;
  int64_t total = 0, before = 0;
  for (size_t i = 0; i < ranks; ++i) {
    if (i == rank) before = total;
    total = math.add(total, counts[i]);
  }
  if (own.ok() && math.overflow())
    own = Error(Errc::count, "count = " + std::to_string(etypes) +
                                 " etypes: the sum over all ranks exceeds 64 bits: pass smaller counts");
  int64_t base = 0;
  if (rank == 0 && own.ok()) {
    Task add = add_to_shared(its_view, total, base);
    own = co_await add;
  }
  Collective spread(coll::record_call(coll::Collective::allgather, *comm, &base, bases.data(), sizeof base),
                    operation.next_tag());
  co_await spread;
  WEFT_CO_TRY(std::move(own));
  WEFT_CO_TRY(spread.take());
  first = bases[0] + before;  // at most the end of the access of all ranks, which rank 0 has checked
  co_return Status();
}

}  // namespace weft::io
