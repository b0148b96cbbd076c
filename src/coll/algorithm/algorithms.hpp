// SPDX-License-Identifier: BSD-3-Clause
// The algorithms, by collective. Which one runs is decided in coll/select/.
// Rounds are functions of the call and the round's number: see coll/schedule.hpp.
#pragma once
#include "coll/schedule.hpp"

namespace weft::coll::algorithm {

extern const Algorithm barrier_dissemination;

extern const Algorithm bcast_binomial, bcast_chain, bcast_scatter_allgather;

extern const Algorithm gather_binomial, gather_linear, scatter_binomial, scatter_linear;

extern const Algorithm allgather_recursive_doubling, allgather_bruck, allgather_ring, allgather_spread;

extern const Algorithm alltoall_bruck, alltoall_spread, alltoall_in_place;

extern const Algorithm reduce_binomial, reduce_spread;

extern const Algorithm allreduce_recursive_doubling, allreduce_rabenseifner, allreduce_ring, allreduce_spread;

extern const Algorithm reduce_scatter_recursive_doubling, reduce_scatter_spread;

extern const Algorithm scan_recursive_doubling, exscan_recursive_doubling;

extern const Algorithm neighbor_direct;

/// The program of a collective on several hosts, in phases inside hosts and between them; null: there is
/// none.
[[nodiscard]] const Algorithm* by_hosts(Collective what);

/// A round of what the local group of the call's intercommunicator does by itself: `inner`, on its
/// communicator.
Round among_group(const Call& inner, const Call& call, int round, Stage& stage);
/// The program of a collective on an intercommunicator.
[[nodiscard]] const Algorithm& between_groups(Collective what);

}  // namespace weft::coll::algorithm
