// SPDX-License-Identifier: BSD-3-Clause
#include "base/config.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/edit_distance.hpp"
#include "base/profile.hpp"
#include "base/secure.hpp"
#include "base/site.hpp"

extern char** environ;

namespace weft::config {
namespace {

std::vector<Setting*>& registry() {
  static std::vector<Setting*> settings;
  return settings;
}

Error bad_value(const Setting& setting, std::string_view text) {
  return Error(Errc::arg, setting.variable() + "=" + std::string(text) + " (not a valid value): use " +
                              setting.range_text() + "; default " + setting.default_text());
}

Error unknown_variable(std::string_view variable) {
  std::string nearest;
  size_t best = 4;
  for (const Setting* setting : registry()) {
    const size_t distance = edit_distance(setting->variable(), variable);
    if (distance < best) best = distance, nearest = setting->variable();
  }
  std::string message = std::string(variable) + " is not a Weft setting";
  // The start of a name: the shortest name that continues it.
  if (nearest.empty() && variable.size() > std::string_view("WEFT_").size())
    for (const Setting* setting : all())
      if (const std::string known = setting->variable();
          known.starts_with(variable) && (nearest.empty() || known.size() < nearest.size()))
        nearest = known;
  message += nearest.empty() ? ": see `weft info --config` for the list" : ": did you mean " + nearest + "?";
  return Error(Errc::arg, message);
}

Path profile_setting{
    "profile", "",
    "Path of the tuning profile written by weft tune; off: no profile; empty: weft/profile in "
    "$XDG_CONFIG_HOME or ~/.config, if that file exists.",
    "the profile is kept in another place, or a measurement needs the defaults (off)"};

/// Applies the profile to settings that the environment does not set. An unknown or invalid setting is an
/// error, because a profile belongs to the Weft version that wrote it.
Status apply_profile() {
  std::string path = profile_setting.value();
  if (path == "off") return {};
  if (path.empty()) path = default_profile();
  if (path.empty()) return {};
  auto values = read_profile(path, machine_name());
  if (!values) return std::move(values).error();
  for (const auto& [name, text] : *values) {
    const auto found =
        std::find_if(registry().begin(), registry().end(), [&](const Setting* s) { return name == s->name; });
    if (found == registry().end() || *found == &profile_setting)
      return Error(Errc::arg, path + ": " + name +
                                  " is not a setting of this version: run `weft tune` again, or set "
                                  "WEFT_PROFILE=off");
    if ((*found)->names_file())
      return Error(Errc::arg, path + ": " + name +
                                  " names a file, which a profile must not: remove the line, and set " +
                                  (*found)->variable() + " in the environment");
    if ((*found)->origin == Origin::environment || (*found)->origin == Origin::tool) continue;
    WEFT_TRY((*found)->parse(text));
    (*found)->origin = Origin::profile;
    replace_site_value(**found);
  }
  return {};
}

}  // namespace

const char* name_of(Level level) { return level == Level::user ? "user" : "internal"; }

const char* name_of(Origin origin) {
  switch (origin) {
    case Origin::profile:
      return "profile";
    case Origin::environment:
      return "environment";
    case Origin::tool:
      return "tool";
    case Origin::default_value:
      break;
  }
  return "default";
}

Setting::Setting(const char* setting_name, const char* setting_help, const char* setting_change_when)
    : name(setting_name), help(setting_help), change_when(setting_change_when) {
  registry().push_back(this);
}

std::string Setting::variable() const {
  std::string result = "WEFT_";
  for (const char* c = name; *c != 0; ++c)
    result += *c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(*c)));
  return result;
}

Size::Size(const char* name, size_t default_value, size_t low, size_t high, const char* help,
           const char* change_when)
    : Setting(name, help, change_when),
      value_(default_value),
      default_(default_value),
      low_(low),
      high_(high) {}

Result<size_t> Setting::read(std::string_view text) const { return bad_value(*this, text); }

Status Size::parse(std::string_view text) {
  auto number = read(text);
  if (!number) return std::move(number).error();
  value_ = *number;
  return {};
}

Result<size_t> Size::read(std::string_view text) const {
  size_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end == text.data()) return bad_value(*this, text);
  std::string_view suffix(end, static_cast<size_t>(text.data() + text.size() - end));
  int shift = 0;
  if (suffix == "k" || suffix == "K")
    shift = 10;
  else if (suffix == "m" || suffix == "M")
    shift = 20;
  else if (suffix == "g" || suffix == "G")
    shift = 30;
  else if (!suffix.empty())
    return bad_value(*this, text);
  if (shift != 0 && number > (SIZE_MAX >> shift)) return bad_value(*this, text);
  number <<= shift;
  if (number < low_ || number > high_) return bad_value(*this, text);
  return number;
}

std::string Size::value_text() const { return std::to_string(value_); }
std::string Size::default_text() const { return std::to_string(default_); }
std::string Size::range_text() const {
  return "a number from " + std::to_string(low_) + " to " + std::to_string(high_) + " (suffixes k, m, g)";
}

Choice::Choice(const char* name, int default_value, std::vector<std::string> words, const char* help,
               const char* change_when)
    : Setting(name, help, change_when),
      value_(default_value),
      default_(default_value),
      words_(std::move(words)) {}

Status Choice::parse(std::string_view text) {
  auto index = read(text);
  if (!index) return std::move(index).error();
  value_ = static_cast<int>(*index);
  return {};
}

Result<size_t> Choice::read(std::string_view text) const {
  const bool is_switch = std::find(words_.begin(), words_.end(), "on") != words_.end();
  if (is_switch && text == "1") text = "on";
  if (is_switch && text == "0") text = "off";
  const auto found = std::find(words_.begin(), words_.end(), text);
  if (found == words_.end()) return bad_value(*this, text);
  return static_cast<size_t>(found - words_.begin());
}

std::string Choice::value_text() const { return words_[static_cast<size_t>(value_)]; }
std::string Choice::default_text() const { return words_[static_cast<size_t>(default_)]; }
std::string Choice::range_text() const {
  std::string result = "one of";
  for (const auto& word : words_) result += " " + word;
  return result;
}

Text::Text(const char* name, const char* default_value, const char* help, const char* change_when)
    : Setting(name, help, change_when), value_(default_value), default_(default_value) {}

Status Text::parse(std::string_view text) {
  value_ = text;
  return {};
}

std::vector<Setting*> all() {
  auto settings = registry();
  std::sort(settings.begin(), settings.end(),
            [](const Setting* a, const Setting* b) { return std::strcmp(a->name, b->name) < 0; });
  return settings;
}

const std::vector<std::string>& launcher_variables() {
  static const std::vector<std::string> names = {"WEFT_JOB_ID", "WEFT_JOB_PARENT", "WEFT_JOB_SOCKET",
                                                 "WEFT_PREFIX", "WEFT_CC",         "WEFT_CXX",
                                                 "WEFT_FC",     "WEFT_LOCAL_RANK", "WEFT_LOCAL_SIZE"};
  return names;
}

Status load() {
  if (secure::execution()) return {};
  for (Setting* setting : registry()) {
    if (setting->origin == Origin::tool) continue;
    const char* text = std::getenv(setting->variable().c_str());
    if (text != nullptr || setting->origin != Origin::default_value)
      WEFT_TRY(setting->parse(text != nullptr ? text : setting->default_text()));
    setting->origin = text != nullptr ? Origin::environment : Origin::default_value;
  }
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "WEFT_", 5) != 0) continue;
    const std::string_view variable(*entry, std::strcspn(*entry, "="));
    const auto& exempt = launcher_variables();
    if (std::find(exempt.begin(), exempt.end(), variable) != exempt.end()) continue;
    const bool known = std::any_of(registry().begin(), registry().end(),
                                   [&](const Setting* s) { return s->variable() == variable; });
    if (!known) return unknown_variable(variable);
  }
  WEFT_TRY(apply_site_files(site_files()));  // may name the profile
  return apply_profile();
}

}  // namespace weft::config
