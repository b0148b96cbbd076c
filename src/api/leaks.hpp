// SPDX-License-Identifier: BSD-3-Clause
// Reports of objects that the program has not freed, and of messages that it has not received, when it calls
// MPI_Finalize (setting `check` = on).
#pragma once
#include "core/instance.hpp"

namespace weft::api {

/// Reports each request and each communicator of the world model that has neither completed nor been freed.
/// Precondition: reporting(). Threading: under the instance lock.
void report_leaks();
/// Reports each message that has arrived and was never received. The same precondition; all ranks have called
/// MPI_Finalize.
void report_unreceived(core::Instance& instance);

}  // namespace weft::api
