// SPDX-License-Identifier: BSD-3-Clause
// Settings: one declaration beside its user; `p2p.eager_max` is WEFT_P2P_EAGER_MAX in the environment.
// Read once at start-up by load(); a bad value is an error that names the setting and the range.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace weft::config {

enum class Origin { standard, profile, environment };
[[nodiscard]] const char* name_of(Origin origin);  ///< "default", "profile", "environment"

/// Base of all settings; registers itself in all() on construction (static storage only).
class Setting {
 public:
  Setting(const char* name, const char* help);
  virtual ~Setting() = default;
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  [[nodiscard]] std::string variable() const;  ///< WEFT_P2P_EAGER_MAX
  [[nodiscard]] virtual Status parse(std::string_view text) = 0;
  /// What a text would set a number or choice to, and is left as it was: for what overrides a setting.
  [[nodiscard]] virtual Result<size_t> read(std::string_view text) const;
  [[nodiscard]] virtual std::string value_text() const = 0;
  [[nodiscard]] virtual std::string range_text() const = 0;
  [[nodiscard]] virtual std::string default_text() const = 0;
  /// True if the value names a file, such as a library to load: a profile must not set it.
  [[nodiscard]] virtual bool names_file() const { return false; }
  const char* name;
  const char* help;
  Origin origin = Origin::standard;
};

/// A size or count; accepts suffixes k, m, g (powers of 1024).
class Size : public Setting {
 public:
  Size(const char* name, size_t standard, size_t low, size_t high, const char* help);
  [[nodiscard]] Status parse(std::string_view text) override;
  [[nodiscard]] Result<size_t> read(std::string_view text) const override;
  [[nodiscard]] std::string value_text() const override;
  [[nodiscard]] std::string range_text() const override;
  [[nodiscard]] std::string default_text() const override;
  operator size_t() const { return value_; }  // NOLINT(google-explicit-constructor)

 private:
  size_t value_, standard_, low_, high_;
};

/// One of a list of words.
class Choice : public Setting {
 public:
  Choice(const char* name, int standard, std::vector<std::string> words, const char* help);
  [[nodiscard]] Status parse(std::string_view text) override;
  [[nodiscard]] Result<size_t> read(std::string_view text) const override;
  [[nodiscard]] std::string value_text() const override;
  [[nodiscard]] std::string range_text() const override;
  [[nodiscard]] std::string default_text() const override;
  [[nodiscard]] int index() const { return value_; }
  [[nodiscard]] bool is(std::string_view word) const { return words_[static_cast<size_t>(value_)] == word; }

 private:
  int value_, standard_;
  std::vector<std::string> words_;
};

/// Any text (a name, a list); Path if it names a library, a program or another file.
class Text : public Setting {
 public:
  Text(const char* name, const char* standard, const char* help);
  [[nodiscard]] Status parse(std::string_view text) override;
  [[nodiscard]] std::string value_text() const override { return value_; }
  [[nodiscard]] std::string range_text() const override { return "any text"; }
  [[nodiscard]] std::string default_text() const override { return standard_; }
  [[nodiscard]] const std::string& value() const { return value_; }

 private:
  std::string value_, standard_;
};

/// The path of a library, a program or another file. Only the environment sets it, never a profile.
class Path : public Text {
 public:
  using Text::Text;
  [[nodiscard]] std::string range_text() const override { return "a path"; }
  [[nodiscard]] bool names_file() const override { return true; }
};

/// All settings, sorted by name.
[[nodiscard]] std::vector<Setting*> all();
/// Reads every setting from the environment, else from the profile of this machine (base/profile.hpp).
/// Unknown WEFT_* variables are an error that names the nearest one, except those the launcher itself sets
/// (WEFT_JOB_ID, ...; see launcher_variables()). In secure execution (base/secure.hpp) every setting keeps
/// its default: neither the environment nor a profile is read.
[[nodiscard]] Status load();
[[nodiscard]] const std::vector<std::string>& launcher_variables();

}  // namespace weft::config
