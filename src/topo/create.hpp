// SPDX-License-Identifier: BSD-3-Clause
// What the constructors of topologies share.
#pragma once
#include "coll/construct.hpp"

namespace weft::topo {

/// A communicator of the first `size` ranks of the parent; nullptr in the others. `what` needs them.
[[nodiscard]] coll::Made first_ranks(core::Communicator& parent, int size, const char* what);

}  // namespace weft::topo
