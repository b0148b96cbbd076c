// SPDX-License-Identifier: BSD-3-Clause
// Classification of launcher variables, and errors if they imply an unreachable job.
#include "launch/environment.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>

#include "launch/launch.hpp"
#include "launch/pmi/client.hpp"

namespace weft::launch {
namespace {

using Variables = std::map<std::string, std::string>;

Lookup lookup_in(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    auto where = variables.find(name);
    return where == variables.end() ? nullptr : where->second.c_str();
  };
}

std::string reachability_error(const Variables& variables) {
  const Status status = check_launcher_reachable(lookup_in(variables));
  return status ? "" : status.error().message();
}

TEST(Reachable, UnreachableProcessesAreAnError) {
  for (const Variables& variables :
       {Variables{{"PMI_SIZE", "4"}, {"PMI_RANK", "1"}}, Variables{{"SLURM_STEP_NUM_TASKS", "2"}},
        Variables{{"PMIX_RANK", "0"}}}) {
    const std::string text = reachability_error(variables);
    const std::string name = variables.count("PMI_SIZE") ? "PMI_SIZE=4" : variables.rbegin()->first;
    if (variables.count("PMIX_RANK"))
      EXPECT_NE(text.find("PMIX_RANK=0"), text.npos) << text;
    else
      EXPECT_NE(text.find(name), text.npos) << text;
    EXPECT_NE(text.find("mpiexec"), text.npos) << text;
  }
}

TEST(Reachable, OneProcessIsNoError) {
  EXPECT_EQ(reachability_error({}), "");
  EXPECT_EQ(reachability_error({{"SLURM_NTASKS", "16"}, {"SLURM_JOB_ID", "7"}}), "");  // set in batch scripts
  EXPECT_EQ(reachability_error({{"SLURM_STEP_NUM_TASKS", "1"}}), "");
  EXPECT_EQ(reachability_error({{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}}), "");
}

TEST(Reachable, LostDescriptorIsAnError) {
  auto connection = pmi::connect(lookup_in({{"PMI_FD", "1000"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}));
  ASSERT_FALSE(connection);
  EXPECT_NE(connection.error().message().find("PMI_FD=1000"), std::string::npos);
}

TEST(Reachable, BadNumbersAreAnError) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  for (const Variables& wrong :
       {Variables{{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}, Variables{{"PMI_RANK", "0"}},
        Variables{{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}}) {
    Variables variables = wrong;
    variables["PMI_FD"] = std::to_string(::dup(ends[0]));
    EXPECT_FALSE(pmi::connect(lookup_in(variables)));
  }
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Variables, Classification) {
  for (const char* name : {"PMI_FD", "PMI_RANK", "PMIX_RANK", "HYDI_CONTROL_FD", "WEFT_JOB_ID",
                           "WEFT_JOB_PARENT", "WEFT_LAUNCH_CONTINUE_ON_FAILURE"}) {
    EXPECT_TRUE(is_launcher_variable(name)) << name;
    EXPECT_TRUE(implies_job(name)) << name;
  }
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"}) {
    EXPECT_TRUE(is_launcher_variable(name)) << name;
    EXPECT_FALSE(implies_job(name)) << name;  // used to choose a GPU
  }
  for (const char* name : {"PATH", "SLURM_JOB_ID", "WEFT_LOG", "PMI"})
    EXPECT_FALSE(is_launcher_variable(name)) << name;
}

TEST(Scrub, KeepsVariablesOfUserCode) {
  ::setenv("PMI_RANK", "3", 1);
  ::setenv("PMIX_RANK", "3", 1);
  ::setenv("LOCAL_RANK", "3", 1);
  scrub_environment();
  EXPECT_EQ(std::getenv("PMI_RANK"), nullptr);
  EXPECT_EQ(std::getenv("PMIX_RANK"), nullptr);
  EXPECT_STREQ(std::getenv("LOCAL_RANK"), "3");
}

TEST(Singleton, ExchangeWithItself) {
  for (const char* name : {"PMI_FD", "PMI_PORT", "PMI_SIZE", "PMIX_RANK", "SLURM_STEP_NUM_TASKS"})
    ::unsetenv(name);
  auto first = connect(), second = connect();
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  EXPECT_TRUE((*first)->job().singleton);
  EXPECT_EQ((*first)->job().size, 1);
  EXPECT_NE((*first)->job().id, (*second)->job().id);
  EXPECT_TRUE((*first)->put("key", "value"));
  EXPECT_FALSE((*first)->put("key", "value"));
  EXPECT_TRUE((*first)->fence());
  EXPECT_EQ(*(*first)->get("key", 0), "value");
  EXPECT_FALSE((*first)->get("other", 0));
}

}  // namespace
}  // namespace weft::launch
