// SPDX-License-Identifier: BSD-3-Clause
// Error codes: the error classes of the standard and their strings, and user-defined classes and codes
// (MPI 5.0 section 9.5).
#pragma once
#include <string>

#include "core/communicator.hpp"
#include "io/file/file.hpp"
#include "rma/window.hpp"

namespace weft::api {

/// Returns the communicator of set_error_communicator() and clears it.
core::Ref<core::Communicator> take_error_communicator();
/// The same for set_error_file().
core::Ref<io::File> take_error_file();
/// Keeps a window until the error of MPI_Win_free, which ends it, has found its handler.
void keep_error_window(core::Ref<rma::Window> window);
core::Ref<rma::Window> take_error_window();

/// An error class of the standard.
struct ErrorClass {
  int code;
  const char* name;
  const char* text;
};
/// The class `code` of the standard; nullptr if there is none.
[[nodiscard]] const ErrorClass* standard_class(int code);

}  // namespace weft::api
