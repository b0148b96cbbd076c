// SPDX-License-Identifier: BSD-3-Clause
#include "transport/ucx/preferences.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace weft::transport::ucx {
namespace {

struct ConfigOverride {
  const char* variable;  ///< by which the user overrides the value
  const char* name;
  const char* other_name;  ///< name in other UCX versions
  const char* value;
};
constexpr ConfigOverride kKeepalive[] = {{"UCX_KEEPALIVE_INTERVAL", "KEEPALIVE_INTERVAL", nullptr, "1s"}};
// Over TCP, UCX's keepalive is data that the kernel retransmits for 15 minutes, which suppresses the kernel's
// own keepalive: the loss of a host would go undetected. The exit of a process is detected without keepalive.
constexpr ConfigOverride kNoKeepalive[] = {{"UCX_KEEPALIVE_INTERVAL", "KEEPALIVE_INTERVAL", nullptr, "inf"}};
// Three failed probes: an outage of two seconds is tolerated. Connections are made by progress, not by the
// creation of an endpoint: UCX (1.13 to 1.20) frees a connection whose peer ends during the creation,
// although the endpoint has it. Without a second attempt UCX may give up during the creation, too.
constexpr ConfigOverride kTcp[] = {
    {"UCX_TCP_KEEPIDLE", "KEEPIDLE", "TCP_KEEPIDLE", "1s"},
    {"UCX_TCP_KEEPINTVL", "KEEPINTVL", "TCP_KEEPINTVL", "1s"},
    {"UCX_TCP_KEEPCNT", "KEEPCNT", "TCP_KEEPCNT", "3"},
    {"UCX_TCP_CONN_NB", "CONN_NB", "TCP_CONN_NB", "y"},
    {"UCX_TCP_MAX_CONN_RETRIES", "MAX_CONN_RETRIES", "TCP_MAX_CONN_RETRIES", "2"}};

template <size_t count>
void apply(const Library& library, api::Config config, const ConfigOverride (&overrides)[count]) {
  for (const ConfigOverride& override_ : overrides) {
    if (std::getenv(override_.variable) != nullptr) continue;
    if (library.ucp_config_modify(config, override_.name, override_.value) != api::Code::ok &&
        override_.other_name != nullptr)
      static_cast<void>(library.ucp_config_modify(config, override_.other_name, override_.value));
  }
}

bool user_decided_on_shared_memory() {
  constexpr const char* kVariables[] = {"UCX_MM_ERROR_HANDLING", "UCX_POSIX_ERROR_HANDLING",
                                        "UCX_SYSV_ERROR_HANDLING"};
  return std::any_of(std::begin(kVariables), std::end(kVariables),
                     [](const char* name) { return std::getenv(name) != nullptr; });
}

}  // namespace

bool tls_allows(const char* tls, std::initializer_list<std::string_view> names) {
  if (tls == nullptr) return true;
  std::string_view list(tls);
  const bool without = list.starts_with('^');
  if (without) list.remove_prefix(1);
  const auto listed = [&](std::string_view name) {
    for (std::string_view rest = list; !rest.empty();) {
      const size_t comma = rest.find(',');
      if (rest.substr(0, comma) == name) return true;
      rest = comma == rest.npos ? std::string_view() : rest.substr(comma + 1);
    }
    return false;
  };
  if (without) return std::none_of(names.begin(), names.end(), listed);
  return listed("all") || std::any_of(names.begin(), names.end(), listed);
}

bool has_rdma_adapters() {
  std::error_code failure;
  const std::filesystem::directory_iterator adapters("/sys/class/infiniband", failure);
  return !failure && adapters != std::filesystem::directory_iterator();
}

// Sets only variables of transports in use, since UCX warns about unused ones.
void apply_overrides(const Library& library, api::Config config, const Environment& here) {
  const char* tls = std::getenv("UCX_TLS");
  const bool sockets_only = !here.rdma_adapters ||
                            !tls_allows(tls, {"ib", "rc", "rc_v", "rc_x", "rc_verbs", "rc_mlx5", "ud", "ud_v",
                                              "ud_x", "ud_verbs", "ud_mlx5", "dc", "dc_x", "dc_mlx5", "srd"});
  if (sockets_only && !here.one_machine)
    apply(library, config, kNoKeepalive);
  else
    apply(library, config, kKeepalive);
  if (tls_allows(tls, {"tcp"})) apply(library, config, kTcp);
  // Without error handling in mm, UCX uses sockets for endpoints with peer failure detection, and GPU memory
  // is slow. It checks the peer's process id, so all processes must share a pid namespace. Only for GPUs: a
  // process that dies while writing to another's FIFO blocks that FIFO for all senders.
  if (here.one_machine && here.gpus && tls_allows(tls, {"sm", "shm", "mm", "posix", "sysv"}) &&
      !user_decided_on_shared_memory())
    static_cast<void>(library.ucp_config_modify(config, "MM_ERROR_HANDLING", "y"));
}

}  // namespace weft::transport::ucx
