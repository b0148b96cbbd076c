// SPDX-License-Identifier: BSD-3-Clause
#include "base/profile.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/config.hpp"

namespace weft::config {
namespace {

class Profile : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "profile-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder = std::filesystem::absolute(name);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string write(const std::string& text) {
    std::filesystem::create_directories(folder / "weft");
    std::ofstream(folder / "weft" / "profile") << text;
    return folder / "weft" / "profile";
  }
  std::filesystem::path folder;
};

TEST_F(Profile, ReadsTheSectionOfTheMachine) {
  const auto path =
      write("# comment\n[a; b]\n p2p.eager_max = 1 \r\n\n[c]\np2p.eager_max=2\np2p.credit = 3\n");
  auto values = read_profile(path, "c");
  ASSERT_TRUE(values);
  EXPECT_EQ(*values, (Values{{"p2p.eager_max", "2"}, {"p2p.credit", "3"}}));
  values = read_profile(path, "a; b");
  ASSERT_TRUE(values);
  EXPECT_EQ(*values, (Values{{"p2p.eager_max", "1"}}));
  values = read_profile(path, "another");
  ASSERT_TRUE(values);
  EXPECT_TRUE(values->empty());
}

TEST_F(Profile, ErrorNamesTheMalformedLine) {
  const auto values = read_profile(write("[a]\np2p.eager_max\n"), "b");
  ASSERT_FALSE(values);
  EXPECT_NE(values.error().message().find("profile:2"), std::string::npos);
  EXPECT_FALSE(read_profile(folder / "none", "a"));
  EXPECT_FALSE(read_profile(folder, "a"));  // a folder
  const auto endless = read_profile("/dev/zero", "a");
  ASSERT_FALSE(endless);
  EXPECT_NE(endless.error().message().find("WEFT_PROFILE: /dev/zero"), std::string::npos);
  EXPECT_TRUE(read_profile("/dev/null", "a"));
}

TEST_F(Profile, DefaultPathIsInTheConfigFolder) {
  ::setenv("XDG_CONFIG_HOME", folder.c_str(), 1);
  EXPECT_EQ(default_profile(), "");
  const std::string path = write("[a]\n");
  EXPECT_EQ(default_profile(), path);
  ::unsetenv("XDG_CONFIG_HOME");
  ::unsetenv("HOME");
  EXPECT_EQ(default_profile(), "");
}

Path test_library{"test.library", "", "A setting that names a library."};
Size test_size{"test.size", 1, 0, 9, "A setting that names none."};

TEST_F(Profile, NamesNoFile) {
  const std::string section = "[" + machine_name() + "]\n";
  ::setenv("WEFT_PROFILE", write(section + "test.size = 2\n").c_str(), 1);
  ASSERT_TRUE(load());
  EXPECT_EQ(test_size, 2U);
  EXPECT_EQ(test_size.origin, Origin::profile);
  for (const char* line : {"test.library = /tmp/evil.so", "profile = /tmp/other"}) {
    write(section + line + "\n");
    const Status read = load();
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().message().find("evil.so"), std::string::npos);
    EXPECT_NE(read.error().message().find(std::string(line).substr(0, std::string(line).find(' '))),
              std::string::npos);
    EXPECT_EQ(test_library.value(), "");
  }
  write(section + "test.library = /tmp/evil.so\n");
  ::setenv("WEFT_TEST_LIBRARY", "/mine.so", 1);  // refused even where the environment decides
  EXPECT_FALSE(load());
  ::setenv("WEFT_PROFILE", "off", 1);
  EXPECT_TRUE(load());
  EXPECT_EQ(test_library.value(), "/mine.so");
  ::unsetenv("WEFT_TEST_LIBRARY");
  ::unsetenv("WEFT_PROFILE");
}

TEST(MachineName, ContainsCoresAndDriver) {
  EXPECT_NE(machine_name().find(" cores"), std::string::npos);
  ::setenv("WEFT_CUDA_DRIVER", "x", 1);
  EXPECT_EQ(machine_name().find("custom driver; "), 0U);
}

}  // namespace
}  // namespace weft::config
