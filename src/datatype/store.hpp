// SPDX-License-Identifier: BSD-3-Clause
// The slab of all derived datatypes. Private to this folder.
#pragma once
#include "base/slab.hpp"
#include "datatype/datatype.hpp"

namespace weft::datatype {

[[nodiscard]] Slab<Datatype>& slab();

}  // namespace weft::datatype
