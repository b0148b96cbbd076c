// SPDX-License-Identifier: BSD-3-Clause
// Hints: info keys that override a setting of collectives for one communicator: weft_coll_gpu overrides
// coll.gpu. All ranks must pass the same values. Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "base/config.hpp"
#include "coll/schedule/call.hpp"

namespace weft::coll {

/// The settings that info keys can override.
[[nodiscard]] std::span<const config::Setting* const> hintable();
/// "weft_coll_gpu"
[[nodiscard]] std::string hint_key(const config::Setting& setting);

[[nodiscard]] size_t hinted_value(const core::Info& hints, const config::Setting& setting, size_t otherwise);
/// The value for a call: its communicator's hint, else the setting. For a choice: the index of the chosen
/// word.
[[nodiscard]] inline size_t value_for(const Call& call, const config::Size& setting) {
  if (call.comm == nullptr || !call.comm->info) [[likely]]
    return setting;
  return hinted_value(*call.comm->info, setting, setting);
}
[[nodiscard]] inline size_t value_for(const Call& call, const config::Choice& setting) {
  const auto own = static_cast<size_t>(setting.index());
  if (call.comm == nullptr || !call.comm->info) [[likely]]
    return own;
  return hinted_value(*call.comm->info, setting, own);
}

}  // namespace weft::coll
