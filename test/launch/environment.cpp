// SPDX-License-Identifier: BSD-3-Clause
// Classification of launcher variables, and errors if they imply an unreachable job.
#include "launch/environment.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "launch/launch.hpp"
#include "launch/pmi/client.hpp"
#include "launch/pmi/connection.hpp"

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
  const std::string text = connection.error().message();
  EXPECT_NE(
      text.find("descriptor 1000 (PMI_FD), the connection to the launcher, was closed or replaced before "
                "MPI_Init, by a shell or a wrapper"),
      text.npos)
      << text;
  EXPECT_EQ(text.find("alone"), text.npos) << text;
}

TEST(Reachable, LostDescriptorAndMpiexecIsAnError) {
  Variables variables{{"PMI_FD", "0"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"WEFT_JOB_ID", "job"}};
  const auto error = [&] {
    auto connection = pmi::connect(lookup_in(variables));
    return connection ? "" : connection.error().message();
  };
  EXPECT_NE(error().find("is not set: pass it on"), std::string::npos) << error();
  variables["WEFT_JOB_SOCKET"] = "0:0:1:weft-pmi-of-nobody:secret";
  const std::string text = error();
  EXPECT_NE(text.find("descriptor 0 (PMI_FD)"), text.npos) << text;
  EXPECT_NE(text.find("(Connection refused). Has it ended?"), text.npos) << text;
  variables["WEFT_JOB_SOCKET"] = "0";
  EXPECT_NE(error().find("pass the variable on"), std::string::npos) << error();
}

TEST(Reachable, ALauncherInsideOfAJobOfMpiexecIsTheLauncher) {
  const Variables outer{{"PMI_FD", "983"}, {"PMI_SIZE", "2"}, {"WEFT_JOB_SOCKET", "0:983:1:weft-pmi:secret"}};
  EXPECT_TRUE(pmi::has_connection(lookup_in(outer)));
  for (const char* name : {"PMI_PORT", "PMIX_NAMESPACE", "SLURM_STEP_NUM_TASKS"}) {
    Variables inner = outer;
    inner[name] = "4";
    EXPECT_FALSE(pmi::has_connection(lookup_in(inner))) << name;
    inner["PMI_FD"] = "5";  // srun --mpi=pmi2
    EXPECT_TRUE(pmi::has_connection(lookup_in(inner))) << name;
  }
  Variables hydra = outer;
  hydra["PMI_FD"] = "1000";
  auto connection = pmi::connect(lookup_in(hydra));
  ASSERT_FALSE(connection);
  EXPECT_NE(connection.error().message().find("descriptor 1000 (PMI_FD)"), std::string::npos);
}

TEST(Slurm, ShellsAreOneProcess) {
  const std::string self = std::to_string(::getpid()), parent = std::to_string(::getppid());
  const Variables step{{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}};
  const auto alone = [&](const Variables& more) {
    Variables variables = more;
    variables.insert(step.begin(), step.end());
    return reachability_error(variables).empty();
  };
  // The ids of the steps of salloc and of sbatch.
  EXPECT_TRUE(alone({{"SLURM_STEP_ID", "4294967290"}}));
  EXPECT_TRUE(alone({{"SLURM_STEP_ID", "4294967291"}}));
  // A program in srun --pty sh.
  EXPECT_TRUE(alone({{"SLURM_PTY_PORT", "40001"}, {"SLURM_TASK_PID", parent}}));
  // The task of srun, and its child, are tasks of a program.
  EXPECT_FALSE(alone({{"SLURM_TASK_PID", self}}));
  EXPECT_FALSE(alone({{"SLURM_TASK_PID", parent}}));
  EXPECT_FALSE(alone({}));
  // The same holds in a shell of srun --pty, whose variable is inherited, and for srun --pty program.
  EXPECT_FALSE(alone({{"SLURM_PTY_PORT", "40001"}, {"SLURM_TASK_PID", self}}));
  EXPECT_FALSE(alone({{"SLURM_PTY_PORT", "40001"}, {"SLURM_TASK_PID", parent}, {"SLURM_PROCID", "1"}}));
  EXPECT_FALSE(alone({{"SLURM_PTY_PORT", "40001"}}));
}

/// Returns the exit status of a child of a process that is named slurmstepd and has no terminal.
int status_below_slurmstepd(const std::function<bool()>& check) {
  int status = -1;
  const pid_t daemon = ::fork();
  if (daemon == 0) {
    ::prctl(PR_SET_NAME, "slurmstepd");
    ::setsid();
    const pid_t task = ::fork();
    if (task == 0) {
      ::setenv("TASK", std::to_string(::getpid()).c_str(), 1);
      const pid_t program = ::fork();
      if (program == 0) ::_exit(check() ? 0 : 1);
      ::waitpid(program, &status, 0);
      ::_exit(WEXITSTATUS(status));
    }
    ::waitpid(task, &status, 0);
    ::_exit(WEXITSTATUS(status));
  }
  ::waitpid(daemon, &status, 0);
  return WEXITSTATUS(status);
}

TEST(Slurm, StepsThatAreStartedInAShellAreRefused) {
  EXPECT_EQ(status_below_slurmstepd([] {
              return !reachability_error({{"SLURM_STEP_NUM_TASKS", "8"},
                                          {"SLURM_STEP_ID", "1"},
                                          {"SLURM_PROCID", "0"},
                                          {"SLURM_PTY_PORT", "40001"},
                                          {"SLURM_TASK_PID", std::getenv("TASK")}})
                          .empty();
            }),
            0);
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
  for (const char* name :
       {"PMI_FD", "PMI_RANK", "PMIX_RANK", "HYDI_CONTROL_FD", "WEFT_JOB_ID", "WEFT_JOB_PARENT",
        "WEFT_JOB_SOCKET", "WEFT_LAUNCH_CONTINUE_ON_FAILURE", "WEFT_LAUNCH_GPU_BIND"}) {
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
