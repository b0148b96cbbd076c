// SPDX-License-Identifier: BSD-3-Clause
// Data representations (MPI 5.0 section 14.5): how typed data is converted to the bytes of a file.
// Threading: under the instance lock. User functions run without it, in the thread of the call.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "datatype/datatype.hpp"

namespace weft::io {

/// A representation other than "native".
struct Datarep {
  /// Converts `count` elements of `type` at `user` to or from their bytes in the file at `file`.
  using Convert = std::function<Status(void* user, datatype::Datatype& type, int64_t count, void* file)>;
  std::string name;
  Convert read, write;  ///< empty: no conversion
  /// Bytes of a predefined type in the file.
  std::function<Result<int64_t>(datatype::Datatype& type)> extent;

  /// The type that has the size, extent and layout of `type` in the file, committed; one reference belongs to
  /// the caller.
  [[nodiscard]] datatype::DatatypeResult file_form(datatype::Datatype& type) const;
};

/// Finds a representation; null for "native", which stores data as in memory. Error:
/// MPI_ERR_UNSUPPORTED_DATAREP.
[[nodiscard]] Result<const Datarep*> find_datarep(std::string_view name);
/// MPI_Register_datarep. Error: MPI_ERR_DUP_DATAREP.
[[nodiscard]] Status register_datarep(Datarep datarep);

}  // namespace weft::io
