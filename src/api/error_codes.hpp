// SPDX-License-Identifier: BSD-3-Clause
// Error codes: the classes of the standard with their texts, and those that the user adds (MPI 5.0
// section 9.5).
#pragma once
#include <string>

#include "core/communicator.hpp"

namespace weft::api {

/// The communicator that blame() named, once.
core::Ref<core::Communicator> take_blamed();

/// Every class of the standard; nullptr ends the walk.
struct ErrorClass {
  int code;
  const char* name;
  const char* text;
};
[[nodiscard]] const ErrorClass* standard_class(int code);

}  // namespace weft::api
