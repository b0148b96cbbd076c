// SPDX-License-Identifier: BSD-3-Clause
// Version and commit of the library, for people and for the comparison of processes at first contact.
#pragma once

namespace weft {

/// "0.2.0 (commit d48fae69a1b2)", with "+" behind the number if the tree had changes. "0.2.0 (commit
/// unknown)" if the sources came without their commit.
extern const char kBuildVersion[];

}  // namespace weft
