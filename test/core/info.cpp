// SPDX-License-Identifier: BSD-3-Clause
// Info: order, replacement, copies, and the content of the environment info.
#include "core/info.hpp"

#include <gtest/gtest.h>

namespace weft::core {
namespace {

TEST(Info, KeepsTheOrderOfFirstSetting) {
  const Ref<Info> info(Info::create());
  info->set("b", "1");
  info->set("a", "2");
  info->set("b", "3");
  ASSERT_EQ(info->size(), 2u);
  EXPECT_EQ(info->entry(0).first, "b");
  EXPECT_EQ(info->entry(1).first, "a");
  EXPECT_EQ(info->get("b"), "3");
  EXPECT_FALSE(info->get("c").has_value());
}

TEST(Info, Erase) {
  const Ref<Info> info(Info::create());
  info->set("a", "1");
  EXPECT_TRUE(info->erase("a"));
  EXPECT_FALSE(info->erase("a"));
  EXPECT_EQ(info->size(), 0u);
}

TEST(Info, ACopyIsIndependent) {
  const Ref<Info> info(Info::create());
  info->set("a", "1");
  const Ref<Info> copy(Info::duplicate(*info));
  copy->set("a", "2");
  EXPECT_EQ(info->get("a"), "1");
  EXPECT_EQ(copy->get("a"), "2");
}

TEST(Info, EnvironmentNamesThisProgram) {
  Info& info = *Info::environment();
  ASSERT_TRUE(info.get("command").has_value());
  EXPECT_NE(info.get("command")->find("test_core"), std::string_view::npos);
  EXPECT_TRUE(info.get("wdir").has_value());
  EXPECT_TRUE(info.get("host").has_value());
}

TEST(Info, EnvironmentOfAGivenCommandLine) {
  const Ref<Info> info(Info::create_environment({"program", "-x", "7"}));
  EXPECT_EQ(info->get("command"), "program");
  EXPECT_EQ(info->get("argv"), "-x 7");
}

}  // namespace
}  // namespace weft::core
