// SPDX-License-Identifier: BSD-3-Clause
// Parts of this library that the bindings of another MPI for C++ and Fortran use.
#pragma once
#include "compat/handles.hpp"

namespace weft::compat {

/// Fills what the program's bindings of C++ and Fortran read. Called when the library is loaded.
void open_bindings();
/// Whether MPI_Op_create with this function is part of MPI::Op::Init.
bool creates_cxx_operation(void (*function)());
/// Returns the error code of MPI_Op_create.
int create_cxx_operation(int commute, Handle* op);

}  // namespace weft::compat
