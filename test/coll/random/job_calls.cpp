// SPDX-License-Identifier: BSD-3-Clause
// Jobs: the collectives and the blocks of each side.
#include <algorithm>
#include <string>

#include "coll/expect.hpp"
#include "coll/random/job.hpp"

// Name and the six functions of a collective.
#define FORMS(X, x) "MPI_" #X, MPI_##X, MPI_I##x, MPI_##X##_init, MPI_##X##_c, MPI_I##x##_c, MPI_##X##_init_c

namespace randomized {

using reference::Field;

template <class B, class N, class P, class BC, class NC, class PC, class... A>
void Job::bind(const char* name, B blocking, N nonblocking, P persistent, BC blocking_c, NC nonblocking_c,
               PC persistent_c, A... arguments) {
  name_ = name;
  start_ = [=, this] {
    switch (form_) {
      case Form::blocking:
        return large_ ? blocking_c(arguments...) : blocking(arguments...);
      case Form::nonblocking:
        return large_ ? nonblocking_c(arguments..., &request_) : nonblocking(arguments..., &request_);
      default:
        return large_ ? persistent_c(arguments..., MPI_INFO_NULL, &request_)
                      : persistent(arguments..., MPI_INFO_NULL, &request_);
    }
  };
}

void Job::choose(Draw& draw) {
  const int kinds = team_.inter() ? 14 : team_.has_topology() ? 21 : 16;
  // Neighborhood collectives are drawn more often on topologies.
  const int kind = team_.has_topology() && draw.one_in(2) ? 16 + draw.below(5) : draw.below(kinds);
  switch (kind) {
    case 0:
      return barrier();
    case 1:
      return bcast();
    case 2:
    case 3:
      return gather(kind == 3);
    case 4:
    case 5:
      return scatter(kind == 5);
    case 6:
    case 7:
      return allgather(kind == 7);
    case 8:
    case 9:
    case 10:
      return alltoall(kind - 8);
    case 11:
      return allreduce();
    case 12:
      return reduce();
    case 13:
      return reduce_scatter(draw.one_in(2));
    case 14:
    case 15:
      return scan(kind == 14);
    case 16:
    case 17:
      return neighbor_allgather(kind == 17);
    default:
      return neighbor_alltoall(kind - 18);
  }
}

void Job::barrier() {
  bind("MPI_Barrier", MPI_Barrier, MPI_Ibarrier, MPI_Barrier_init, MPI_Barrier, MPI_Ibarrier,
       MPI_Barrier_init, team_.comm);
}

void Job::bcast() {
  in_place_ = false;
  if (at_root_ || at_leaf_) recv_.lay_out(layout(0), {{2 * n_, root_process_, 0}}, false);
  const auto all = [this](Field& field) { recv_.fill(field); };
  if (at_root_) preload_ = all;
  receive_blocks();
  bind(FORMS(Bcast, bcast), recv_.address(), recv_.count(), recv_.type(), root_, team_.comm);
}

void Job::gather(bool v) {
  in_place_ = in_place_ && at_root_;
  if (at_root_) {
    std::vector<Side::Block> blocks;
    for (const int peer : team_.peers()) blocks.push_back({words(peer, 0, v), peer, 0});
    recv_.lay_out(layout(1), blocks, v);
    receive_blocks();
  }
  if (in_place_) preload_ = [this](Field& field) { recv_.fill(field, static_cast<size_t>(team_.rank)); };
  if (at_leaf_ && !in_place_) send_.lay_out(layout(0), {{words(me_, 0, v), me_, 0}}, false);
  const void* from = in_place_ ? MPI_IN_PLACE : send_.address();
  if (v)
    bind(FORMS(Gatherv, gatherv), from, send_.count(), send_.type(), recv_.address(), recv_.counts.view(),
         recv_.displacements.view(), recv_.type(), root_, team_.comm);
  else
    bind(FORMS(Gather, gather), from, send_.count(), send_.type(), recv_.address(), recv_.count(),
         recv_.type(), root_, team_.comm);
}

void Job::scatter(bool v) {
  in_place_ = in_place_ && at_root_;
  if (at_root_) {
    std::vector<Side::Block> blocks;
    int number = 0;
    for (const int peer : team_.peers()) blocks.push_back({words(0, peer, v), me_, number++});
    send_.lay_out(layout(0), blocks, v);
  }
  if (at_leaf_ && !in_place_) {
    recv_.lay_out(layout(1), {{words(0, me_, v), root_process_, team_.rank}}, false);
    receive_blocks();
  }
  void* to = in_place_ ? MPI_IN_PLACE : recv_.address();
  if (v)
    bind(FORMS(Scatterv, scatterv), send_.address(), send_.counts.view(), send_.displacements.view(),
         send_.type(), to, recv_.count(), recv_.type(), root_, team_.comm);
  else
    bind(FORMS(Scatter, scatter), send_.address(), send_.count(), send_.type(), to, recv_.count(),
         recv_.type(), root_, team_.comm);
}

void Job::allgather(bool v) {
  std::vector<Side::Block> blocks;
  for (const int peer : team_.peers()) blocks.push_back({words(peer, 0, v), peer, 0});
  recv_.lay_out(layout(1), blocks, v);
  receive_blocks();
  if (in_place_)
    preload_ = [this](Field& field) { recv_.fill(field, static_cast<size_t>(team_.rank)); };
  else
    send_.lay_out(layout(0), {{words(me_, 0, v), me_, 0}}, false);
  const void* from = in_place_ ? MPI_IN_PLACE : send_.address();
  if (v)
    bind(FORMS(Allgatherv, allgatherv), from, send_.count(), send_.type(), recv_.address(),
         recv_.counts.view(), recv_.displacements.view(), recv_.type(), team_.comm);
  else
    bind(FORMS(Allgather, allgather), from, send_.count(), send_.type(), recv_.address(), recv_.count(),
         recv_.type(), team_.comm);
}

void Job::alltoall(int kind) {
  const bool v = kind > 0;
  symmetric_ = in_place_;
  std::vector<Side::Block> in, out;
  int number = 0;
  for (const int peer : team_.peers()) {
    in.push_back({words(peer, me_, v), peer, team_.rank});
    out.push_back({words(me_, peer, v), me_, number++});
  }
  recv_.lay_out(layout(1), in, v);
  receive_blocks();
  if (in_place_)
    preload_ = [this](Field& field) {
      for (size_t i = 0; i < recv_.blocks.size(); ++i)
        reference::fill(field, recv_.displacements[i], recv_.counts[i],
                        [&](int64_t k) { return recv_.word(me_, static_cast<int>(i), k); });
    };
  else
    send_.lay_out(layout(0), out, v);
  const void* from = in_place_ ? MPI_IN_PLACE : send_.address();
  if (kind == 0)
    bind(FORMS(Alltoall, alltoall), from, send_.count(), send_.type(), recv_.address(), recv_.count(),
         recv_.type(), team_.comm);
  else if (kind == 1)
    bind(FORMS(Alltoallv, alltoallv), from, send_.counts.view(), send_.displacements.view(), send_.type(),
         recv_.address(), recv_.counts.view(), recv_.displacements.view(), recv_.type(), team_.comm);
  else
    bind(FORMS(Alltoallw, alltoallw), from, send_.mixed_counts.view(), send_.addresses.view(),
         send_.types.data(), recv_.address(), recv_.mixed_counts.view(), recv_.addresses.view(),
         recv_.types.data(), team_.comm);
}

void Job::neighbor_allgather(bool v) {
  in_place_ = false;
  std::vector<Side::Block> blocks;
  for (const int source : team_.sources[static_cast<size_t>(team_.rank)]) {
    const int owner = source == MPI_PROC_NULL ? Side::kNobody : team_.members[static_cast<size_t>(source)];
    blocks.push_back({words(owner, 0, v), owner, 0});
  }
  recv_.lay_out(layout(1), blocks, v);
  receive_blocks();
  send_.lay_out(layout(0), {{words(me_, 0, v), me_, 0}}, false);
  if (v)
    bind(FORMS(Neighbor_allgatherv, neighbor_allgatherv), send_.address(), send_.count(), send_.type(),
         recv_.address(), recv_.counts.view(), recv_.displacements.view(), recv_.type(), team_.comm);
  else
    bind(FORMS(Neighbor_allgather, neighbor_allgather), send_.address(), send_.count(), send_.type(),
         recv_.address(), recv_.count(), recv_.type(), team_.comm);
}

void Job::neighbor_alltoall(int kind) {
  in_place_ = false;
  const bool v = kind > 0;
  const auto rank = static_cast<size_t>(team_.rank);
  std::vector<Side::Block> in, out;
  for (size_t i = 0; i < team_.sources[rank].size(); ++i) {
    const int source = team_.sources[rank][i];
    if (source == MPI_PROC_NULL) {
      in.push_back({words(0, 0, v), Side::kNobody, 0});
      continue;
    }
    const int owner = team_.members[static_cast<size_t>(source)];
    in.push_back({words(owner, edge(i), v), owner, edge(i)});
  }
  for (size_t i = 0; i < team_.destinations[rank].size(); ++i)
    out.push_back({words(me_, static_cast<int>(i), v), me_, static_cast<int>(i)});
  recv_.lay_out(layout(1), in, v);
  receive_blocks();
  send_.lay_out(layout(0), out, v);
  if (kind == 0)
    bind(FORMS(Neighbor_alltoall, neighbor_alltoall), send_.address(),
         send_.blocks.empty() ? 1 : send_.count(), send_.type(), recv_.address(), recv_.count(), recv_.type(),
         team_.comm);
  else if (kind == 1)
    bind(FORMS(Neighbor_alltoallv, neighbor_alltoallv), send_.address(), send_.counts.view(),
         send_.displacements.view(), send_.type(), recv_.address(), recv_.counts.view(),
         recv_.displacements.view(), recv_.type(), team_.comm);
  else
    bind(FORMS(Neighbor_alltoallw, neighbor_alltoallw), send_.address(), send_.mixed_counts.view(),
         send_.addresses.view(), send_.types.data(), recv_.address(), recv_.mixed_counts.view(),
         recv_.addresses.view(), recv_.types.data(), team_.comm);
}

/// Buffers of a reduction of `elements` elements over the inputs of `over`; this process receives `results`
/// elements from `first` on.
void Job::reduction(int64_t elements, int64_t results, int64_t first, std::vector<int> over) {
  send_.as_float = recv_.as_float = operation_ == 4;
  const reference::Layout with = operation_ != 3             ? reference::kWord
                                 : mix(drawn_, 0, 0, 2) == 0 ? reference::kPair
                                                             : reference::kGaps;
  const int64_t words = with.words;
  if (!in_place_ && at_leaf_) send_.lay_out(with, {{elements * words, me_, 0}}, false);
  recv_.lay_out(with, {{(in_place_ ? std::max(elements, results) : results) * words, me_, 0}}, false);
  if (in_place_)
    preload_ = [this, elements](Field& field) {
      reference::fill(field, 0, elements, [this](int64_t k) { return recv_.word(me_, 0, k); });
    };
  result_ = [=, this](Field& field) {
    reference::fill(field, 0, results, [&](int64_t k) { return reduced(over, first * words + k); });
  };
}

void Job::allreduce() {
  at_leaf_ = true;
  reduction(n_, n_, 0, team_.peers());
  bind(FORMS(Allreduce, allreduce), in_place_ ? MPI_IN_PLACE : send_.address(), recv_.address(),
       static_cast<int>(n_), recv_.type(), op(), team_.comm);
}

void Job::reduce() {
  in_place_ = in_place_ && at_root_;
  reduction(n_, at_root_ ? n_ : 0, 0, team_.peers());
  bind(FORMS(Reduce, reduce), in_place_ ? MPI_IN_PLACE : send_.address(),
       at_root_ ? recv_.address() : nullptr, static_cast<int>(n_), recv_.type(), op(), root_, team_.comm);
}

void Job::reduce_scatter(bool v) {
  at_leaf_ = true;
  // Both groups must divide the same vector.
  const int64_t total = n_ * team_.size() * (team_.inter() ? static_cast<int64_t>(team_.remote.size()) : 1);
  int64_t rest = total, first = 0;
  shares_ = {};
  for (int i = 0; i < team_.size(); ++i) {
    const bool last = i + 1 == team_.size();
    const int64_t share = !v     ? total / team_.size()
                          : last ? rest
                                 : mix(drawn_, i, 7, static_cast<int>(rest + 1));
    if (i < team_.rank) first += share;
    shares_.add(share);
    rest -= share;
  }
  const int64_t mine = shares_[static_cast<size_t>(team_.rank)];
  reduction(total, mine, first, team_.peers());
  const void* from = in_place_ ? MPI_IN_PLACE : send_.address();
  if (v)
    bind(FORMS(Reduce_scatter, reduce_scatter), from, recv_.address(), shares_.view(), recv_.type(), op(),
         team_.comm);
  else
    bind(FORMS(Reduce_scatter_block, reduce_scatter_block), from, recv_.address(), static_cast<int>(mine),
         recv_.type(), op(), team_.comm);
}

void Job::scan(bool inclusive) {
  const std::vector<int> over(team_.members.begin(),
                              team_.members.begin() + team_.rank + (inclusive ? 1 : 0));
  reduction(n_, over.empty() ? 0 : n_, 0, over);
  const void* from = in_place_ ? MPI_IN_PLACE : send_.address();
  if (inclusive)
    bind(FORMS(Scan, scan), from, recv_.address(), static_cast<int>(n_), recv_.type(), op(), team_.comm);
  else
    bind(FORMS(Exscan, exscan), from, recv_.address(), static_cast<int>(n_), recv_.type(), op(), team_.comm);
}

}  // namespace randomized
