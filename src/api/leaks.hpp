// SPDX-License-Identifier: BSD-3-Clause
// Reports of objects that the program has not freed when it calls MPI_Finalize (setting `check` = on).
#pragma once

namespace weft::api {

/// Reports each request and each communicator of the world model that has neither completed nor been freed.
/// Precondition: reporting(). Threading: under the instance lock.
void report_leaks();

}  // namespace weft::api
