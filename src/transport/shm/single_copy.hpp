// SPDX-License-Identifier: BSD-3-Clause
// Single copies by the kernel between this process and another one of the same user.
#pragma once
#include <sys/types.h>

#include <span>

#include "base/result.hpp"
#include "transport/transport.hpp"

namespace weft::transport::shm {

/// The setting shm.single_copy. The operating system may still refuse.
[[nodiscard]] bool single_copy_enabled();
/// Copies the memory `remote` of a process into `local`, or `local` into it (equal total lengths).
/// Errc::buffer: the kernel cannot access that memory (device or protected); Errc::unsupported: not
/// permitted, or disabled by shm.single_copy; Errc::proc_aborted: no process has that pid any more.
[[nodiscard]] Status read_process(pid_t process, std::span<const Iov> local, std::span<const Iov> remote);
[[nodiscard]] Status write_process(pid_t process, std::span<const Iov> local, std::span<const Iov> remote);

}  // namespace weft::transport::shm
