// SPDX-License-Identifier: BSD-3-Clause
// Settings: each is declared next to its user; the environment variable of `p2p.eager_max` is
// WEFT_P2P_EAGER_MAX. load() reads all settings once at start-up; an invalid value is an error that names the
// setting and its range. A declaration that says when to change the setting makes it a user setting.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace weft::config {

/// user: documented for users; internal: for tests, measurements and tuning profiles.
enum class Level { user, internal };
[[nodiscard]] const char* name_of(Level level);  ///< "user", "internal"

/// profile: a file, of `weft tune` or of the site (origin_text() of base/site.hpp). tool: written through the
/// tool information interface (MPI_T), which load() keeps.
enum class Origin { default_value, profile, environment, tool };
[[nodiscard]] const char* name_of(Origin origin);  ///< "default", "profile", "environment", "tool"

/// Base class of settings. The constructor registers the object in all(), so settings need static storage.
/// `help`: noun phrase, unit and effect. `change_when`: a condition that completes "Change it when ..."; with
/// it the setting is a user setting, without it an internal one.
class Setting {
 public:
  Setting(const char* name, const char* help, const char* change_when);
  virtual ~Setting() = default;
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  [[nodiscard]] std::string variable() const;  ///< environment variable, e.g. WEFT_P2P_EAGER_MAX
  [[nodiscard]] virtual Status parse(std::string_view text) = 0;
  /// Parses `text` as a value of this Size or Choice without changing the setting (per-call overrides).
  [[nodiscard]] virtual Result<size_t> read(std::string_view text) const;
  [[nodiscard]] virtual std::string value_text() const = 0;
  [[nodiscard]] virtual std::string range_text() const = 0;
  [[nodiscard]] virtual std::string default_text() const = 0;
  /// True if the value names a file, such as a library to load: a profile must not set it.
  [[nodiscard]] virtual bool names_file() const { return false; }
  [[nodiscard]] Level level() const { return change_when == nullptr ? Level::internal : Level::user; }
  const char* name;
  const char* help;
  const char* change_when;  ///< null: internal
  Origin origin = Origin::default_value;
};

/// Size in bytes or a count; accepts the suffixes k, m, g (powers of 1024).
class Size : public Setting {
 public:
  Size(const char* name, size_t default_value, size_t low, size_t high, const char* help,
       const char* change_when = nullptr);
  [[nodiscard]] Status parse(std::string_view text) override;
  [[nodiscard]] Result<size_t> read(std::string_view text) const override;
  [[nodiscard]] std::string value_text() const override;
  [[nodiscard]] std::string range_text() const override;
  [[nodiscard]] std::string default_text() const override;
  operator size_t() const { return value_; }  // NOLINT(google-explicit-constructor)

 private:
  size_t value_, default_, low_, high_;
};

/// One word of a fixed list.
class Choice : public Setting {
 public:
  Choice(const char* name, int default_value, std::vector<std::string> words, const char* help,
         const char* change_when = nullptr);
  [[nodiscard]] Status parse(std::string_view text) override;
  [[nodiscard]] Result<size_t> read(std::string_view text) const override;
  [[nodiscard]] std::string value_text() const override;
  [[nodiscard]] std::string range_text() const override;
  [[nodiscard]] std::string default_text() const override;
  [[nodiscard]] int index() const { return value_; }
  [[nodiscard]] const std::vector<std::string>& words() const { return words_; }
  [[nodiscard]] bool is(std::string_view word) const { return words_[static_cast<size_t>(value_)] == word; }

 private:
  int value_, default_;
  std::vector<std::string> words_;
};

/// Free text, e.g. a name or a list; use Path for the name of a file.
class Text : public Setting {
 public:
  Text(const char* name, const char* default_value, const char* help, const char* change_when = nullptr);
  [[nodiscard]] Status parse(std::string_view text) override;
  [[nodiscard]] std::string value_text() const override { return value_; }
  [[nodiscard]] std::string range_text() const override { return "any text"; }
  [[nodiscard]] std::string default_text() const override { return default_; }
  [[nodiscard]] const std::string& value() const { return value_; }

 private:
  std::string value_, default_;
};

/// The path of a library, a program or another file. Only the environment sets it, never a profile.
class Path : public Text {
 public:
  using Text::Text;
  [[nodiscard]] std::string range_text() const override { return "a path"; }
  [[nodiscard]] bool names_file() const override { return true; }
};

/// All settings in alphabetical order.
[[nodiscard]] std::vector<Setting*> all();
/// Sets every setting from the environment, else from this machine's profile (base/profile.hpp), else from
/// the files of the site (base/site.hpp), else to its default, also in a second call. An unknown WEFT_*
/// variable is an error that suggests the nearest name; launcher_variables() are exempt. In secure execution
/// (base/secure.hpp) every setting keeps its default.
[[nodiscard]] Status load();
/// WEFT_* variables that the launcher sets and that are not settings, e.g. WEFT_JOB_ID.
[[nodiscard]] const std::vector<std::string>& launcher_variables();

}  // namespace weft::config
