// SPDX-License-Identifier: BSD-3-Clause
#include "transport/ucx/preferences.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace weft::transport::ucx {
namespace {

struct Preference {
  const char* variable;  ///< the user's
  const char* name;
  const char* other_name;  ///< older versions, or newer ones, know it by this one
  const char* value;
};
constexpr Preference kProbes[] = {{"UCX_KEEPALIVE_INTERVAL", "KEEPALIVE_INTERVAL", nullptr, "1s"}};
// Probes of UCX are data to the kernel, which sends them again for a quarter of an hour and does not probe
// itself meanwhile: a host that vanishes would not be seen. Its death in order is seen without probes.
constexpr Preference kNoProbes[] = {{"UCX_KEEPALIVE_INTERVAL", "KEEPALIVE_INTERVAL", nullptr, "inf"}};
// Three probes in a row: a cut of two seconds loses nothing.
constexpr Preference kTcp[] = {{"UCX_TCP_KEEPIDLE", "KEEPIDLE", "TCP_KEEPIDLE", "1s"},
                               {"UCX_TCP_KEEPINTVL", "KEEPINTVL", "TCP_KEEPINTVL", "1s"},
                               {"UCX_TCP_KEEPCNT", "KEEPCNT", "TCP_KEEPCNT", "3"},
                               {"UCX_TCP_MAX_CONN_RETRIES", "MAX_CONN_RETRIES", "TCP_MAX_CONN_RETRIES", "1"}};

template <size_t count>
void apply(const Library& library, api::Config config, const Preference (&wishes)[count]) {
  for (const Preference& wish : wishes) {
    if (std::getenv(wish.variable) != nullptr) continue;
    if (library.ucp_config_modify(config, wish.name, wish.value) != api::Code::ok &&
        wish.other_name != nullptr)
      static_cast<void>(library.ucp_config_modify(config, wish.other_name, wish.value));
  }
}

bool user_decided_on_shared_memory() {
  constexpr const char* kVariables[] = {"UCX_MM_ERROR_HANDLING", "UCX_POSIX_ERROR_HANDLING",
                                        "UCX_SYSV_ERROR_HANDLING"};
  return std::any_of(std::begin(kVariables), std::end(kVariables),
                     [](const char* name) { return std::getenv(name) != nullptr; });
}

}  // namespace

bool tls_leaves(const char* tls, std::initializer_list<std::string_view> names) {
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

// UCX warns of settings that nothing it opens has.
void prefer(const Library& library, api::Config config, const Surroundings& here) {
  const char* tls = std::getenv("UCX_TLS");
  const bool sockets_only = !here.rdma_adapters ||
                            !tls_leaves(tls, {"ib", "rc", "rc_v", "rc_x", "rc_verbs", "rc_mlx5", "ud", "ud_v",
                                              "ud_x", "ud_verbs", "ud_mlx5", "dc", "dc_x", "dc_mlx5", "srd"});
  if (sockets_only && !here.one_machine)
    apply(library, config, kNoProbes);
  else
    apply(library, config, kProbes);
  if (tls_leaves(tls, {"tcp"})) apply(library, config, kTcp);
  // Without it UCX takes sockets where ends of peers are to be seen, and GPU memory is slow. It looks for a
  // process id of the peer, so the processes must have the same ids: containers may not. For GPUs only: a
  // process that dies while it writes to another's queue leaves that one deaf to all others.
  if (here.one_machine && here.gpus && tls_leaves(tls, {"sm", "shm", "mm", "posix", "sysv"}) &&
      !user_decided_on_shared_memory())
    static_cast<void>(library.ucp_config_modify(config, "MM_ERROR_HANDLING", "y"));
}

}  // namespace weft::transport::ucx
