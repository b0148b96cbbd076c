// SPDX-License-Identifier: BSD-3-Clause
// The library of another MPI's C++ bindings on top of this one: openmpi_cxx.cpp; mpich.cpp has none.
#pragma once
#include "api/compat/handles.hpp"

namespace weft::compat {

/// Creates MPI::ERRORS_THROW_EXCEPTIONS if the program has the bindings. Called when the library is loaded.
void open_cxx_bindings();
/// Whether MPI_Op_create with this function is part of MPI::Op::Init.
bool creates_cxx_operation(void (*function)());
/// Returns the error code of MPI_Op_create.
int create_cxx_operation(int commute, Handle* op);

}  // namespace weft::compat
