// SPDX-License-Identifier: BSD-3-Clause
// Files of the site: owners, lines, and their place among the origins of a setting.
#include "base/site.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace weft::config {
namespace {

Size site_size{"site.size", 10, 0, 100, "Number of things."};
Path site_path{"site.path", "", "A library."};
Size site_other{"site.other", 1, 0, 100, "Number of other things."};

class Site : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "site-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder = std::filesystem::absolute(name);
    ::setenv("WEFT_PROFILE", "off", 1);
  }
  void TearDown() override {
    ::unsetenv("WEFT_PROFILE");
    ::unsetenv("WEFT_SITE_SIZE");
    EXPECT_TRUE(load());
    std::filesystem::remove_all(folder);
  }
  SiteFile write(const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    ::chmod((folder / name).c_str(), 0644);
    return {folder / name, folder};
  }
  std::string error_of(const std::vector<SiteFile>& files) {
    const Status status = apply_site_files(files);
    return status ? "" : status.error().message();
  }
  std::filesystem::path folder;
};

TEST_F(Site, SetsValuesBelowTheEnvironment) {
  ::setenv("WEFT_SITE_SIZE", "7", 1);
  ASSERT_TRUE(load());
  const SiteFile machine =
      write("machine", "# of all\n\nsite.size = 20\n WEFT_SITE_PATH=/opt/a.so \r\nsite.other = 2\n");
  const SiteFile prefix = write("prefix", "site.other = 3\n");
  EXPECT_EQ(error_of({machine, prefix, {folder / "absent", folder}}), "");
  EXPECT_EQ(site_size, 7U);
  EXPECT_EQ(origin_text(site_size), "environment");
  EXPECT_EQ(site_path.value(), "/opt/a.so");
  EXPECT_EQ(origin_text(site_path), machine.path);
  EXPECT_EQ(site_other, 3U);  // the file of the installation comes last
  EXPECT_EQ(origin_text(site_other), prefix.path);
  replace_site_value(site_other);
  EXPECT_EQ(origin_text(site_other), "profile");
  ASSERT_TRUE(load());  // this library has no such file: the defaults
  EXPECT_EQ(site_other, 1U);
  EXPECT_EQ(origin_text(site_other), "default");
  EXPECT_EQ(origin_text(site_path), "default");
}

TEST_F(Site, ErrorsNameFileAndLine) {
  ASSERT_TRUE(load());
  const auto message = [&](const std::string& text) { return error_of({write("file", text)}); };
  const std::string path = folder / "file";
  EXPECT_NE(message("\nsite.size 3\n").find(path + ":2: \"site.size 3\" is not setting = value"),
            std::string::npos);
  EXPECT_NE(message("= 3\n").find(":1: "), std::string::npos);
  EXPECT_NE(message("site.size = 3\nsite.sise = 3\n").find(path + ":2: site.sise is not a setting"),
            std::string::npos);
  EXPECT_NE(message("site.size = 1000\n").find(path + ":1: WEFT_SITE_SIZE=1000 (not a valid value)"),
            std::string::npos);
}

TEST_F(Site, FilesThatOthersCanWriteAreRefused) {
  ASSERT_TRUE(load());
  const SiteFile file = write("file", "site.size = 3\n");
  ::chmod(file.path.c_str(), 0664);
  EXPECT_NE(error_of({file}).find("refused (others than its owner can write it): chmod go-w " + file.path),
            std::string::npos);
  ::chmod(file.path.c_str(), 0646);
  EXPECT_NE(error_of({file}).find("refused"), std::string::npos);
  EXPECT_NE(error_of({{folder, folder}}).find("no regular file"), std::string::npos);
  EXPECT_EQ(site_size, 10U);
}

TEST_F(Site, FilesOfOtherUsersAreRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give a file to another user";
  ASSERT_TRUE(load());
  SiteFile file = write("file", "site.size = 3\n");
  ASSERT_EQ(::chown(file.path.c_str(), 4711, 4711), 0);
  EXPECT_NE(error_of({file}).find("it belongs to user 4711, neither to root nor to the owner of " +
                                  folder.string()),
            std::string::npos);
  EXPECT_EQ(site_size, 10U);
  ASSERT_EQ(::chown(folder.c_str(), 4711, 4711), 0);  // the owner of the installation
  EXPECT_EQ(error_of({file}), "");
  EXPECT_EQ(site_size, 3U);
  ASSERT_EQ(::chown(file.path.c_str(), 0, 0), 0);  // root's
  EXPECT_EQ(error_of({file}), "");
}

TEST_F(Site, FilesAreThoseOfTheMachineAndTheInstallation) {
  const std::vector<SiteFile> files = site_files();
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].path, "/etc/weft.conf");
  EXPECT_TRUE(files[1].path.ends_with("/etc/weft.conf"));
}

}  // namespace
}  // namespace weft::config
