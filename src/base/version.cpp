// SPDX-License-Identifier: BSD-3-Clause
#include "base/version.hpp"

#include "commit.hpp"

namespace weft {

const char kBuildVersion[] = WEFT_VERSION " (commit " WEFT_COMMIT ")";

}  // namespace weft
