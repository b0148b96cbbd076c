// SPDX-License-Identifier: BSD-3-Clause
// Settings: the level follows from the declaration; values outside the range leave the setting unchanged.
#include "base/config.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace weft::config {
namespace {

Size internal_size{"test.internal_bytes", 4096, 1, 1 << 20, "Bytes of a test."};
Size user_size{"test.user_bytes", 4096, 1, 1 << 20, "Bytes of a test.", "the test needs other bytes"};
Choice user_choice{"test.mode", 1, {"off", "on"}, "Mode of a test.", "the test needs another mode"};
Path internal_path{"test.file", "", "File of a test."};

TEST(Config, SettingsThatSayWhenToChangeThemAreUserSettings) {
  EXPECT_EQ(internal_size.level(), Level::internal);
  EXPECT_EQ(internal_path.level(), Level::internal);
  EXPECT_EQ(user_size.level(), Level::user);
  EXPECT_EQ(user_choice.level(), Level::user);
  EXPECT_STREQ(name_of(user_size.level()), "user");
  EXPECT_STREQ(name_of(internal_size.level()), "internal");
}

TEST(Config, AllContainsBothLevelsInOrder) {
  const auto settings = all();
  for (size_t i = 1; i < settings.size(); ++i)
    EXPECT_LT(std::string(settings[i - 1]->name), settings[i]->name);
  for (const Setting* setting : {static_cast<Setting*>(&internal_size), static_cast<Setting*>(&user_size)})
    EXPECT_EQ(std::count(settings.begin(), settings.end(), setting), 1);
}

TEST(Config, RefusedValuesLeaveTheSettingUnchanged) {
  ASSERT_TRUE(user_size.parse("64k"));
  for (const char* text : {"0", "2m", "64q", "", "-1", "99999999999g"}) {
    const Status parsed = user_size.parse(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_NE(parsed.error().message().find("WEFT_TEST_USER_BYTES"), std::string::npos);
    EXPECT_EQ(user_size, 64U << 10);
  }
  EXPECT_FALSE(user_choice.parse("maybe"));
  EXPECT_TRUE(user_choice.is("on"));
}

TEST(Config, EachLoadReadsTheEnvironmentAnew) {
  setenv("WEFT_PROFILE", "off", 1);
  setenv("WEFT_TEST_INTERNAL_BYTES", "8k", 1);
  ASSERT_TRUE(load());
  EXPECT_EQ(internal_size, 8U << 10);
  EXPECT_EQ(internal_size.origin, Origin::environment);
  unsetenv("WEFT_TEST_INTERNAL_BYTES");
  ASSERT_TRUE(load());
  EXPECT_EQ(internal_size, 4096U);
  EXPECT_EQ(internal_size.origin, Origin::default_value);
  unsetenv("WEFT_PROFILE");
}

TEST(Config, DefaultsAreValidValues) {
  for (Setting* setting : all()) EXPECT_TRUE(setting->parse(setting->default_text())) << setting->variable();
}

}  // namespace
}  // namespace weft::config
