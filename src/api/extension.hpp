// SPDX-License-Identifier: BSD-3-Clause
// Extension: export macros for the functions of weft.h, under their MPIX_ and PMPIX_ names, and their
// handling of exhausted memory, which the generated entry points have too.
#pragma once
#include <new>
#include <stdexcept>

#include "api/entry_point.hpp"

#define WEFT_EXPORT __attribute__((visibility("default")))
/// Declares MPIX_X as a weak alias of PMPIX_X.
#define WEFT_ALIAS(name, parameters) __attribute__((weak, alias("P" #name))) WEFT_EXPORT int name parameters

namespace weft::api {

/// Runs the body of an entry point; an allocation that fails in it is MPI_ERR_NO_MEM.
template <class Body>
int guarded(EntryPoint& entry, Body&& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return entry.out_of_memory();
  } catch (const std::length_error&) {
    return entry.out_of_memory();
  }
}

}  // namespace weft::api
