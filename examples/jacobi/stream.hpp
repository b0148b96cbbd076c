// SPDX-License-Identifier: BSD-3-Clause
// The variant `stream`: MPI calls in the order of the GPU stream that computes (docs/streams.md). Sweep and
// exchange are captured once; an iteration is one launch of a graph.
#pragma once
#include <memory>
#include <string>

#include "engine.hpp"
#include "halo.hpp"

namespace jacobi {

std::unique_ptr<Halo> make_stream_halo(Engine& engine, const Position& place);
/// Reason why this program cannot do so; empty: it can.
std::string stream_problem();

}  // namespace jacobi
