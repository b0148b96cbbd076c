// SPDX-License-Identifier: BSD-3-Clause
// Crossovers: the sizes in bytes at which collectives on GPU buffers change form, protocol or executor. Each
// is a row of one table and an internal setting; `weft tune` measures all of them and writes the faster
// values to the profile of the machine. All but reduce_min are equal on all ranks and may be set for one
// communicator (hints.hpp).
#pragma once
#include "base/config.hpp"

namespace weft::coll::crossover {

extern config::Size one_shot_max;       ///< bytes sent per rank: whole vectors or parts of them
extern config::Size ll_max;             ///< vector: LL or Simple
extern config::Size ll_movement_max;    ///< bytes sent per rank: LL or Simple
extern config::Size ll128_min;          ///< bytes sent per rank: LL or LL128
extern config::Size ll128_max;          ///< bytes sent per rank: LL128 or Simple
extern config::Size doorbell_max;       ///< bytes to one rank: resident kernel or launch
extern config::Size movement_max;       ///< block: kernels or copy engines
extern config::Size pair_max;           ///< block between two ranks: kernels or messages
extern config::Size direct_min;         ///< bytes sent per rank: regions or direct buffers
extern config::Size direct_reduce_min;  ///< vector: regions or direct buffers
extern config::Size reduce_min;         ///< vector of a schedule: host copies or kernels

}  // namespace weft::coll::crossover
