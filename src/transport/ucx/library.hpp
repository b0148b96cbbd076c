// SPDX-License-Identifier: BSD-3-Clause
// The UCX library, opened once per process at run time. Never closed, since it may have installed memory
// hooks.
#pragma once
#include <string>
#include <vector>

#include "base/result.hpp"
#include "transport/ucx/api.hpp"
#include "transport/ucx/candidates.hpp"

namespace weft::transport::ucx {

namespace api {
struct Functions {
#define WEFT_UCX_DECLARE(result, name, arguments) result(*name) arguments = nullptr;
  WEFT_UCX_FUNCTIONS(WEFT_UCX_DECLARE)
#undef WEFT_UCX_DECLARE
};
}  // namespace api

struct Library : api::Functions {
  std::string path;     ///< of libucp.so.0
  std::string version;  ///< "1.13.1"
  std::string why;      ///< "the system's", "of the Python environment, chosen for its CUDA module, ..."
  std::vector<Candidate> seen;  ///< the other copies on this host
  bool cuda_module = false;     ///< built with CUDA support
};

/// Opens the first available of: a copy already loaded, the file of the setting net.ucx_library, the copies
/// of find_candidates() in the order of rank(). An error lists the attempts.
[[nodiscard]] Result<const Library*> library();

}  // namespace weft::transport::ucx
