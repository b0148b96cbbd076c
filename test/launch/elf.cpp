// SPDX-License-Identifier: BSD-3-Clause
// Programs whose RPATH overrides LD_LIBRARY_PATH: built with the system's compiler, one per kind of path.
#include "mpiexec/elf.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace weft::mpiexec {
namespace {

namespace fs = std::filesystem;

class Elf : public ::testing::Test {
 protected:
  Elf() {
    char name[] = "/tmp/launch-elf-XXXXXX";
    folder_ = ::mkdtemp(name);
    std::ofstream(folder_ + "/lib.c") << "int f(void) { return 0; }\n";
    std::ofstream(folder_ + "/main.c") << "int f(void); int main(void) { return f(); }\n";
    compile("-shared -fPIC -Wl,-soname,libwanted.so.1 lib.c -o libwanted.so.1");
  }
  ~Elf() override { fs::remove_all(folder_); }

  void compile(const std::string& arguments) {
    ASSERT_EQ(std::system(("cd " + folder_ + " && " LAUNCH_TEST_CC " " + arguments).c_str()), 0) << arguments;
  }
  bool build_and_check(const std::string& options, const std::string& library = "libwanted.so.1") {
    compile("main.c libwanted.so.1 -o main " + options);
    return has_overriding_rpath(folder_ + "/main", library);
  }
  std::string folder_;
};

TEST_F(Elf, OnlyRpathOverrides) {
  EXPECT_TRUE(build_and_check("-Wl,-rpath,/other -Wl,--disable-new-dtags"));
  EXPECT_FALSE(build_and_check("-Wl,-rpath,/other -Wl,--enable-new-dtags"));
  EXPECT_FALSE(build_and_check(""));
  EXPECT_FALSE(build_and_check("-Wl,-rpath,/other -Wl,--disable-new-dtags", "libunwanted.so.1"));
}

TEST_F(Elf, OtherFilesAreNoPrograms) {
  EXPECT_FALSE(has_overriding_rpath(folder_ + "/main.c", "libwanted.so.1"));
  EXPECT_FALSE(has_overriding_rpath(folder_ + "/absent", "libwanted.so.1"));
  EXPECT_FALSE(has_overriding_rpath(folder_, "libwanted.so.1"));
}

TEST_F(Elf, DamagedProgramsDoNotCrash) {
  ASSERT_TRUE(build_and_check("-Wl,-rpath,/other -Wl,--disable-new-dtags"));
  std::ifstream file(folder_ + "/main", std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto ask = [&](const std::string& bytes) {
    std::ofstream(folder_ + "/bad", std::ios::binary | std::ios::trunc) << bytes;
    (void)has_overriding_rpath(folder_ + "/bad", "libwanted.so.1");  // any result, but no crash
  };
  for (size_t length = 0; length < good.size(); length += 97) ask(good.substr(0, length));
  for (size_t at = 16; at < 1024; ++at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(~bytes[at]);
    ask(bytes);
  }
}

}  // namespace
}  // namespace weft::mpiexec
