// SPDX-License-Identifier: BSD-3-Clause
#include "programs/operation.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace programs {

uint64_t compared = 0;

namespace {

constexpr uint32_t kCleared = 0xdddddddd;
constexpr int kSumOfRanks = -1, kSumBelow = -2;  // Block::from: sum over all ranks; over the ranks up to `to`
const char* const kNames[] = {
    "barrier",        "bcast",      "reduce",    "allreduce", "reduce_scatter_block",
    "reduce_scatter", "gather",     "gatherv",   "scatter",   "scatterv",
    "allgather",      "allgatherv", "alltoall",  "alltoallv", "scan",
    "exscan",         "ring",       "all_pairs", "fan_in",    "burst"};

// Words at which the library changes what it does: slots, queue cells, pages and groups of pages of shared
// memory, ring messages, eager limits, copies by several processes, and totals of blocks.
constexpr size_t kLimits[] = {1,        12,       1024,     6144,     4096,     8192,
                              3 * 4096, 4 * 4096, 5 * 4096, 8 * 4096, 9 * 4096, 16 * 4096};

}  // namespace

Group::Group(MPI_Comm of, uint64_t seed) : comm(of), draw(seed) {
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
}

Operation::Operation(Group& group, Buffers& buffers) : group_(group), buffers_(buffers) {
  Draw& draw = group.draw;
  what_ = static_cast<What>(draw.below(kWhats));
  if (draw.one_in(3)) what_ = draw.of({What::bcast, What::allreduce, What::allgather, What::alltoall});
  root_ = draw.below(group.size);
  salt_ = draw.number();
  tag_ = group.operations++ % 30'000;
  nonblocking_ = draw.one_in(5) && what_ < What::ring;
  in_place_ = draw.one_in(4) && (what_ == What::allreduce || (what_ == What::reduce && root_ == group.rank));
  messages_ = 1 + draw.below(12);
  choose_size(draw);
  lay_out();
}

/// Near a limit, or near a limit divided by the number of blocks of a rank.
void Operation::choose_size(Draw& draw) {
  const bool blocks = what_ == What::gather || what_ == What::scatter || what_ == What::allgather ||
                      what_ == What::alltoall || what_ == What::alltoallv ||
                      what_ == What::reduce_scatter_block;
  const auto peers = static_cast<size_t>(std::max(1, group_.size - draw.below(2)));
  size_t limit =
      draw.one_in(2) ? kLimits[draw.below(3)] : kLimits[draw.below(static_cast<int>(std::size(kLimits)))];
  if (blocks && draw.one_in(2)) limit = limit / peers & ~size_t{15};
  n_ = limit + static_cast<size_t>(draw.below(3));
  n_ = n_ > 1 ? n_ - 1 : 1;
  const size_t most =
      (Buffers::kWords - 2 * Buffers::kGuard) / static_cast<size_t>(group_.size) - Buffers::kGuard;
  n_ = std::min(n_, most);
}

/// Words of the block from one rank to another: uneven in v-variants.
size_t Operation::words(int from, int to) const {
  const bool v = what_ == What::gatherv || what_ == What::scatterv || what_ == What::allgatherv ||
                 what_ == What::alltoallv || what_ == What::reduce_scatter;
  if (!v) return n_;
  const int who = what_ == What::scatterv || what_ == What::reduce_scatter ? to : from;
  const int other = what_ == What::alltoallv ? to : 0;
  return n_ * static_cast<size_t>(randomized::mix(salt_, who, other, 3)) / 2;
}

/// Word i of what one rank sends to another; to = 0 if all receive the same.
uint32_t Operation::word(int from, int to, size_t i) const {
  return static_cast<uint32_t>(salt_) + static_cast<uint32_t>(from) * 0x9e3779b1U +
         static_cast<uint32_t>(to) * 0x85ebca77U + static_cast<uint32_t>(i);
}

uint32_t Operation::expected(const Block& block, size_t i) const {
  if (block.from >= 0) return word(block.from, block.to, i);
  const auto ranks = static_cast<uint32_t>(block.from == kSumOfRanks ? group_.size : block.to + 1);
  const size_t at =
      block.from == kSumOfRanks ? static_cast<size_t>(block.to) + i : i;  // kSumOfRanks: to = first word
  return ranks * word(0, 0, at) + 0x9e3779b1U * (ranks * (ranks - 1) / 2);
}

void Operation::lay_out() {
  const int me = group_.rank, size = group_.size;
  size_t out_end = Buffers::kGuard, in_end = Buffers::kGuard;
  const auto send = [&](int to, size_t n) { out_.push_back({out_end, n, me, to}), out_end += n; };
  const auto receive = [&](int from, int to, size_t n) { in_.push_back({in_end, n, from, to}), in_end += n; };
  const auto send_each = [&] {
    for (int to = 0; to < size; ++to) send(to, words(me, to));
  };
  switch (what_) {
    case What::barrier:
      break;
    case What::bcast:
      receive(root_, 0, n_);
      break;
    case What::reduce:
    case What::allreduce:
      send(0, n_);
      if (root() || what_ == What::allreduce) receive(kSumOfRanks, 0, n_);
      break;
    case What::reduce_scatter_block:
    case What::reduce_scatter: {
      size_t before = 0, all = 0;
      for (int to = 0; to < size; ++to) {
        if (to < me) before += words(0, to);
        all += words(0, to);
      }
      send(0, all);
      receive(kSumOfRanks, static_cast<int>(before), words(0, me));
      break;
    }
    case What::scan:
    case What::exscan:
      send(0, n_);
      if (what_ == What::scan || me > 0) receive(kSumBelow, what_ == What::scan ? me : me - 1, n_);
      break;
    case What::gather:
    case What::gatherv:
    case What::allgather:
    case What::allgatherv:
      send(0, words(me, 0));
      if (root() || what_ == What::allgather || what_ == What::allgatherv)
        for (int from = 0; from < size; ++from) receive(from, 0, words(from, 0));
      break;
    case What::scatter:
    case What::scatterv:
      if (root()) send_each();
      receive(root_, me, words(root_, me));
      break;
    case What::ring:
      send((me + 1) % size, n_);
      receive((me + size - 1) % size, me, n_);
      break;
    case What::fan_in:
      if (!root()) send(root_, n_);
      if (root())
        for (int from = 0; from < size; ++from)
          if (from != me) receive(from, me, n_);
      break;
    case What::burst:  // small messages to the next rank, and back nothing
      for (int i = 0; i < messages_; ++i) send((me + 1) % size, std::min<size_t>(n_, 2000));
      for (int i = 0; i < messages_; ++i) receive((me + size - 1) % size, me, std::min<size_t>(n_, 2000));
      break;
    default:  // alltoall, alltoallv, all_pairs
      send_each();
      for (int from = 0; from < size; ++from) receive(from, me, words(from, me));
  }
  counts_and_places(out_, out_counts_, out_places_);
  counts_and_places(in_, in_counts_, in_places_);
}

void Operation::counts_and_places(const std::vector<Block>& blocks, std::vector<int>& counts,
                                  std::vector<int>& places) const {
  for (const Block& block : blocks) {
    counts.push_back(static_cast<int>(block.n));
    places.push_back(static_cast<int>(block.first - blocks[0].first));
  }
}

void Operation::load() {
  uint32_t *const to = buffers_.out.host(), *const result = buffers_.in.host();
  for (const Block& block : out_)
    for (size_t i = 0; i < block.n; ++i) to[block.first + i] = word(block.from, block.to, i);
  if (!out_.empty()) buffers_.out.upload(out_[0].first, out_.back().first + out_.back().n - out_[0].first);
  const size_t end = in_.empty() ? 0 : in_.back().first + in_.back().n + Buffers::kGuard;
  std::fill(result, result + end, kCleared);
  if ((what_ == What::bcast && root()) || in_place_)
    for (size_t i = 0; i < n_; ++i) result[in_[0].first + i] = word(group_.rank, 0, i);
  buffers_.in.upload(0, end);
}

void Operation::begin() {
  if (what_ >= What::ring)
    exchange_messages();
  else
    call();
}

// clang-format off
#define CALL(x, X, ...) return static_cast<void>(nonblocking_ ? MPI_I##x(__VA_ARGS__, group_.comm, request) : MPI_##X(__VA_ARGS__, group_.comm))
// clang-format on

void Operation::call() {
  if (nonblocking_) requests_.push_back(MPI_REQUEST_NULL);
  MPI_Request* const request = nonblocking_ ? &requests_.back() : nullptr;
  const int n = static_cast<int>(n_);
  const MPI_Datatype type = MPI_UINT32_T;
  void *const from = out_.empty() ? nullptr
                     : in_place_  ? MPI_IN_PLACE
                                  : out(0),
              *const to = in_.empty() ? nullptr : in(0);
  switch (what_) {
    case What::barrier:
      return static_cast<void>(nonblocking_ ? MPI_Ibarrier(group_.comm, request) : MPI_Barrier(group_.comm));
    case What::bcast:
      CALL(bcast, Bcast, to, n, type, root_);
    case What::reduce:
      CALL(reduce, Reduce, from, to, n, type, MPI_SUM, root_);
    case What::allreduce:
      CALL(allreduce, Allreduce, from, to, n, type, MPI_SUM);
    case What::reduce_scatter_block:
      CALL(reduce_scatter_block, Reduce_scatter_block, from, to, n, type, MPI_SUM);
    case What::reduce_scatter: {
      in_counts_.clear();
      for (int rank = 0; rank < group_.size; ++rank) in_counts_.push_back(static_cast<int>(words(0, rank)));
      CALL(reduce_scatter, Reduce_scatter, from, to, in_counts_.data(), type, MPI_SUM);
    }
    case What::scan:
      CALL(scan, Scan, from, to, n, type, MPI_SUM);
    case What::exscan:
      CALL(exscan, Exscan, from, to, n, type, MPI_SUM);
    case What::gather:
      CALL(gather, Gather, from, n, type, to, n, type, root_);
    case What::gatherv:
      CALL(gatherv, Gatherv, from, out_counts_[0], type, to, in_counts_.data(), in_places_.data(), type,
           root_);
    case What::scatter:
      CALL(scatter, Scatter, from, n, type, to, n, type, root_);
    case What::scatterv:
      CALL(scatterv, Scatterv, from, out_counts_.data(), out_places_.data(), type, to, in_counts_[0], type,
           root_);
    case What::allgather:
      CALL(allgather, Allgather, from, n, type, to, n, type);
    case What::allgatherv:
      CALL(allgatherv, Allgatherv, from, out_counts_[0], type, to, in_counts_.data(), in_places_.data(),
           type);
    case What::alltoall:
      CALL(alltoall, Alltoall, from, n, type, to, n, type);
    default:
      CALL(alltoallv, Alltoallv, from, out_counts_.data(), out_places_.data(), type, to, in_counts_.data(),
           in_places_.data(), type);
  }
}

void Operation::exchange_messages() {
  const auto count = [](const Block& block) { return static_cast<int>(block.n); };
  if (what_ == What::ring) {
    MPI_Sendrecv(out(0), count(out_[0]), MPI_UINT32_T, out_[0].to, tag_, in(0), count(in_[0]), MPI_UINT32_T,
                 in_[0].from, tag_, group_.comm, MPI_STATUS_IGNORE);
    return;
  }
  if (what_ == What::fan_in && !root()) {
    MPI_Send(out(0), count(out_[0]), MPI_UINT32_T, root_, tag_, group_.comm);
    return;
  }
  if (what_ == What::fan_in) {  // each message goes where its sender's block is
    for (size_t i = 0; i < in_.size(); ++i) {
      MPI_Status status;
      MPI_Probe(MPI_ANY_SOURCE, tag_, group_.comm, &status);
      const auto at =
          static_cast<size_t>(status.MPI_SOURCE < group_.rank ? status.MPI_SOURCE : status.MPI_SOURCE - 1);
      MPI_Recv(in(at), count(in_[at]), MPI_UINT32_T, status.MPI_SOURCE, tag_, group_.comm, MPI_STATUS_IGNORE);
    }
    return;
  }
  requests_.resize(in_.size() + out_.size(), MPI_REQUEST_NULL);
  for (size_t i = 0; i < in_.size(); ++i)
    MPI_Irecv(in(i), count(in_[i]), MPI_UINT32_T, in_[i].from, tag_, group_.comm, &requests_[i]);
  for (size_t i = 0; i < out_.size(); ++i)
    MPI_Isend(out(i), count(out_[i]), MPI_UINT32_T, out_[i].to, tag_, group_.comm,
              &requests_[in_.size() + i]);
}

void Operation::complete() {
  MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  requests_.clear();
}

std::string Operation::text() const {
  return std::string(nonblocking_ ? "nonblocking " : "") + kNames[static_cast<int>(what_)] +
         (in_place_ ? " in place" : "") + " of " + std::to_string(n_) + " words, root " +
         std::to_string(root_) + ", " + std::to_string(group_.size) + " ranks";
}

void Operation::check() {
  const size_t end = in_.empty() ? 0 : in_.back().first + in_.back().n + Buffers::kGuard;
  buffers_.in.download(0, end);
  const uint32_t* const result = buffers_.in.host();
  const auto wrong = [&](size_t at, uint32_t want) {
    std::fprintf(stderr, "rank %d: word %zu is %x instead of %x: %s\n", group_.rank, at - Buffers::kGuard,
                 result[at], want, text().c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
  };
  for (const Block& block : in_)
    for (size_t i = 0; i < block.n; ++i)
      if (const uint32_t want = expected(block, i); result[block.first + i] != want)
        wrong(block.first + i, want);
  for (size_t i = 0; i < Buffers::kGuard && end != 0; ++i)
    for (const size_t at : {i, end - 1 - i})
      if (result[at] != kCleared) wrong(at, kCleared);
  compared += end;
}

}  // namespace programs
