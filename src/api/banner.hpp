// SPDX-License-Identifier: BSD-3-Clause
// The lines of MPI_Init at WEFT_LOG=info.
#pragma once
#include "core/instance.hpp"

namespace weft::api {

/// Logs the version, the ranks, hosts, paths and GPUs of the job (rank 0), and the host, process and cores of
/// each rank.
void log_banner(const core::Instance& instance, const char* thread_level);

}  // namespace weft::api
