// SPDX-License-Identifier: BSD-3-Clause
#include "coll/hints.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/scope.hpp"
#include "core/info.hpp"

namespace weft::coll {
namespace {

constexpr std::string_view kNames[] = {"coll.device",
                                       "coll.device_bell_max",
                                       "coll.device_blocks",
                                       "coll.device_chunk",
                                       "coll.device_direct",
                                       "coll.device_direct_blocks",
                                       "coll.device_direct_min",
                                       "coll.device_direct_other_min",
                                       "coll.device_direct_reduce_min",
                                       "coll.device_lines_max",
                                       "coll.device_lines_min",
                                       "coll.device_message_packets_max",
                                       "coll.device_moved_max",
                                       "coll.device_one_shot_max",
                                       "coll.device_packets_max",
                                       "coll.device_pair_max",
                                       "coll.hierarchy",
                                       "coll.hierarchy_message_max",
                                       "coll.hierarchy_piece",
                                       "coll.hierarchy_rails_min",
                                       "coll.nccl",
                                       "coll.nccl_min"};

// Ranks of one host use shared memory and kernels together; algorithms are for all ranks.
const config::Scopes of_job{config::Scope::job, {"coll.*"}};
const config::Scopes of_host{config::Scope::host, {"coll.shared*", "coll.device*", "coll.nccl*"}};
const config::Scopes of_process{
    config::Scope::process,
    {"coll.device_patience", "coll.device_scratch", "coll.gpu_reduce_min", "coll.nccl_library"}};

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
  return value ? *value : otherwise;  // it was good when it was taken over
}

}  // namespace weft::coll
