// SPDX-License-Identifier: BSD-3-Clause
// Singleton: a process started without a launcher, rank 0 of 1; its exchange is a local map.
#pragma once
#include <memory>

#include "launch/launch.hpp"

namespace weft::launch::singleton {

[[nodiscard]] std::unique_ptr<Exchange> create();

}  // namespace weft::launch::singleton
