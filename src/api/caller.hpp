// SPDX-License-Identifier: BSD-3-Clause
// The language of the caller, for error messages: found by a walk of the stack, so calls pay nothing for it.
#pragma once
#include <string>

namespace weft::api {

/// An array's element as the program writes it: `name[2]` in C, `name(3)` if the call came from Fortran.
std::string element_name(const char* name, size_t index);

}  // namespace weft::api
