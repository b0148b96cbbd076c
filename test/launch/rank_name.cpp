// SPDX-License-Identifier: BSD-3-Clause
// The name that the process of a rank holds under PMIx: who is refused, and when the name is free again.
#include "launch/pmix/rank_name.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace weft::launch::pmix {
namespace {

/// A namespace of this test alone.
std::string space(const char* test) { return std::string(test) + "-" + std::to_string(::getpid()); }

bool in_use(const Status& status) { return !status && status.error().code() == Errc::again; }

TEST(RankName, OneAtATime) {
  const std::string job = space("one");
  RankName first, second, other_rank, other_job;
  EXPECT_TRUE(first.take(job, "0"));
  const Status refused = second.take(job, "0");
  ASSERT_TRUE(in_use(refused));
  EXPECT_NE(refused.error().message().find("(pid " + std::to_string(::getpid()) + ")"), std::string::npos);
  EXPECT_TRUE(other_rank.take(job, "1"));
  EXPECT_TRUE(other_job.take(job + "x", "0"));
  first.release();
  EXPECT_TRUE(second.take(job, "0"));
  EXPECT_TRUE(in_use(first.take(job, "0")));
}

TEST(RankName, ManyAreRefused) {
  const std::string job = space("many");
  RankName first;
  EXPECT_TRUE(first.take(job, "0"));
  for (int i = 0; i < 300; ++i) EXPECT_TRUE(in_use(RankName().take(job, "0"))) << i;
}

/// Forks a child that has the descriptor and lives until `body` has returned.
void beside_a_child(RankName& name, bool child_releases, const std::function<void()>& body) {
  int ends[2], ready[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(ends[1]);
    if (child_releases) name.release();
    char byte = 0;
    if (::write(ready[1], &byte, 1) == 1 && ::read(ends[0], &byte, 1) == 0) ::_exit(0);
    ::_exit(1);
  }
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  body();
  for (const int fd : {ends[0], ends[1], ready[0], ready[1]}) ::close(fd);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(RankName, AChildDoesNotKeepIt) {
  const std::string job = space("child");
  RankName first, second;
  EXPECT_TRUE(first.take(job, "0"));
  beside_a_child(first, false, [&] {
    first.release();
    EXPECT_TRUE(second.take(job, "0"));
  });
}

TEST(RankName, AChildDoesNotGiveItBack) {
  const std::string job = space("heir");
  RankName first, second;
  EXPECT_TRUE(first.take(job, "0"));
  beside_a_child(first, true, [&] { EXPECT_TRUE(in_use(second.take(job, "0"))); });
}

TEST(RankName, TheFirstOfManyAtOnce) {
  constexpr int kProcesses = 8;
  for (int round = 0; round < 20; ++round) {
    const std::string job = space("race") + "-" + std::to_string(round);
    int go[2], taken[2], end[2];
    ASSERT_TRUE(::pipe(go) == 0 && ::pipe(taken) == 0 && ::pipe(end) == 0);
    for (int i = 0; i < kProcesses; ++i) {
      if (::fork() != 0) continue;
      ::close(go[1]);
      ::close(end[1]);
      RankName name;
      char answer = 0;
      static_cast<void>(!::read(go[0], &answer, 1));  // the end of file
      answer = name.take(job, "0") ? 'y' : 'n';
      static_cast<void>(!::write(taken[1], &answer, 1));
      static_cast<void>(!::read(end[0], &answer, 1));
      ::_exit(0);
    }
    ::close(go[1]);
    int holders = 0;
    for (int i = 0; i < kProcesses; ++i) {
      char answer = 0;
      EXPECT_EQ(::read(taken[0], &answer, 1), 1);
      holders += answer == 'y';
    }
    EXPECT_EQ(holders, 1);
    for (const int fd : {go[0], taken[0], taken[1], end[0], end[1]}) ::close(fd);
    for (int i = 0; i < kProcesses; ++i) ::wait(nullptr);
  }
}

}  // namespace
}  // namespace weft::launch::pmix
