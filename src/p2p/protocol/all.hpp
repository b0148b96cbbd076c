// SPDX-License-Identifier: BSD-3-Clause
// All protocols, by their names in the code.
#pragma once
#include "p2p/protocol/device/protocols.hpp"
#include "p2p/protocol/host/protocols.hpp"
#include "p2p/protocol/network/protocols.hpp"
#include "p2p/protocol/staged/protocols.hpp"
