// SPDX-License-Identifier: BSD-3-Clause
// mpiexec's command line: accepted options and error messages.
#include "mpiexec/options.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

namespace weft::mpiexec {
namespace {

std::vector<std::string> words(const std::string& line) {
  std::stringstream stream(line);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) result.push_back(word);
  return result;
}

Options accept(const std::string& line) {
  auto options = parse_options(words(line));
  EXPECT_TRUE(options) << line << ": " << (options ? "" : options.error().message());
  return options ? std::move(options).value() : Options();
}

std::string refuse(const std::string& line) {
  auto options = parse_options(words(line));
  EXPECT_FALSE(options) << line;
  return options ? "" : options.error().message();
}

TEST(Options, Python) {
  const Options options = accept("-n 2 --python -m module a : -n 1 ./program");
  ASSERT_EQ(options.programs.size(), 2u);
  EXPECT_TRUE(options.programs[0].python);
  EXPECT_EQ(options.programs[0].argv, words("-m module a"));
  EXPECT_FALSE(options.programs[1].python);
}

TEST(Options, Waits) {
  EXPECT_EQ(accept("--waits 77").waits, 77);
  EXPECT_EQ(accept("--waits all --json").waits, 0);
  EXPECT_TRUE(accept("--waits all --json").json);
  EXPECT_EQ(accept("./program").waits, -1);
  EXPECT_NE(refuse("--waits some").find("valid: the id of a process, or all"), std::string::npos);
}

TEST(Options, CountsAndPrograms) {
  for (const char* line :
       {"-n 3 a b -n 9", "-np 3 a b -n 9", "--np=3 a b -n 9", "-n3 a b -n 9", "-n 3 -- a b -n 9"}) {
    const Options options = accept(line);
    ASSERT_EQ(options.programs.size(), 1U) << line;
    EXPECT_EQ(options.ranks(), 3);
    EXPECT_EQ(options.programs[0].argv, words("a b -n 9"));  // arguments after the program belong to it
  }
  EXPECT_EQ(accept("a").ranks(), 1);
}

TEST(Options, SeveralPrograms) {
  const Options options = accept("-n 2 -x A=1 a x : --wdir /tmp -n 3 -tag-output b");
  ASSERT_EQ(options.programs.size(), 2U);
  EXPECT_EQ(options.ranks(), 5);
  EXPECT_EQ(options.programs[0].variables.size(), 1U);
  EXPECT_EQ(options.programs[1].variables.size(), 0U);
  EXPECT_EQ(options.programs[1].directory, "/tmp");
  EXPECT_EQ(options.labels, Labels::tag);
}

TEST(Options, Values) {
  EXPECT_EQ(accept("a").bind_to, BindTo::share);
  EXPECT_EQ(accept("--bind-to none a").bind_to, BindTo::none);
  EXPECT_EQ(accept("-bind-to=core a").bind_to, BindTo::core);
  EXPECT_EQ(accept("--map-by gpu a").map_by, MapBy::gpu);
  EXPECT_DOUBLE_EQ(accept("--timeout 0.5 a").timeout, 0.5);
  EXPECT_TRUE(accept("--help").help);
  EXPECT_FALSE(accept("a").continue_on_failure);
  for (const char* line :
       {"--continue-on-failure a : b", "--enable-recovery a : b", "a : -disable-auto-cleanup b"}) {
    const Options options = accept(line);
    EXPECT_TRUE(options.continue_on_failure) << line;
    for (const Program& program : options.programs)
      EXPECT_EQ(program.variables.back(),
                std::pair(std::string("WEFT_LAUNCH_CONTINUE_ON_FAILURE"), std::string("on")));
  }
  EXPECT_TRUE(accept("-n 2 --version").version);
}

TEST(Options, Variables) {
  ::setenv("LAUNCH_TEST_VARIABLE", "from outside", 1);
  const Options options = accept("-x LAUNCH_TEST_VARIABLE -x B=1=2 -x C= -x LAUNCH_TEST_UNSET a");
  const auto& variables = options.programs.at(0).variables;
  ASSERT_EQ(variables.size(), 3U);
  EXPECT_EQ(variables[0].second, "from outside");
  EXPECT_EQ(variables[1].second, "1=2");
  EXPECT_EQ(variables[2].second, "");
  EXPECT_EQ(options.warnings.size(), 1U);
}

TEST(Options, BadValuesNameTheRange) {
  for (const char* line : {"-n 0 a", "-n x a", "-n -1 a", "-n 1.5 a", "-n 65537 a", "-np= a", "-n 2x a"})
    EXPECT_NE(refuse(line).find("a number from 1 to 65536"), std::string::npos) << line;
  EXPECT_NE(refuse("--bind-to l9 a").find("core, hwthread, package, socket, numa, l3cache"),
            std::string::npos);
  EXPECT_NE(refuse("--map-by board a").find("slot, core, hwthread, gpu, package"), std::string::npos);
  for (const char* line :
       {"--timeout 0 a", "--timeout -1 a", "--timeout nan a", "--timeout 1s a", "--timeout inf a"})
    EXPECT_NE(refuse(line).find("seconds"), std::string::npos) << line;
  EXPECT_NE(refuse("-x =1 a").find("NAME=VALUE"), std::string::npos);
  EXPECT_NE(refuse("--tag-output=1 a").find("takes no value"), std::string::npos);
  EXPECT_NE(refuse("-n").find("needs a value"), std::string::npos);
}

TEST(Options, UnknownOptions) {
  EXPECT_NE(refuse("--tag-outpt a").find("--tag-output"), std::string::npos);
  EXPECT_NE(refuse("--frobnicate a").find("--frobnicate"), std::string::npos);
  EXPECT_NE(refuse("-n3x a").find("unknown option '-n3x'"), std::string::npos);
  EXPECT_NE(refuse("-n0 a").find("bad value '0' for -n"), std::string::npos);
  EXPECT_NE(refuse("--n3 a").find("unknown option"), std::string::npos);
  EXPECT_EQ(refuse("-z a").find("Did you mean"), std::string::npos);
}

TEST(Options, MissingPrograms) {
  for (const char* line : {"", "-n 2", "a :", ": a", "a : -n 2", "a : : b"})
    EXPECT_NE(refuse(line).find("no program given"), std::string::npos) << line;
  EXPECT_NE(refuse("-n 40000 a : -n 40000 b").find("65536"), std::string::npos);
}

TEST(Options, OtherHosts) {
  accept("-H localhost,localhost:4 a");
  accept("--host=127.0.0.1 a");
  const Options options = accept("--host localhost,node1:4 -H node2 -launcher hydra a");
  ASSERT_EQ(options.hosts.size(), 3U);
  EXPECT_EQ(options.hosts[1].name, "node1");
  EXPECT_EQ(options.hosts[1].slots, 4);
  EXPECT_EQ(options.hosts[2].slots, 0);
  EXPECT_EQ(options.launcher, Launcher::hydra);
  EXPECT_NE(refuse("--host node1:no a").find("node1:no"), std::string::npos);
  EXPECT_NE(refuse("--launcher nothing a").find("prrte"), std::string::npos);
  EXPECT_NE(refuse("--hostfile /nonexistent a").find("/nonexistent"), std::string::npos);
}

TEST(Options, FilesWithoutEnd) {
  for (const char* option : {"--hostfile", "--configfile", "--app"})
    EXPECT_NE(refuse(std::string(option) + " /dev/zero a").find("/dev/zero: is larger than"),
              std::string::npos)
        << option;
}

TEST(Options, HelpNamesEveryOption) {
  for (const char* name :
       {"-np", "-x", "--wdir", "--bind-to", "--map-by", "--tag-output", "--timeout", "--host"})
    EXPECT_NE(help_text().find(name), std::string::npos) << name;
}

}  // namespace
}  // namespace weft::mpiexec
