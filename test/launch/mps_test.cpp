// SPDX-License-Identifier: BSD-3-Clause
// --mps on: refusals by nvidia-smi's lists, folders, and daemons that do not answer, with short time limits.
#include "mpiexec/mps.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "mpiexec/processes.hpp"
#include "mpiexec/tool.hpp"

namespace weft::mpiexec {
namespace {

constexpr const char* kTwoGpus = "0, GPU-a1, Exclusive_Process, Disabled\n1, GPU-b2, Default, [N/A]\n";

TEST(GpuStates, OfBothLists) {
  auto gpus = parse_gpu_states(kTwoGpus, "GPU-a1, 4711, /usr/bin/python\nGPU-c3, 1, x\n");
  ASSERT_TRUE(gpus.ok());
  ASSERT_EQ(gpus->size(), 2U);
  EXPECT_EQ((*gpus)[0].compute_mode, "Exclusive_Process");
  EXPECT_EQ((*gpus)[0].user, "/usr/bin/python (pid 4711)");
  EXPECT_EQ((*gpus)[1].user, "");
  EXPECT_FALSE((*gpus)[1].mig);
  EXPECT_FALSE(parse_gpu_states("No devices were found\n", "").ok());
}

TEST(GpuStates, VisibleOnes) {
  const auto gpus = parse_gpu_states(kTwoGpus, "");
  ASSERT_TRUE(gpus.ok());
  EXPECT_EQ(states_of_visible(*gpus, "").size(), 2U);
  EXPECT_EQ(states_of_visible(*gpus, "0").size(),
            2U);  // the driver's order may differ from that of nvidia-smi
  EXPECT_EQ(states_of_visible(*gpus, "GPU-b")[0].uuid, "GPU-b2");
  EXPECT_TRUE(has_only_uuids(" GPU-a1 , GPU-b2"));
  EXPECT_FALSE(has_only_uuids("GPU-a1,1"));
  EXPECT_FALSE(has_only_uuids(""));
}

TEST(GpuStates, WhichAreRefused) {
  GpuState gpu{"0", "GPU-a1", "Default", false, "python (pid 1)"};
  EXPECT_TRUE(check_mps_gpus({gpu}).ok());
  gpu.compute_mode = "Exclusive_Process";
  EXPECT_FALSE(check_mps_gpus({gpu}).ok());
  gpu.user.clear();
  EXPECT_TRUE(check_mps_gpus({gpu}).ok());
  gpu.mig = true;
  EXPECT_FALSE(check_mps_gpus({gpu}).ok());
}

TEST(ParentFolder, IsShortEnoughForSockets) {
  EXPECT_EQ(mps_parent_folder(nullptr), "/tmp");
  EXPECT_EQ(mps_parent_folder("relative"), "/tmp");
  EXPECT_EQ(mps_parent_folder("/local/user"), "/local/user");
  EXPECT_EQ(mps_parent_folder(("/" + std::string(61, 'x')).c_str()).size(), 62U);
  EXPECT_EQ(mps_parent_folder(("/" + std::string(62, 'x')).c_str()), "/tmp");
}

TEST(Text, LastLine) {
  EXPECT_EQ(last_line(""), "");
  EXPECT_EQ(last_line(" \n\n"), "");
  EXPECT_EQ(last_line("one"), "one");
  EXPECT_EQ(last_line("one\ntwo \n\n"), "two");
}

class Start : public ::testing::Test {
 protected:
  Start() {
    char name[] = "/tmp/mpsXXXXXX";
    root_ = ::mkdtemp(name);
    control_ = root_ + "/nvidia-cuda-mps-control";
    std::filesystem::create_symlink(MPS_EMULATOR, control_);
  }
  ~Start() override { std::filesystem::remove_all(root_); }

  /// Starts and ends a daemon with this fault, and expects that nothing is left.
  Status start_and_stop(const std::string& fault, double start_seconds = 60) {
    std::string word = "launch_mps_test";
    char* argv[] = {word.data(), nullptr};
    MpsMonitor monitor;
    Status started =
        monitor.start({control_, {"EMUMPS_FAULT=" + fault}, root_, start_seconds, kSeconds}, argv);
    const std::string notice = monitor.stop();
    EXPECT_EQ(notice, "");
    EXPECT_TRUE(descendants(::getpid()).empty());
    std::filesystem::remove(control_);
    EXPECT_TRUE(std::filesystem::is_empty(root_));
    return started;
  }

  static constexpr double kSeconds = 0.3;
  std::string root_, control_;
};

TEST_F(Start, Daemon) { EXPECT_TRUE(start_and_stop("").ok()); }

TEST_F(Start, DaemonThatDoesNotQuit) { EXPECT_TRUE(start_and_stop("stubborn").ok()); }

TEST_F(Start, DaemonThatDoesNotAnswer) {
  for (const char* fault : {"hangs", "silent"}) {
    if (!std::filesystem::exists(control_)) std::filesystem::create_symlink(MPS_EMULATOR, control_);
    const double begin = now();
    const Status started = start_and_stop(fault, kSeconds);
    ASSERT_FALSE(started.ok());
    EXPECT_NE(started.error().message().find("does not answer within 0.3 s"), std::string::npos)
        << started.error().message();
    EXPECT_LT(now() - begin, 10);
  }
}

TEST_F(Start, ProgramThatCannotBeExecuted) {
  std::filesystem::remove(control_);
  std::filesystem::create_symlink("/dev/null", control_);
  const Status started = start_and_stop("");
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.error().message().find("127"), std::string::npos) << started.error().message();
}

TEST(RunTool, EndsWithItsPeer) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[1]);
  const ToolResult result = run_tool({{"/bin/sleep", "60"}, {}, "", 50, ends[0]});
  EXPECT_EQ(result.kind, ToolResult::stopped);
  ::close(ends[0]);
}

TEST(RunTool, DoesNotWaitForProcessesThatHoldItsOutput) {
  const double begin = now();
  const ToolResult result =
      run_tool({{"/bin/sh", "-c", "sleep 60 & echo $!"}, {"PATH=/bin:/usr/bin"}, "", 50});
  EXPECT_TRUE(result.success());
  EXPECT_LT(now() - begin, 20);
  ::kill(static_cast<pid_t>(std::stoi(result.output)), SIGKILL);
}

TEST(RunTool, KeepsABoundedOutput) {
  const ToolResult result = run_tool(
      {{"/bin/sh", "-c", "head -c 300000 /dev/zero; cat >&2; exit 3"}, {"PATH=/bin:/usr/bin"}, "x", 50});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.output.size(), kMaxToolOutput);
}

}  // namespace
}  // namespace weft::mpiexec
