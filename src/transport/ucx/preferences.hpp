// SPDX-License-Identifier: BSD-3-Clause
// What Weft would have UCX do otherwise than by default, unless the user has decided: UCX_* variables win.
#pragma once
#include <initializer_list>
#include <string_view>

#include "transport/ucx/library.hpp"

namespace weft::transport::ucx {

/// Whether UCX_TLS (null: not set) leaves one of these transports or groups of them, in UCX's own words.
[[nodiscard]] bool tls_leaves(const char* tls, std::initializer_list<std::string_view> names);

/// What matters of where a process runs.
struct Surroundings {
  bool one_machine = false;    ///< all processes of the job are on this machine, with the same process ids
  bool rdma_adapters = false;  ///< UCX may find adapters for RDMA
  bool gpus = false;           ///< UCX may move GPU memory
};
/// Whether the kernel knows adapters for RDMA.
[[nodiscard]] bool has_rdma_adapters();

/// Changes the configuration so that the death of a peer is seen within 5 seconds.
void prefer(const Library& library, api::Config config, const Surroundings& here);

}  // namespace weft::transport::ucx
