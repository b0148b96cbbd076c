// SPDX-License-Identifier: BSD-3-Clause
// Access: permission for the peers on this host to read the memory of this process.
#pragma once
#include <sys/prctl.h>

namespace weft::transport::shm {

/// Under Yama's ptrace_scope 1: whether all processes of this user, or only parents, may read this process.
inline void allow_access(bool allowed) { ::prctl(PR_SET_PTRACER, allowed ? PR_SET_PTRACER_ANY : 0); }

}  // namespace weft::transport::shm
