// SPDX-License-Identifier: BSD-3-Clause
// Shared by the constructors of topologies.
#pragma once
#include "coll/construct/communicators.hpp"

namespace weft::topo {

/// A communicator of the first `size` ranks of the parent; nullptr on the other ranks. `what` names the
/// topology in the error text.
[[nodiscard]] coll::NewCommunicator first_ranks(core::Communicator& parent, int size, const char* what);

}  // namespace weft::topo
