// SPDX-License-Identifier: BSD-3-Clause
// GPUs of ranks: the words of --gpu-bind, the visible GPUs, and the assignment on simulated hosts.
#include "mpiexec/gpus.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "mpiexec/binding.hpp"
#include "mpiexec/gpu_exec.hpp"
#include "mpiexec/report.hpp"

namespace weft::mpiexec {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUuid = "GPU-0000000";  // and the number of the GPU

/// Two NUMA nodes of four cores with two equal GPUs each.
Topology two_nodes() {
  Topology topology;
  for (int cpu = 0; cpu < 8; ++cpu) topology.cores.push_back({cpu / 4, cpu % 4, cpu / 4, -1, {cpu}});
  for (int gpu = 0; gpu < 4; ++gpu)
    topology.gpus.push_back(
        {"0000:0" + std::to_string(gpu) + ":00.0", gpu / 2, kUuid + std::to_string(gpu), "0x2335"});
  topology.distances = {{{0, 0}, 10}, {{0, 1}, 32}, {{1, 0}, 32}, {{1, 1}, 10}};
  return topology;
}

Options options_of(int ranks, const std::string& gpu_bind, int per_task = 0) {
  Options options;
  options.programs.push_back(Program{ranks, {"a"}, {}, ""});
  options.gpus_per_task = per_task;
  if (!gpu_bind.empty()) {
    EXPECT_TRUE(set_gpu_bind(options, "--gpu-bind", gpu_bind).ok()) << gpu_bind;
  }
  return options;
}

/// CUDA_VISIBLE_DEVICES of each rank, separated by blanks, or the error.
std::string planned(const Options& options, const Topology& topology, const GpuVariables& variables = {},
                    const std::vector<size_t>& busy = {}) {
  auto plan = plan_bindings(options, topology, variables, busy);
  if (!plan) return plan.error().message();
  std::string text;
  for (const Binding& rank : *plan) {
    if (&rank != plan->data()) text += " ";
    for (size_t i = 0; i < rank.gpus.size(); ++i) text += (i > 0 ? "," : "") + rank.gpus[i];
    if (rank.gpus.empty()) text += "-";
  }
  return text;
}

bool refused(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

TEST(GpuBind, Words) {
  Options options;
  for (const char* value : {"single:0", "single:", "per_task", "per_task:0", "map_gpu:", "map_gpu:0,",
                            "map_gpu:x", "map_gpu:64", "map_gpu:0*0", "mask_gpu:0", "mask_gpu:xyz",
                            "list:", "list:0:", "close", "", "none:1", "rotate:1", "verbose"})
    EXPECT_TRUE(refused(set_gpu_bind(options, "--gpu-bind", value).error().message(), "single[:N]")) << value;
  ASSERT_TRUE(set_gpu_bind(options, "--gpu-bind", "verbose,map_gpu:3,0x1*2").ok());
  EXPECT_TRUE(options.report_bindings);
  EXPECT_EQ(options.gpu_bind.text, "map_gpu:3,0x1*2");
  EXPECT_EQ(options.gpu_bind.lists, (std::vector<std::vector<int>>{{3}, {1}, {1}}));
  ASSERT_TRUE(set_gpu_bind(options, "--gpu-bind", "mask_gpu:0x5,c*2").ok());
  EXPECT_EQ(options.gpu_bind.lists, (std::vector<std::vector<int>>{{0, 2}, {2, 3}, {2, 3}}));
  ASSERT_TRUE(set_gpu_bind(options, "--gpu-bind", "list:0,3:1-2").ok());
  EXPECT_EQ(options.gpu_bind.lists, (std::vector<std::vector<int>>{{0, 3}, {1, 2}}));
}

TEST(GpuBind, OneGpuEach) {
  const Topology topology = two_nodes();
  EXPECT_EQ(planned(options_of(4, ""), topology), "- - - -");
  EXPECT_EQ(planned(options_of(4, "none"), topology), "- - - -");
  Options reported = options_of(1, "none");
  reported.report_bindings = true;
  EXPECT_TRUE(plan_bindings(reported, topology, {})->front().description.ends_with("; 4 GPUs visible"));
  EXPECT_TRUE(plan_bindings(reported, topology, {"9", nullptr})->front().description.ends_with("cpus 0-7"));
  EXPECT_EQ(planned(options_of(4, "single"), topology), "0 1 2 3");
  EXPECT_EQ(planned(options_of(2, "single"), topology), "0 2");  // each next to its cores
  EXPECT_EQ(planned(options_of(8, "single"), topology), "0 0 1 1 2 2 3 3");
  EXPECT_EQ(planned(options_of(6, "single"), topology), "0 1 0 2 3 2");
  EXPECT_EQ(planned(options_of(4, "single:2"), topology), "0 0 2 2");
  EXPECT_EQ(planned(options_of(8, "single:1"), topology), "0 1 0 1 2 3 2 3");  // again from the start
}

TEST(GpuBind, SingleTakesIdleGpusBeforeNearOnes) {
  const Topology topology = two_nodes();
  Options options = options_of(4, "single");
  options.bind_to = BindTo::core;  // all of them on the first node
  EXPECT_EQ(planned(options, topology), "0 1 2 3");
  options.map_by = MapBy::numa;  // nodes in turns
  EXPECT_EQ(planned(options, topology), "0 2 1 3");
  EXPECT_EQ(planned(options_of(5, "single"), topology), "0 1 0 2 3");  // three on the first node
}

TEST(GpuBind, Lists) {
  const Topology topology = two_nodes();
  EXPECT_EQ(planned(options_of(5, "map_gpu:3,0,1*2"), topology), "3 0 1 1 3");
  EXPECT_EQ(planned(options_of(2, "mask_gpu:0x3,0xc"), topology), "0,1 2,3");
  EXPECT_EQ(planned(options_of(3, "list:0,2:1"), topology), "0,2 1 0,2");
  EXPECT_TRUE(
      refused(planned(options_of(2, "map_gpu:0,4"), topology), "rank 1 gets GPU 4, but 4 GPUs are visible"));
}

TEST(GpuBind, SeveralGpusEach) {
  const Topology topology = two_nodes();
  EXPECT_EQ(planned(options_of(2, "per_task:2"), topology), "0,1 2,3");
  EXPECT_EQ(planned(options_of(2, "", 1), topology), "0 2");
  EXPECT_EQ(planned(options_of(2, "none", 1), topology), "- -");  // --gpu-bind comes first
  EXPECT_TRUE(refused(planned(options_of(3, "", 2), topology),
                      "--gpu-bind per_task:2: 3 ranks with 2 GPUs each, but 4 GPUs are visible here"));
}

TEST(GpuBind, Closest) {
  Topology topology = two_nodes();
  EXPECT_EQ(planned(options_of(2, "closest"), topology), "0,1 2,3");
  EXPECT_EQ(planned(options_of(1, "closest"), topology), "0,1,2,3");  // cores of both nodes
  topology.gpus.resize(2);
  EXPECT_EQ(planned(options_of(2, "closest"), topology), "0,1 0,1");  // none on the node: the nearest ones
  topology.gpus[0].numa = -1;
  EXPECT_TRUE(refused(planned(options_of(2, "closest"), topology), "use --gpu-bind single"));
}

TEST(GpuBind, Rotate) {
  const Topology topology = two_nodes();
  EXPECT_EQ(planned(options_of(4, "rotate"), topology), "0,1,2,3 1,2,3,0 2,3,0,1 3,0,1,2");
  EXPECT_EQ(planned(options_of(2, "rotate"), topology, {"2,0", nullptr}), "0,2 2,0");
}

TEST(GpuBind, CoresNextToTheAssignedGpu) {
  const Topology topology = two_nodes();
  Options options = options_of(2, "map_gpu:3,0");
  options.map_by = MapBy::gpu;
  auto plan = plan_bindings(options, topology, {});
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ((*plan)[0].gpus, std::vector<std::string>{"3"});
  EXPECT_EQ(format_cpu_list((*plan)[0].cpus), "4-7");
  EXPECT_EQ(
      (*plan)[0].description,
      "4 cores, cpus 4-7, next to GPU 0000:03:00.0; GPU 3 (0000:03:00.0 GPU-00000003, NUMA distance 10), 3 "
      "GPUs hidden");
  EXPECT_EQ(format_cpu_list((*plan)[1].cpus), "0-3");
  options = options_of(4, "single");
  options.map_by = MapBy::gpu;
  options.per_object = 2;
  EXPECT_EQ(planned(options, topology), "0 0 1 1");
  options.rank_by = RankBy::numa;  // GPUs move with their cores
  options.per_object = 1;
  EXPECT_EQ(planned(options, topology), "0 2 1 3");
}

TEST(GpuBind, SpawnedProcessesTakeIdleGpus) {
  const Topology topology = two_nodes();
  EXPECT_EQ(planned(options_of(3, "single"), topology, {}, {1}), "1 2 3");
  EXPECT_EQ(planned(options_of(1, "per_task:2"), topology, {}, {1, 1}), "2,3");
  EXPECT_TRUE(refused(planned(options_of(1, "per_task:3"), topology, {}, {1, 1}), "only 2 GPUs not in use"));
}

TEST(VisibleGpus, OnlyThoseOfTheVariable) {
  const Topology topology = two_nodes();
  EXPECT_EQ(planned(options_of(2, "single"), topology, {"3,1", nullptr}),
            "1 3");  // near ones, in its numbering
  EXPECT_EQ(planned(options_of(2, "map_gpu:0,1"), topology, {"3,1", nullptr}), "3 1");
  EXPECT_EQ(planned(options_of(2, "single"), topology, {"GPU-00000003,gpu-00000001", nullptr}),
            "CUDA_VISIBLE_DEVICES=GPU-00000003,gpu-00000001: 'gpu-00000001' is neither a number nor a UUID "
            "(GPU-..., "
            "MIG-...)");
  EXPECT_EQ(planned(options_of(2, "single"), topology, {"GPU-00000003, GPU-00000001", nullptr}),
            "GPU-00000001 GPU-00000003");
  EXPECT_EQ(planned(options_of(2, "single"), topology, {"MIG-GPU-00000003/1/0,MIG-11", nullptr}),
            "MIG-GPU-00000003/1/0 MIG-11");
  EXPECT_TRUE(
      refused(planned(options_of(1, "single"), topology, {"GPU-9", nullptr}), "is no GPU of this host"));
  EXPECT_TRUE(refused(planned(options_of(1, "single"), topology, {"GPU-0", nullptr}), "names several GPUs"));
  EXPECT_TRUE(
      refused(planned(options_of(1, "single"), topology, {"0,4", nullptr}), "'4' is no GPU of this host"));
  for (const char* none : {"", "-1", "NoDevFiles"})
    EXPECT_TRUE(
        refused(planned(options_of(1, "single"), topology, {none, nullptr}), "no NVIDIA GPU is visible"))
        << none;
  Topology unknown = topology;
  unknown.gpus.clear();  // the kernel does not list them, as under WSL
  EXPECT_EQ(planned(options_of(3, "single"), unknown, {"0,1,2", nullptr}), "0 1 2");
  EXPECT_TRUE(refused(planned(options_of(1, "single"), unknown), "CUDA_VISIBLE_DEVICES=0,1 mpiexec"));
}

TEST(VisibleGpus, NumbersOfDifferentModels) {
  Topology topology = two_nodes();
  topology.gpus[0].model = "0x1234";                             // CUDA counts the fastest first
  EXPECT_EQ(planned(options_of(2, "single"), topology), "0 2");  // mpiexec sets PCI_BUS_ID
  EXPECT_EQ(planned(options_of(2, "single"), topology, {"0,1,2,3", "PCI_BUS_ID"}), "0 2");
  EXPECT_EQ(planned(options_of(2, "single"), topology, {"0,1,2,3", nullptr}), "0 1");
  EXPECT_TRUE(refused(planned(options_of(2, "closest"), topology, {"0,1,2,3", nullptr}), "PCI_BUS_ID"));
  EXPECT_TRUE(refused(planned(options_of(2, "closest"), topology, {nullptr, "FASTEST_FIRST"}), "PCI_BUS_ID"));
}

/// A folder with the files of two GPUs and NVIDIA's driver.
class DriverFiles {
 public:
  DriverFiles() {
    char name[] = "/tmp/launch-gpus-XXXXXX";
    root_ = ::mkdtemp(name);
    for (const char* bus : {"1b", "3b"}) {
      const std::string address = std::string("0000:") + bus + ":00.0",
                        device = "/bus/pci/devices/" + address + "/";
      write(device + "vendor", "0x10de");
      write(device + "class", "0x030200");
      write(device + "device", "0x2335");
      write(device + "numa_node", "0");
      write("/nvidia/gpus/" + address + "/information", std::string("Model: \t x\nGPU UUID:  \t GPU-") + bus +
                                                            "\nDevice Minor: \t " +
                                                            (bus[0] == '1' ? "0" : "1"));
      write(std::string("/dev/nvidia") + (bus[0] == '1' ? "0" : "1"), "");
    }
    write("/devices/system/node/node0/distance", "10 21");
    write("/devices/system/node/node1/distance", "21 10");
  }
  ~DriverFiles() { fs::remove_all(root_); }
  DriverFiles(const DriverFiles&) = delete;
  DriverFiles& operator=(const DriverFiles&) = delete;
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text << "\n";
  }
  void remove(const std::string& path) const { fs::remove_all(root_ + path); }
  [[nodiscard]] Topology read() const {
    return read_topology({root_, root_ + "/nvidia", root_ + "/dev"}, {0});
  }

 private:
  std::string root_;
};

TEST(Topology, FilesOfTheDriver) {
  const DriverFiles files;
  Topology topology = files.read();
  ASSERT_EQ(topology.gpus.size(), 2U);
  EXPECT_EQ(topology.gpus[1].uuid, "GPU-3b");
  EXPECT_EQ(topology.gpus[1].model, "0x2335");
  EXPECT_EQ((topology.distances.at({1, 0})), 21);
  files.write("/nvidia/gpus/0000:1b:00.0/information", "GPU UUID: GPU-?\nDevice Minor: 0");
  EXPECT_EQ(files.read().gpus[0].uuid, "");
  EXPECT_TRUE(read_topology({}, {0}, false).gpus.empty());
  files.write("/nvidia/capabilities/gpu1/mig/gi3/access", "");
  topology = files.read();
  EXPECT_FALSE(topology.gpus[0].mig);
  EXPECT_TRUE(refused(planned(options_of(1, "single"), topology), "MIG"));
  EXPECT_EQ(planned(options_of(1, "single"), topology, {"0", nullptr}), "0");
  files.remove("/dev/nvidia0");  // a container or a cgroup denies it: CUDA does not count it
  topology = files.read();
  ASSERT_EQ(topology.gpus.size(), 1U);
  EXPECT_EQ(topology.gpus[0].uuid, "GPU-3b");
  files.remove("/nvidia/gpus/0000:3b:00.0");
  EXPECT_EQ(files.read().gpus.size(), 0U);
  files.remove("/nvidia/gpus/0000:1b:00.0");
  EXPECT_EQ(files.read().gpus.size(), 2U);  // no driver says anything
}

TEST(GpuExec, LocalRanksOfLaunchers) {
  const auto of = [](const std::vector<std::pair<std::string, const char*>>& variables) {
    return local_rank([&](const char* name) -> const char* {
      for (const auto& [known, value] : variables)
        if (known == name) return value;
      return nullptr;
    });
  };
  EXPECT_EQ(of({{"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "3"}})->rank, 1U);
  EXPECT_EQ(of({{"OMPI_COMM_WORLD_LOCAL_RANK", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}})->ranks, 3U);
  EXPECT_TRUE(
      refused(of({{"MPI_LOCALRANKID", "3"}, {"MPI_LOCALNRANKS", "3"}}).error().message(), "MPI_LOCALRANKID"));
  EXPECT_TRUE(refused(of({{"PMIX_RANK", "3"}}).error().message(), "sets no local rank"));
}

TEST(GpuExec, EachRankByItself) {
  const Topology topology = two_nodes();
  std::string description;
  const auto of = [&](const char* value, size_t rank) {
    auto entries = gpus_of_rank(value, {rank, 4}, topology, {}, description);
    if (!entries) return entries.error().message();
    return entries->empty() ? "-" : entries->front() + "/" + std::to_string(entries->size());
  };
  EXPECT_EQ(of("single", 3), "3/1");
  EXPECT_EQ(of("rotate", 2), "2/4");
  EXPECT_EQ(of("none", 2), "-");
  EXPECT_EQ(of("closest", 2), "0/4");  // of all cores
  EXPECT_TRUE(refused(of("per_task:2", 0), "4 ranks with 2 GPUs"));
  EXPECT_EQ(description, "");
  EXPECT_EQ(of("verbose,map_gpu:1", 0), "1/1");
  EXPECT_EQ(description, "local rank 0: GPU 1 (0000:01:00.0 GPU-00000001, NUMA distance 10), 3 GPUs hidden");
}

TEST(Report, HintForRawLocalRanks) {
  RankPlan plan;
  EXPECT_EQ(gpu_hint(plan, 5), "");
  plan.visible_gpus = 1;
  EXPECT_EQ(gpu_hint(plan, 0), "");
  EXPECT_TRUE(refused(gpu_hint(plan, 1), "its local rank is 1"));
}

}  // namespace
}  // namespace weft::mpiexec
