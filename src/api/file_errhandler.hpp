// SPDX-License-Identifier: BSD-3-Clause
// The error handler of MPI_FILE_NULL, used for errors without an open file (MPI 5.0 section 9.3).
#pragma once
#include "core/errhandler.hpp"
#include "core/reference.hpp"

namespace weft::api {

/// Default: MPI_ERRORS_RETURN.
[[nodiscard]] core::Ref<core::Errhandler>& file_null_errhandler();

}  // namespace weft::api
