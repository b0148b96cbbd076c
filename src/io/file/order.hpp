// SPDX-License-Identifier: BSD-3-Clause
// Files in stream order: the communicator of a file has the order of the communicator from which it was
// opened, also if that gets a stream later. Threading: under the instance lock.
#pragma once
#include "base/result.hpp"
#include "core/communicator.hpp"

namespace weft::io {

/// `own`, of a file, follows `from`, from which the file is opened, until leave_order(). Error: no memory.
[[nodiscard]] Status join_order(core::Communicator& own, const core::Communicator& from);
void leave_order(const core::Communicator& own);
/// After the order of a communicator may have become another one: for the files opened from it.
void renew_orders(const core::Communicator& from);
/// Before a communicator is freed: files opened from it keep its order.
void keep_orders(const core::Communicator& from);

}  // namespace weft::io
