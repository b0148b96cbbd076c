// SPDX-License-Identifier: BSD-3-Clause
// The UCX library: found and opened at run time, once a process. Never closed: it may leave hooks behind.
#pragma once
#include <string>

#include "base/result.hpp"
#include "transport/ucx/api.hpp"

namespace weft::transport::ucx {

namespace api {
struct Functions {
#define WEFT_UCX_DECLARE(result, name, arguments) result(*name) arguments = nullptr;
  WEFT_UCX_FUNCTIONS(WEFT_UCX_DECLARE)
#undef WEFT_UCX_DECLARE
};
}  // namespace api

struct Library : api::Functions {
  std::string path;          ///< of libucp.so.0
  std::string version;       ///< "1.13.1"
  bool cuda_module = false;  ///< it was built with support of CUDA
};

/// In this order: one that the process has loaded already, what the setting net.ucx_library names, the one
/// that the dynamic linker finds (the system's or the site's), the Python packages libucx-cu13 and
/// libucx-cu12 beside Weft. An error lists what was tried.
[[nodiscard]] Result<const Library*> library();

}  // namespace weft::transport::ucx
