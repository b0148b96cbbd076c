// SPDX-License-Identifier: BSD-3-Clause
// Overrides of UCX's default configuration for failure detection; UCX_* variables of the user take
// precedence.
#pragma once
#include <initializer_list>
#include <string_view>

#include "transport/ucx/library.hpp"

namespace weft::transport::ucx {

/// Returns whether UCX_TLS (null: not set) allows one of these transports or transport groups.
[[nodiscard]] bool tls_allows(const char* tls, std::initializer_list<std::string_view> names);

/// Properties of the machine that determine the overrides.
struct Environment {
  bool one_machine = false;    ///< all processes of the job share this machine and pid namespace
  bool rdma_adapters = false;  ///< RDMA adapters are present
  bool gpus = false;           ///< UCX may transfer GPU memory
};
/// Returns whether the kernel has RDMA devices.
[[nodiscard]] bool has_rdma_adapters();

/// Changes the configuration so that the failure of a peer is detected within 5 seconds.
void apply_overrides(const Library& library, api::Config config, const Environment& here);

}  // namespace weft::transport::ucx
