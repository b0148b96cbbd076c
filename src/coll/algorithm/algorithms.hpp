// SPDX-License-Identifier: BSD-3-Clause
// The algorithms of all collectives; coll/select/ chooses among them.
// A round is a function of the call and the round number: see coll/schedule/schedule.hpp.
#pragma once
#include "coll/schedule/schedule.hpp"

namespace weft::coll::algorithm {

extern const Algorithm barrier_dissemination;

extern const Algorithm bcast_binomial, bcast_chain, bcast_scatter_allgather;

extern const Algorithm gather_binomial, gather_linear, scatter_binomial, scatter_linear;

extern const Algorithm allgather_recursive_doubling, allgather_bruck, allgather_ring, allgather_direct;

extern const Algorithm alltoall_bruck, alltoall_direct, alltoall_in_place;

extern const Algorithm reduce_binomial, reduce_direct;

extern const Algorithm allreduce_recursive_doubling, allreduce_rabenseifner, allreduce_ring, allreduce_direct;

extern const Algorithm reduce_scatter_recursive_doubling, reduce_scatter_direct;

extern const Algorithm scan_recursive_doubling, scan_chain, exscan_recursive_doubling, exscan_chain;

extern const Algorithm neighbor_direct;

}  // namespace weft::coll::algorithm
