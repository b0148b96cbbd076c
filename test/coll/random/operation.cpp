// SPDX-License-Identifier: BSD-3-Clause
#include "coll/random/operation.hpp"

#include <weft.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace sequences {
namespace {

constexpr int kUntouched = -7;

const char* const kNames[] = {"allreduce", "bcast",  "allgather", "alltoall", "reduce_scatter_block",
                              "reduce",    "gather", "scatter",   "scan",     "allgatherv",
                              "alltoallv"};
const char* const kForms[] = {"blocking", "nonblocking", "persistent", "enqueued"};

std::vector<char> bytes_of(const std::vector<int>& values) {
  std::vector<char> bytes(values.size() * sizeof(int));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

int apply(MPI_Op op, int a, int b) { return op == MPI_SUM ? a + b : op == MPI_MAX ? std::max(a, b) : a ^ b; }

}  // namespace

Slot::Slot() {
  for (size_t i = 0; i < buffers_.size(); ++i)
    buffers_[i] = std::make_unique<Buffer>(i % 2 == 0 ? Buffer::Kind::host : Buffer::Kind::device,
                                           (kInts + kGuard) * sizeof(int), device);
}

Operation::Operation(const Team& team, Slot& slot, Draw& draw, Form form)
    : team_(&team), slot_(&slot), form_(form) {
  choose(draw);
  lay_out();
  std::snprintf(text_, sizeof text_, "%s %s of %zu ints%s, root %d, %s to %s", kForms[static_cast<int>(form)],
                kNames[what_], n_, in_place_ ? " in place" : "", root_, send_on_device_ ? "GPU" : "host",
                receive_on_device_ ? "GPU" : "host");
}

void Operation::choose(Draw& draw) {
  static const size_t kUsual[] = {0, 1, 2, 4, 25, 100, 1000, 4100};
  what_ = static_cast<What>(draw.below(form_ == Form::enqueued ? reduce : kWhats));
  if (draw.one_in(3)) what_ = allreduce;
  op_ = draw.of({MPI_SUM, MPI_MAX, MPI_BXOR});
  root_ = draw.below(team_->size);
  n_ = draw.one_in(20) ? 30000 : kUsual[draw.below(static_cast<int>(std::size(kUsual)))];
  // The blocks of the v-forms are up to twice as long.
  const size_t most = Slot::kInts / static_cast<size_t>(team_->size) / 2;
  if (what_ != allreduce && what_ != bcast && what_ != reduce && what_ != scan) n_ = std::min(n_, most);
  in_place_ = draw.one_in(3) && what_ != bcast && what_ != alltoallv;
  salt_ = draw.below(1000);
  const uint64_t where = draw.number();
  const int kind = form_ == Form::enqueued ? 0 : draw.below(8);
  if (kind == 6) send_on_device_ = receive_on_device_ = false;
  if (kind != 7) return;
  // Each rank chooses for itself.
  send_on_device_ = randomized::mix(where, world_rank, 1, 3) != 0;
  receive_on_device_ = randomized::mix(where, world_rank, 2, 3) != 0;
}

size_t Operation::count(int from, int to) const {
  if (n_ == 0) return 0;
  const auto spread = static_cast<size_t>(what_ == allgatherv ? from * 3 : from * 3 + to * 5);
  return (n_ + spread) % (2 * n_ + 1);
}

void Operation::lay_out() {
  int out = 0, in = 0;
  for (int peer = 0; peer < team_->size; ++peer) {
    out_counts_.push_back(static_cast<int>(count(team_->rank, peer)));
    in_counts_.push_back(static_cast<int>(count(peer, team_->rank)));
    out_places_.push_back(out);
    in_places_.push_back(in);
    out += out_counts_.back();
    in += in_counts_.back();
  }
}

bool Operation::sends() const {
  if (what_ == bcast) return false;
  return !in_place() && (what_ != scatter || root());
}
bool Operation::receives() const {
  if (what_ == reduce || what_ == gather) return root();
  return what_ != scatter || !in_place();
}
bool Operation::in_place() const {
  return in_place_ && (root() || (what_ != reduce && what_ != gather && what_ != scatter));
}

int Operation::input(int rank, size_t i) const {
  return (salt_ * 31 + rank * 1009 + static_cast<int>(i % 5003) * 7) & 0xffff;
}

int Operation::folded(size_t i, int ranks) const {
  int value = input(0, i);
  for (int rank = 1; rank < ranks; ++rank) value = apply(op_, value, input(rank, i));
  return value;
}

Operation::Ints Operation::whole_input(int rank) const {
  size_t n = n_;
  if (what_ == alltoall || what_ == reduce_scatter_block || what_ == scatter)
    n *= static_cast<size_t>(team_->size);
  if (what_ == allgatherv) n = count(rank, 0);
  if (what_ == alltoallv) {
    n = 0;
    for (int to = 0; to < team_->size; ++to) n += count(rank, to);
  }
  Ints values(n);
  for (size_t i = 0; i < n; ++i) values[i] = input(rank, i);
  return values;
}

Operation::Ints Operation::result() const {
  Ints values;
  const auto own = static_cast<size_t>(team_->rank);
  const auto take = [&](int from, size_t first, size_t n) {
    for (size_t i = 0; i < n; ++i) values.push_back(input(from, first + i));
  };
  const auto fold = [&](size_t first, int ranks) {
    for (size_t i = 0; i < n_; ++i) values.push_back(folded(first + i, ranks));
  };
  switch (what_) {
    case allreduce:
    case reduce:
      fold(0, team_->size);
      break;
    case scan:
      fold(0, team_->rank + 1);
      break;
    case reduce_scatter_block:
      fold(own * n_, team_->size);
      break;
    case bcast:
      take(root_, 0, n_);
      break;
    case scatter:
      take(root_, own * n_, n_);
      break;
    default:
      for (int from = 0; from < team_->size; ++from) {
        size_t before = 0;  // in the sender's buffer
        for (int to = 0; to < team_->rank; ++to) before += count(from, to);
        if (what_ == alltoall) take(from, own * n_, n_);
        if (what_ == allgather || what_ == gather) take(from, 0, n_);
        if (what_ == allgatherv) take(from, 0, count(from, 0));
        if (what_ == alltoallv) take(from, before, count(from, team_->rank));
      }
  }
  return values;
}

/// In place: where this rank's input lies in the buffer of the result.
size_t Operation::input_offset() const {
  if (what_ == allgather || what_ == gather) return static_cast<size_t>(team_->rank) * n_;
  if (what_ == allgatherv) return static_cast<size_t>(in_places_[static_cast<size_t>(team_->rank)]);
  return 0;
}

void Operation::load() {
  salt_ = (salt_ + 17) % 1000;
  Buffer &out = slot_->buffer(Slot::send, send_on_device_),
         &in = slot_->buffer(Slot::receive, receive_on_device_);
  const Ints mine = whole_input(team_->rank);
  if (receives()) in.write(bytes_of(Ints(std::max(result().size(), mine.size()) + Slot::kGuard, kUntouched)));
  if (sends() || (what_ == scatter && root())) {
    out.write(bytes_of(mine));
  } else if (in_place() || (what_ == bcast && root())) {
    in.write(bytes_of(mine), input_offset() * sizeof(int));
  }
}

void Operation::check() {
  if (!receives()) return;
  const Ints wanted = result();
  // A reduce-scatter in place leaves the rest of its input behind the result.
  const size_t guard = in_place() && what_ == reduce_scatter_block ? 0 : Slot::kGuard;
  const std::vector<char> got =
      slot_->buffer(Slot::receive, receive_on_device_).read(0, (wanted.size() + guard) * sizeof(int));
  Ints values(wanted.size() + guard);
  if (!values.empty()) std::memcpy(values.data(), got.data(), got.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const int right = i < wanted.size() ? wanted[i] : kUntouched;
    if (values[i] == right) continue;
    std::fprintf(stderr, "rank %d of %d: %s: int %zu is %d, not %d\n", team_->rank, team_->size, text_, i,
                 values[i], right);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

template <class Blocking, class Nonblocking, class Persistent, class... Arguments>
int Operation::by_form(Blocking blocking, Nonblocking nonblocking, Persistent persistent,
                       Arguments... arguments) {
  if (form_ == Form::blocking) return blocking(arguments...);
  if (form_ == Form::nonblocking) return nonblocking(arguments..., &request_);
  return persistent(arguments..., MPI_INFO_NULL, &request_);
}

#define BY_FORM(Name, name, ...) by_form(MPI_##Name, MPI_I##name, MPI_##Name##_init, __VA_ARGS__)

int Operation::run() {
  Buffer &out = slot_->buffer(Slot::send, send_on_device_),
         &in = slot_->buffer(Slot::receive, receive_on_device_);
  const void* const from = in_place() && what_ != scatter ? MPI_IN_PLACE : out.data();
  void* const to = in_place() && what_ == scatter ? MPI_IN_PLACE : in.data();
  const int n = static_cast<int>(n_), own = out_counts_[0];
  const int *counts = in_counts_.data(), *places = in_places_.data();
  const MPI_Comm comm = team_->comm;
  switch (what_) {
    case allreduce:
      return BY_FORM(Allreduce, allreduce, from, to, n, MPI_INT, op_, comm);
    case reduce:
      return BY_FORM(Reduce, reduce, from, to, n, MPI_INT, op_, root_, comm);
    case scan:
      return BY_FORM(Scan, scan, from, to, n, MPI_INT, op_, comm);
    case reduce_scatter_block:
      return BY_FORM(Reduce_scatter_block, reduce_scatter_block, from, to, n, MPI_INT, op_, comm);
    case bcast:
      return BY_FORM(Bcast, bcast, to, n, MPI_INT, root_, comm);
    case allgather:
      return BY_FORM(Allgather, allgather, from, n, MPI_INT, to, n, MPI_INT, comm);
    case gather:
      return BY_FORM(Gather, gather, from, n, MPI_INT, to, n, MPI_INT, root_, comm);
    case scatter:
      return BY_FORM(Scatter, scatter, from, n, MPI_INT, to, n, MPI_INT, root_, comm);
    case alltoall:
      return BY_FORM(Alltoall, alltoall, from, n, MPI_INT, to, n, MPI_INT, comm);
    case allgatherv:
      return BY_FORM(Allgatherv, allgatherv, from, own, MPI_INT, to, counts, places, MPI_INT, comm);
    default:
      return BY_FORM(Alltoallv, alltoallv, from, out_counts_.data(), out_places_.data(), MPI_INT, to, counts,
                     places, MPI_INT, comm);
  }
}

int Operation::enqueue() {
  Buffer &out = slot_->buffer(Slot::send, true), &in = slot_->buffer(Slot::receive, true);
  const void* const from = in_place() ? MPI_IN_PLACE : out.data();
  void* const to = in.data();
  const int n = static_cast<int>(n_);
  const MPI_Comm comm = team_->comm;
  switch (what_) {
    case allreduce:
      return MPIX_Allreduce_enqueue(from, to, n, MPI_INT, op_, comm);
    case reduce_scatter_block:
      return MPIX_Reduce_scatter_block_enqueue(from, to, n, MPI_INT, op_, comm);
    case bcast:
      return MPIX_Bcast_enqueue(to, n, MPI_INT, root_, comm);
    case allgather:
      return MPIX_Allgather_enqueue(from, n, MPI_INT, to, n, MPI_INT, comm);
    default:
      return MPIX_Alltoall_enqueue(from, n, MPI_INT, to, n, MPI_INT, comm);
  }
}

void Operation::begin() {
  if ((form_ == Form::enqueued ? enqueue() : run()) != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
  pending_ = form_ == Form::nonblocking;
}

void Operation::start() {
  MPI_Start(&request_);
  pending_ = ran_ = true;
}

void Operation::free() {
  if (request_ != MPI_REQUEST_NULL) MPI_Request_free(&request_);
}

}  // namespace sequences
