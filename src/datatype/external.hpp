// SPDX-License-Identifier: BSD-3-Clause
// The portable format "external32": big-endian, with the sizes of MPI 5.0 section 14.5.2. Host memory only.
#pragma once
#include "datatype/datatype.hpp"

namespace weft::datatype {

/// Size of `count` elements in the external32 format, in bytes.
[[nodiscard]] Result<Count> external_size(const Datatype& type, Count count);
/// `out` must have external_size() bytes.
[[nodiscard]] Status pack_external(const Datatype& type, Count count, const void* buf, void* out);
[[nodiscard]] Status unpack_external(const Datatype& type, Count count, void* buf, const void* in);

}  // namespace weft::datatype
