// SPDX-License-Identifier: BSD-3-Clause
// A picture of the solution, as a PNG file.
#pragma once
#include <string>

#include "engine.hpp"
#include "options.hpp"

namespace jacobi {

/// Why a picture cannot be written to this file; empty if it can. For rank 0, which writes it.
std::string picture_problem(const std::string& path);

/// Writes the grid of all ranks (`part`: this one's) to `path`, at most 1024 pixels wide and high: each pixel
/// is one cell, the middle one of a square of cells. Blue is -1, white 0, orange 1. Rank 0 holds one byte a
/// pixel. The file appears whole or not at all; EngineError when it cannot be written. Collective.
void save_picture(Engine& engine, const Options& options, int rank, int ranks, const float* part);

}  // namespace jacobi
