// SPDX-License-Identifier: BSD-3-Clause
#include "coll/schedule/hints.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/scope.hpp"
#include "core/info.hpp"

namespace weft::coll {
namespace {

constexpr std::string_view kNames[] = {"coll.gpu",
                                       "coll.gpu_doorbell_max_bytes",
                                       "coll.gpu_max_blocks",
                                       "coll.gpu_direct_chunk_bytes",
                                       "coll.gpu_direct",
                                       "coll.gpu_direct_max_blocks",
                                       "coll.gpu_direct_min_bytes",
                                       "coll.gpu_direct_reduce_min_bytes",
                                       "coll.gpu_ll128_max_bytes",
                                       "coll.gpu_ll128_min_bytes",
                                       "coll.gpu_ll_movement_max_bytes",
                                       "coll.gpu_movement_max_bytes",
                                       "coll.gpu_one_shot_max_bytes",
                                       "coll.gpu_ll_max_bytes",
                                       "coll.gpu_pair_max_bytes",
                                       "coll.hierarchy",
                                       "coll.hierarchy_nonblocking_max_bytes",
                                       "coll.hierarchy_segment_bytes",
                                       "coll.order"};

// The ranks of a host use shared memory and kernels together; all ranks use the same algorithm.
const config::Scopes of_job{config::Scope::job, {"coll.*"}};
const config::Scopes of_host{config::Scope::host, {"coll.shared*", "coll.gpu*"}};
const config::Scopes of_process{config::Scope::process,
                                {"coll.gpu_kernel_timeout_ns", "coll.gpu_reduce_min_bytes"}};

std::vector<const config::Setting*> find() {
  std::vector<const config::Setting*> found;
  for (const config::Setting* setting : config::all())
    if (std::find(std::begin(kNames), std::end(kNames), setting->name) != std::end(kNames))
      found.push_back(setting);
  return found;
}

}  // namespace

std::span<const config::Setting* const> hintable() {
  static const std::vector<const config::Setting*> settings = find();
  return settings;
}

std::string hint_key(const config::Setting& setting) {
  std::string key = std::string("weft_") + setting.name;
  std::replace(key.begin(), key.end(), '.', '_');
  return key;
}

size_t hinted_value(const core::Info& hints, const config::Setting& setting, size_t otherwise) {
  const auto text = hints.get(hint_key(setting));
  if (!text) return otherwise;
  const auto value = setting.read(*text);
  return value ? *value : otherwise;  // it was valid when the communicator accepted it
}

}  // namespace weft::coll
