// SPDX-License-Identifier: BSD-3-Clause
// Foreign handles: handles of the binary interface of another MPI, which reach this library when parts of a
// program were compiled with different mpi.h.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace weft::api {

/// Native values by which lib/compat reports a handle that the program passes to it. No kind of handle has
/// them.
enum ForeignHandle : uintptr_t {
  kInvalidHandle = 1,      ///< freed, or of no interface
  kStandardInMpich = 2,    ///< a predefined handle of the standard ABI in a call of MPICH's
  kStandardInOpenMpi = 3,  ///< the same in a call of Open MPI's
};

/// Returns what the message says of the value of a handle of another interface than that of the call, e.g. "
/// = 0xffffffffc4000000 is a communicator of MPICH's ABI, but ...", with the remedy; empty if it is none.
/// wanted: the kind that the call expects, e.g. "a communicator"; a value that another kind of MPICH has may
/// be garbage.
[[nodiscard]] std::string describe_foreign_handle(uintptr_t value, std::string_view wanted);

}  // namespace weft::api
