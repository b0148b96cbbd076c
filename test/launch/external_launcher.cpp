// SPDX-License-Identifier: BSD-3-Clause
// Translation of mpiexec's command line for srun, prterun and Hydra; host lists.
#include "mpiexec/external_launcher.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "launch/launcher_folder.hpp"
#include "mpiexec/hosts.hpp"

namespace weft::mpiexec {
namespace {

Options options_of(const std::string& line) {
  std::istringstream words(line);
  std::vector<std::string> arguments;
  for (std::string word; words >> word;) arguments.push_back(word);
  auto options = parse_options(arguments);
  EXPECT_TRUE(options.ok()) << (options.ok() ? "" : options.error().message());
  return *std::move(options);
}

Launchers all_launchers() {
  return {"/usr/bin/srun", "pmix", "/opt/prrte/bin/prterun", "/usr/bin/mpiexec.hydra", "7"};
}

std::string command(const std::string& line, const Launchers& launchers) {
  auto to = plan_external_launcher(options_of(line), launchers, "", {"MINE"});
  if (!to) return to.error().message();
  std::string text;
  for (const std::string& word : to->argv) text += (text.empty() ? "" : " ") + word;
  return text;
}

Launchers without_slurm() {
  Launchers launchers = all_launchers();
  launchers.srun.clear();
  return launchers;
}

Launchers only_hydra() {
  Launchers launchers = without_slurm();
  launchers.prterun.clear();
  return launchers;
}

TEST(Order, SlurmThenPrrteThenHydra) {
  const std::string line = "-n 2 --hosts far,away a";
  EXPECT_TRUE(command(line, all_launchers()).starts_with("/usr/bin/srun "));
  EXPECT_TRUE(command(line, without_slurm()).starts_with("/opt/prrte/bin/prterun "));
  EXPECT_TRUE(command(line, only_hydra()).starts_with("/usr/bin/mpiexec.hydra "));
  const std::string nothing = command(line, {});
  for (const char* part : {"far, away", "salloc", "prterun", "mpiexec.hydra", "weft hosts --setup far,away,"})
    EXPECT_NE(nothing.find(part), nothing.npos) << nothing;
  EXPECT_TRUE(command("--launcher hydra " + line, all_launchers()).starts_with("/usr/bin/mpiexec.hydra "));
  EXPECT_NE(command("--launcher slurm " + line, without_slurm()).find("--launcher slurm"), std::string::npos);
}

TEST(SshLauncher, ComesBeforeThoseOfThePath) {
  Launchers launchers = all_launchers();
  launchers.ssh = {"/home/me/bin/mpiexec.hydra", {"far", "away"}};
  const std::string line = "-n 2 --hosts far," + host_name() + ",away a";
  EXPECT_TRUE(command(line, launchers).starts_with("/usr/bin/srun "));
  launchers.srun.clear();
  EXPECT_TRUE(
      command(line, launchers)
          .starts_with("/home/me/bin/mpiexec.hydra -hosts far:1," + host_name() + ":1 -launcher ssh "));
  EXPECT_TRUE(command("--launcher hydra " + line, launchers).starts_with("/home/me/bin/mpiexec.hydra "));
  EXPECT_TRUE(command("--launcher prrte " + line, launchers).starts_with("/opt/prrte/bin/prterun "));
  // It is not set up on all hosts: another launcher, or the remedy.
  EXPECT_TRUE(command("-n 2 --hosts far,new a", launchers).starts_with("/opt/prrte/bin/prterun "));
  EXPECT_TRUE(
      command("--launcher hydra -n 2 --hosts far,new a", launchers).starts_with("/usr/bin/mpiexec.hydra "));
  launchers.prterun.clear();
  launchers.hydra.clear();
  const std::string refused = command("-n 2 --hosts far,new,other a", launchers);
  EXPECT_NE(refused.find("not set up on new, other "), refused.npos) << refused;
  EXPECT_NE(refused.find("weft hosts --setup new,other"), refused.npos) << refused;
}

TEST(SshLauncher, IsReadFromItsFolder) {
  const auto lookup = [](const char* data, const char* home) {
    return launch::launcher_folder([=](const char* name) {
      return std::string_view(name) == "XDG_DATA_HOME" ? data
             : std::string_view(name) == "HOME"        ? home
                                                       : nullptr;
    });
  };
  EXPECT_EQ(lookup(nullptr, "/home/me"), "/home/me/.local/share/weft/launcher");
  EXPECT_EQ(lookup("relative", "/home/me"), "/home/me/.local/share/weft/launcher");
  EXPECT_EQ(lookup("/data", "/home/me"), "/data/weft/launcher");
  EXPECT_EQ(lookup(nullptr, nullptr), "");
  char name[] = "launcher-XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::filesystem::path folder = std::filesystem::absolute(name);
  EXPECT_EQ(read_ssh_launcher(folder).hydra, "");
  std::filesystem::create_directory(folder / "bin");
  std::ofstream(folder / "bin" / "mpiexec.hydra") << "#!/bin/sh\n";
  EXPECT_EQ(read_ssh_launcher(folder).hydra, "");  // not executable
  std::filesystem::permissions(folder / "bin" / "mpiexec.hydra", std::filesystem::perms::owner_all);
  EXPECT_TRUE(read_ssh_launcher(folder).hosts.empty());
  std::ofstream(folder / "hosts") << "a\n\nb\n";
  const SshLauncher launcher = read_ssh_launcher(folder);
  EXPECT_EQ(launcher.hydra, folder / "bin" / "mpiexec.hydra");
  EXPECT_EQ(launcher.hosts, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(missing_hosts(launcher, {{"a", 1}, {"c", 0}, {"localhost", 0}}), std::vector<std::string>{"c"});
  std::filesystem::remove_all(folder);
}

TEST(Order, LocalHostNeedsNoLauncher) {
  EXPECT_FALSE(needs_external_launcher(options_of("-n 2 a")));
  EXPECT_FALSE(needs_external_launcher(options_of("--hosts localhost:2," + host_name() + " a")));
  EXPECT_TRUE(needs_external_launcher(options_of("--hosts localhost,far a")));
  EXPECT_FALSE(needs_external_launcher(options_of("--launcher weft --hosts far a")));
  EXPECT_TRUE(needs_external_launcher(options_of("--launcher hydra a")));
}

TEST(Options, AreTranslatedOrRefused) {
  const std::string line = "-n 2 --hosts far,away a",
                    placed = "--map-by l3cache:PE=2 --rank-by fill --use-hwthread-cpus ";
  const std::string prrte = command("--stdin 1 --output tag,timestamp " + placed + line, without_slurm());
  for (const char* part : {"--map-by l3cache:PE=2:HWTCPUS:OVERSUBSCRIBE", "--rank-by fill", "--stdin 1",
                           "--output tag,timestamp"})
    EXPECT_NE(prrte.find(part), prrte.npos) << prrte;
  EXPECT_NE(command("--rankfile F " + line, without_slurm()).find("--map-by rankfile:file=F"),
            std::string::npos);
  EXPECT_NE(command("--stdin none " + line, only_hydra()).find("is not supported with"), std::string::npos);
  for (const auto& [option, hydra, prterun] :
       {std::array{"-l", " -prepend-rank ", "--output tag "},
        std::array{"--output rank", " -prepend-rank ", "--output rank "},
        std::array{"-prepend-pattern %r>", " -prepend-pattern %r> ", "is not supported with"},
        std::array{"--tag-output", " -prepend-rank ", "--output tag "}}) {
    EXPECT_NE(command(std::string(option) + " " + line, only_hydra()).find(hydra), std::string::npos)
        << option;
    EXPECT_NE(command(std::string(option) + " " + line, without_slurm()).find(prterun), std::string::npos)
        << option;
  }
  EXPECT_NE(command("--stdin none " + line, all_launchers()).find("--input=none"), std::string::npos);
  for (const std::string option :
       {"--rank-by fill", "--use-hwthread-cpus", "--cpu-list 0", "--rankfile F", "--output merge",
        "--timestamp-output", "--output-filename D", "--bind-to l3cache"})
    for (const Launchers& launchers : {all_launchers(), only_hydra()})
      EXPECT_NE(command(option + " " + line, launchers).find("is not supported with"), std::string::npos)
          << option;
  EXPECT_NE(command("--launcher slurm --map-by node -n 2 a", all_launchers()).find("--distribution=cyclic"),
            std::string::npos);
}

TEST(Srun, PlacesEveryRank) {
  auto to = plan_external_launcher(
      options_of("-n 5 --hosts a:3,b:2 -x K=v -wdir /w --bind-to none --tag-output p q"), all_launchers(), "",
      {});
  ASSERT_TRUE(to);
  ASSERT_EQ(to->texts.size(), 1U);
  EXPECT_EQ(to->texts[0], "a\na\na\nb\nb\n");
  const std::vector<std::string> expected = {"/usr/bin/srun",
                                             "--mpi=pmix",
                                             "--ntasks=5",
                                             "--overcommit",
                                             "--kill-on-bad-exit=1",
                                             "--input=0",
                                             "--distribution=arbitrary",
                                             "--cpu-bind=none",
                                             "--label",
                                             "--chdir=/w",
                                             "env",
                                             "K=v",
                                             "p",
                                             "q"};
  EXPECT_EQ(to->argv, expected);
  EXPECT_EQ(to->launcher, "srun (Slurm job 7)");
}

TEST(Srun, SeveralProgramsUseAFile) {
  auto to =
      plan_external_launcher(options_of("-n 1 --hosts a,b one : -n 2 -x K=v two x"), all_launchers(), "", {});
  ASSERT_TRUE(to);
  ASSERT_EQ(to->texts.size(), 2U);
  EXPECT_EQ(to->texts[1], "0-0 one\n1-2 env K=v two x\n");
  EXPECT_NE(command("--hosts a one 100% : two", all_launchers()).find("is not supported with srun"),
            std::string::npos);
}

TEST(Srun, PlacementByTheAllocation) {
  auto to = plan_external_launcher(options_of("--launcher slurm -n 2 one : two"), all_launchers(), "", {});
  ASSERT_TRUE(to);
  EXPECT_TRUE(to->variables.empty());
  ASSERT_EQ(to->texts.size(), 1U);
  EXPECT_EQ(to->texts[0], "0-1 one\n2-2 two\n");
  EXPECT_EQ(to->argv.back(), "/proc/self/fd/20");
}

TEST(Srun, NeedsAnMpiPlugin) {
  Launchers launchers = all_launchers();
  launchers.slurm_mpi.clear();
  EXPECT_NE(command("--hosts a p", launchers).find("--mpi=list"), std::string::npos);
}

TEST(Prterun, CommandLine) {
  EXPECT_EQ(
      command("-n 3 --hosts a,b -x K=v --timeout 7 p q : -n 1 r", without_slurm()),
      "timeout --kill-after=5 7.000000 /opt/prrte/bin/prterun --prefix /opt/prrte --host a:2,b:2 --map-by "
      "slot:OVERSUBSCRIBE --bind-to none -n 3 -x MINE mpiexec --guard end env K=v p q : -n 1 -x MINE mpiexec "
      "--guard end r");
}

TEST(Hydra, CommandLine) {
  EXPECT_EQ(command("-n 3 --hosts a,b -x K=v --bind-to core p q : -n 1 -wdir /w r", only_hydra()),
            "/usr/bin/mpiexec.hydra -hosts a:2,b:2 -bind-to core -n 3 mpiexec --guard end env K=v p q : -n "
            "1 -wdir /w mpiexec --guard end r");
  EXPECT_NE(command("--hosts a --map-by gpu p", only_hydra()).find("--map-by gpu"), std::string::npos);
}

TEST(Placement, IsTranslated) {
  const std::string prterun =
      command("-n 4 --hosts a,b --map-by ppr:2:package:PE=3 --bind-to numa p", without_slurm());
  EXPECT_NE(prterun.find("--map-by ppr:2:package:PE=3:OVERSUBSCRIBE --bind-to numa:overload-allowed"),
            prterun.npos)
      << prterun;
  const std::string srun = command("--launcher slurm -n 4 -npernode 2 --map-by slot:PE=3 p", all_launchers());
  EXPECT_NE(srun.find("--ntasks-per-node=2 --cpus-per-task=3"), srun.npos) << srun;
  const std::string hydra = command("-n 4 --hosts a,b -ppn 2 p", only_hydra());
  EXPECT_NE(hydra.find("-hosts a:2,b:2"), hydra.npos) << hydra;
  for (const char* option :
       {"--bind-to package", "--map-by numa", "--map-by ppr:1:core", "--map-by slot:PE=2"})
    EXPECT_NE(command(std::string("--hosts a ") + option + " p", only_hydra()).find("is not supported"),
              std::string::npos)
        << option;
}

TEST(GpuBind, ByTheLauncherOfTheHosts) {
  const auto srun = [](const std::string& options) {
    const std::string line = command("--launcher slurm -n 4 " + options + " p", all_launchers());
    const size_t at = line.find("--gpu");
    return at == line.npos ? line : line.substr(at);
  };
  EXPECT_EQ(srun("--gpus-per-task 1"), "--gpus-per-task=1 p");
  EXPECT_EQ(srun("--gpu-bind single"), "--gpu-bind=single:1 p");
  EXPECT_EQ(srun("--gpu-bind verbose,map_gpu:0*2,1"), "--gpu-bind=verbose,map_gpu:0*2,1 p");
  EXPECT_EQ(srun("--gpu-bind list:0:2-3"), "--gpu-bind=mask_gpu:0x1,0xc p");
  EXPECT_EQ(srun("--gpu-bind none --gpus-per-task 2"), "--gpus-per-task=2 --gpu-bind=none p");
  EXPECT_NE(srun("--gpu-bind rotate").find("use --gpu-bind single"), std::string::npos);
  const std::string hydra = command("--hosts a -n 2 -x K=v --gpu-bind rotate p : -n 1 q", only_hydra());
  EXPECT_NE(hydra.find("-n 2 mpiexec --guard end env K=v mpiexec --gpu-exec rotate p : -n 1 mpiexec --guard "
                       "end mpiexec --gpu-exec rotate q"),
            hydra.npos)
      << hydra;
  const std::string prterun = command("--hosts a --report-bindings --gpus-per-task 1 p", without_slurm());
  EXPECT_NE(prterun.find("mpiexec --gpu-exec verbose,per_task:1 p"), prterun.npos) << prterun;
  EXPECT_NE(prterun.find("--personality ompi"), prterun.npos) << prterun;
  EXPECT_EQ(command("--hosts a --gpu-bind none p", only_hydra()).find("--gpu-exec"), std::string::npos);
}

TEST(ContinueOnFailure, IsPassedOn) {
  constexpr const char* kVariable = "env WEFT_LAUNCH_CONTINUE_ON_FAILURE=on p";
  const std::string srun = command("--hosts a --continue-on-failure p", all_launchers());
  EXPECT_NE(srun.find("--kill-on-bad-exit=0"), std::string::npos) << srun;
  EXPECT_NE(srun.find(kVariable), std::string::npos) << srun;
  const std::string hydra = command("--hosts a --continue-on-failure p", only_hydra());
  EXPECT_NE(hydra.find(" -disable-auto-cleanup "), std::string::npos) << hydra;
  EXPECT_NE(hydra.find(std::string("--guard continue ") + kVariable), std::string::npos) << hydra;
  EXPECT_NE(command("--hosts a --continue-on-failure p", without_slurm()).find("not supported with prterun"),
            std::string::npos);
}

TEST(Hosts, SharesOfRanks) {
  const auto shares = [](const std::vector<Host>& hosts, int ranks, bool oversubscribe = false) {
    auto result = distribute_ranks(hosts, ranks, oversubscribe);
    if (!result) return std::string("refused");
    std::string text;
    for (const Host& host : *result) text += host.name + std::to_string(host.slots);
    return text;
  };
  EXPECT_EQ(shares({{"a", 0}, {"b", 0}}, 5), "a3b2");
  EXPECT_EQ(shares({{"a", 2}, {"b", 4}}, 3), "a2b1");
  EXPECT_EQ(shares({{"a", 2}, {"b", 4}}, 2), "a2");
  EXPECT_EQ(shares({{"a", 2}, {"b", 0}}, 3), "a2b1");
  EXPECT_EQ(shares({{"a", 2}, {"b", 1}}, 4), "refused");
  EXPECT_EQ(shares({{"a", 2}, {"b", 1}}, 7, true), "a5b2");
}

TEST(Hosts, ListsAndFiles) {
  std::vector<Host> hosts;
  EXPECT_FALSE(add_host_list(hosts, "-H", "a:b:c"));
  EXPECT_TRUE(add_host_list(hosts, "-H", "a,b:2,a,fe80::1"));
  ASSERT_EQ(hosts.size(), 3U);
  EXPECT_EQ(hosts[0].slots, 2);
  EXPECT_EQ(hosts[1].slots, 2);
  EXPECT_EQ(hosts[2].name, "fe80::1");
  EXPECT_FALSE(add_host_list(hosts, "-H", "a:0"));
  EXPECT_FALSE(add_host_list(hosts, "-H", ""));
  EXPECT_FALSE(add_host_list(hosts, "-H", "a,,b"));
}

}  // namespace
}  // namespace weft::mpiexec
