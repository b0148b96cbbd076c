// SPDX-License-Identifier: BSD-3-Clause
// A picture of the solution, as a PNG file.
#pragma once
#include <string>

#include "engine.hpp"
#include "options.hpp"

namespace jacobi {

/// Returns the reason why this file cannot be written; empty if it can. Called by rank 0, which writes it.
std::string picture_problem(const std::string& path);

/// Writes the grid of all ranks (`part`: that of this rank) to `path`, at most 1024 pixels wide and high.
/// Each pixel is the middle cell of a square of cells. Blue is -1, white 0, orange 1. Rank 0 needs one byte
/// per pixel. The file is complete or absent; throws EngineError if it cannot be written. Collective.
void save_picture(Engine& engine, const Options& options, int rank, int ranks, const float* part);

}  // namespace jacobi
