// SPDX-License-Identifier: BSD-3-Clause
// The error handler of MPI_FILE_NULL: of errors in calls on files that are not open (MPI 5.0 section 9.3).
#pragma once
#include "core/errhandler.hpp"
#include "core/reference.hpp"

namespace weft::api {

/// MPI_ERRORS_RETURN unless the application has set another.
[[nodiscard]] core::Ref<core::Errhandler>& file_null_errhandler();

}  // namespace weft::api
