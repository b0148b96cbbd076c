// SPDX-License-Identifier: BSD-3-Clause
// The UCX library, opened once per process at run time. Never closed, since it may have installed memory
// hooks.
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
  bool cuda_module = false;  ///< built with CUDA support
};

/// Opens the first available of: a copy already loaded, the file of the setting net.ucx_library, the library
/// found by the dynamic linker, the Python packages libucx-cu13 and libucx-cu12 next to Weft. An error lists
/// the attempts.
[[nodiscard]] Result<const Library*> library();

}  // namespace weft::transport::ucx
