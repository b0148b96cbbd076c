// SPDX-License-Identifier: BSD-3-Clause
#include "base/stream_wait.hpp"

namespace weft {

constinit thread_local StreamWait* StreamWait::current_ = nullptr;

}  // namespace weft
