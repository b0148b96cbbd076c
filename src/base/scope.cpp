// SPDX-License-Identifier: BSD-3-Clause
#include "base/scope.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace weft::config {
namespace {

std::vector<std::pair<std::string_view, Scope>>& patterns() {
  static std::vector<std::pair<std::string_view, Scope>> declared;
  return declared;
}

std::vector<std::string_view>& adjustable_names() {
  static std::vector<std::string_view> declared;
  return declared;
}

bool matches(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return name == pattern;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

/// The value of a setting in a text of common_values(); the default if the text does not contain the setting.
std::string value_in(std::string_view values, const Setting& setting) {
  const std::string key = std::string(setting.name) + "=";
  for (size_t at = 0; at < values.size();) {
    const size_t end = std::min(values.find(';', at), values.size());
    const std::string_view entry = values.substr(at, end - at);
    if (entry.starts_with(key)) return std::string(entry.substr(key.size()));
    at = end + 1;
  }
  return setting.default_text();
}

}  // namespace

Scopes::Scopes(Scope scope, std::initializer_list<const char*> declared) {
  for (const char* pattern : declared) patterns().emplace_back(pattern, scope);
}

Scope scope_of(const Setting& setting) {
  Scope found = Scope::process;
  size_t longest = 0;
  for (const auto& [pattern, scope] : patterns()) {
    if (pattern.size() <= longest || !matches(pattern, setting.name)) continue;
    longest = pattern.size();
    found = scope;
  }
  return found;
}

Adjustable::Adjustable(std::initializer_list<const char*> names) {
  adjustable_names().insert(adjustable_names().end(), names.begin(), names.end());
}

bool adjustable(const Setting& setting) {
  const auto& names = adjustable_names();
  return std::find(names.begin(), names.end(), setting.name) != names.end();
}

std::string common_values(Scope scope) {
  std::string values;
  for (const Setting* setting : all())
    if (scope_of(*setting) >= scope && setting->value_text() != setting->default_text())
      values += std::string(setting->name) + "=" + setting->value_text() + ";";
  return values;
}

Error difference(std::string_view own, int rank, std::string_view other, int other_rank) {
  for (const Setting* setting : all()) {
    const std::string here = value_in(own, *setting), there = value_in(other, *setting);
    if (scope_of(*setting) != Scope::process && here != there)
      return Error(Errc::arg,
                   setting->variable() + " is " + here + " in process " + std::to_string(rank) + " but " +
                       there + " in process " + std::to_string(other_rank) +
                       " (ranks would use different paths in a collective and hang): set the same value "
                       "in all processes");
  }
  return Error(Errc::arg, "settings of collectives differ between process " + std::to_string(rank) +
                              " and process " + std::to_string(other_rank) +
                              ": set the same values in all processes");
}

}  // namespace weft::config
