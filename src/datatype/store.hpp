// SPDX-License-Identifier: BSD-3-Clause
// The slab that all derived datatypes live in. Private to this folder.
#pragma once
#include "base/slab.hpp"
#include "datatype/datatype.hpp"

namespace weft::datatype {

[[nodiscard]] Slab<Datatype>& slab();

}  // namespace weft::datatype
