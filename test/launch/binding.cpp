// SPDX-License-Identifier: BSD-3-Clause
// CPU binding of ranks, with simulated sysfs trees.
#include "mpiexec/binding.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace weft::mpiexec {
namespace {

namespace fs = std::filesystem;

/// A sysfs tree with two packages (= NUMA nodes) of four cores with two threads, and two GPUs per package.
class Host {
 public:
  Host() {
    char name[] = "/tmp/launch-sysfs-XXXXXX";
    root_ = ::mkdtemp(name);
    for (int cpu = 0; cpu < 16; ++cpu) {
      const std::string folder = "/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
      write(folder + "physical_package_id", std::to_string(cpu % 8 / 4));
      write(folder + "core_id", std::to_string(cpu % 4));  // core ids are per package
    }
    write("/devices/system/node/node0/cpulist", "0-3,8-11");
    write("/devices/system/node/node1/cpulist", "4-7,12-15");
    add_device("0000:1b:00.0", "0x10de", "0x030200", "0");
    add_device("0000:3b:00.0", "0x10de", "0x030200", "0");
    add_device("0000:9b:00.0", "0x10de", "0x030000", "1");
    add_device("0000:bb:00.0", "0x10de", "0x030200", "1");
    add_device("0000:05:00.0", "0x10de", "0x068000", "0");  // an NVSwitch
    add_device("0000:02:00.0", "0x1a03", "0x030000", "0");  // another display
  }
  ~Host() { fs::remove_all(root_); }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text << "\n";
  }
  [[nodiscard]] Topology read() const {
    std::vector<int> all(16);
    for (int cpu = 0; cpu < 16; ++cpu) all[static_cast<size_t>(cpu)] = cpu;
    return read(all);
  }
  [[nodiscard]] Topology read(const std::vector<int>& cpus) const {
    return read_topology({root_, root_ + "/nvidia", root_ + "/dev"}, cpus);
  }
  [[nodiscard]] const std::string& root() const { return root_; }

 private:
  void add_device(const std::string& address, const char* vendor, const char* kind, const char* numa) {
    const std::string folder = "/bus/pci/devices/" + address + "/";
    write(folder + "vendor", vendor);
    write(folder + "class", kind);
    write(folder + "numa_node", numa);
  }
  std::string root_;
};

Options make_options(int ranks, BindTo bind_to = BindTo::share, MapBy map_by = MapBy::slot) {
  Options options;
  options.programs.push_back(Program{ranks, {"a"}, {}, ""});
  options.bind_to = bind_to;
  options.map_by = map_by;
  return options;
}

/// Returns the CPU lists of all ranks, separated by blanks; "-": not bound.
std::string plan(const Options& options, const Topology& topology, const char* visible = nullptr) {
  auto bindings = plan_bindings(options, topology, {visible, nullptr});
  if (!bindings) return bindings.error().message();
  std::string text;
  for (const Binding& binding : *bindings)
    text += (text.empty() ? "" : " ") + (binding.cpus.empty() ? "-" : format_cpu_list(binding.cpus));
  return text;
}

TEST(Topology, ReadsCoresAndGpus) {
  const Host host;
  const Topology topology = host.read();
  ASSERT_EQ(topology.cores.size(), 8U);
  EXPECT_EQ(topology.cores[4].numa, 1);
  EXPECT_EQ(topology.cores[4].cpus, (std::vector<int>{4, 12}));
  ASSERT_EQ(topology.gpus.size(), 4U);
  EXPECT_EQ(topology.gpus[2].address, "0000:9b:00.0");
  EXPECT_EQ(topology.gpus[2].numa, 1);
}

TEST(Topology, OnlyAllowedCpusAreUsed) {
  const Host host;
  const Topology topology = host.read({1, 5, 13});
  ASSERT_EQ(topology.cores.size(), 2U);
  EXPECT_EQ(topology.cores[0].cpus, (std::vector<int>{1}));
  EXPECT_EQ(topology.cores[1].cpus, (std::vector<int>{5, 13}));
}

TEST(Binding, EqualSharesByDefault) {
  const Topology topology = Host().read();
  EXPECT_EQ(plan(make_options(1), topology), "0-15");
  EXPECT_EQ(plan(make_options(2), topology), "0-3,8-11 4-7,12-15");
  EXPECT_EQ(plan(make_options(3), topology), "0-1,8-9 2-3,10-11 5-6,13-14");  // two cores stay free
  EXPECT_EQ(plan(make_options(8), topology), "0,8 1,9 2,10 3,11 4,12 5,13 6,14 7,15");
  EXPECT_EQ(plan(make_options(9), topology), "- - - - - - - - -");
}

TEST(Binding, OneCoreEach) {
  const Topology topology = Host().read();
  EXPECT_EQ(plan(make_options(2, BindTo::core), topology), "0,8 1,9");
  EXPECT_EQ(plan(make_options(2, BindTo::share, MapBy::core), topology), "0,8 1,9");
  Options options = make_options(9, BindTo::core);
  EXPECT_NE(plan(options, topology).find("8 cores"), std::string::npos);
  options.oversubscribe = true;
  EXPECT_EQ(plan(options, topology), "0,8 1,9 2,10 3,11 4,12 5,13 6,14 7,15 0,8");
}

TEST(Binding, ByObject) {
  const Topology topology = Host().read();
  Options options = make_options(4, BindTo::share, MapBy::package);
  EXPECT_EQ(plan(options, topology), "0-1,8-9 4-5,12-13 2-3,10-11 6-7,14-15");
  options.per_object = 2;
  EXPECT_EQ(plan(options, topology), "0-1,8-9 2-3,10-11 4-5,12-13 6-7,14-15");
  options.bind_to = BindTo::core;
  EXPECT_EQ(plan(options, topology), "0,8 1,9 4,12 5,13");
  options.programs[0].ranks = 5;
  EXPECT_NE(plan(options, topology).find("2 of these objects"), std::string::npos);
  options = make_options(4);
  options.cores_per_rank = 2;
  EXPECT_EQ(plan(options, topology), "0-1,8-9 2-3,10-11 4-5,12-13 6-7,14-15");
  options.programs[0].ranks = 5;
  EXPECT_NE(plan(options, topology).find("2 cores each"), std::string::npos);
  EXPECT_EQ(plan(make_options(2, BindTo::package), topology), "0-3,8-11 4-7,12-15");
  EXPECT_EQ(plan(make_options(3, BindTo::numa, MapBy::package), topology), "0-3,8-11 4-7,12-15 0-3,8-11");
  const std::string crowded = plan(make_options(16, BindTo::package), topology);
  EXPECT_TRUE(crowded.starts_with("0-3,8-11 ") && crowded.ends_with(" 4-7,12-15")) << crowded;
}

TEST(Binding, NearestToTheGpu) {
  const Topology topology = Host().read();
  EXPECT_EQ(plan(make_options(2, BindTo::share, MapBy::gpu), topology), "0-1,8-9 2-3,10-11");
  EXPECT_EQ(plan(make_options(4, BindTo::share, MapBy::gpu), topology),
            "0-1,8-9 2-3,10-11 4-5,12-13 6-7,14-15");
  EXPECT_EQ(plan(make_options(2, BindTo::share, MapBy::gpu), topology, "3,0"), "4-7,12-15 0-3,8-11");
  EXPECT_EQ(plan(make_options(2, BindTo::core, MapBy::gpu), topology, "2"), "4,12 5,13");
  EXPECT_EQ(plan(make_options(2, BindTo::none, MapBy::gpu), topology), "- -");
  EXPECT_NE(
      plan(make_options(1, BindTo::share, MapBy::gpu), topology, "7").find("'7' is no GPU of this host"),
      std::string::npos);
  EXPECT_NE(plan(make_options(1, BindTo::share, MapBy::gpu), topology, "").find("no visible"),
            std::string::npos);
  Topology without = topology;
  without.gpus.clear();
  EXPECT_NE(plan(make_options(1, BindTo::share, MapBy::gpu), without).find("GPU"), std::string::npos);
}

TEST(Binding, HardwareThreads) {
  const Topology topology = Host().read();
  Options options = make_options(2, BindTo::core);
  options.hardware_threads = true;
  EXPECT_EQ(plan(options, topology), "0 8");
  options = make_options(16);
  options.hardware_threads = true;
  EXPECT_EQ(plan(options, topology), "0 8 1 9 2 10 3 11 4 12 5 13 6 14 7 15");
}

TEST(Binding, ByLevel3Cache) {
  const Host host;
  for (int cpu = 0; cpu < 16; ++cpu) {  // two cores share a cache
    const std::string cache = "/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index";
    const int first = cpu % 8 / 2 * 2;
    host.write(cache + "2/level", "2");
    host.write(cache + "3/level", "3");
    host.write(cache + "3/shared_cpu_list", std::to_string(first) + "-" + std::to_string(first + 1) + "," +
                                                std::to_string(first + 8) + "-" + std::to_string(first + 9));
  }
  const Topology topology = host.read();
  EXPECT_EQ(topology.cores[3].l3, 2);
  EXPECT_EQ(plan(make_options(4, BindTo::core, MapBy::l3cache), topology), "0,8 2,10 4,12 6,14");
  EXPECT_EQ(plan(make_options(2, BindTo::l3cache, MapBy::package), topology), "0-1,8-9 4-5,12-13");
  Options options = make_options(4, BindTo::core, MapBy::l3cache);
  options.per_object = 2;
  EXPECT_EQ(plan(options, topology), "0,8 1,9 2,10 3,11");
  EXPECT_EQ(plan(make_options(2, BindTo::l3cache), Host().read()), "0-15 0-15");  // no such cache: the host
}

TEST(Binding, OrderOfRanks) {
  const Topology topology = Host().read();
  Options options = make_options(4, BindTo::core, MapBy::package);
  EXPECT_EQ(plan(options, topology), "0,8 4,12 1,9 5,13");
  options.rank_by = RankBy::fill;
  EXPECT_EQ(plan(options, topology), "0,8 1,9 4,12 5,13");
  options = make_options(8, BindTo::core, MapBy::core);
  options.rank_by = RankBy::numa;
  EXPECT_EQ(plan(options, topology), "0,8 4,12 1,9 5,13 2,10 6,14 3,11 7,15");
  options.bind_to = BindTo::none;
  EXPECT_EQ(plan(options, topology), "- - - - - - - -");
  options = make_options(4, BindTo::share, MapBy::gpu);
  options.per_object = 2;
  EXPECT_EQ(plan(options, topology, "0,2"), "0-1,8-9 2-3,10-11 4-5,12-13 6-7,14-15");
  options.programs[0].ranks = 5;
  EXPECT_NE(plan(options, topology, "0,2").find("5 processes, but 2 of these objects"), std::string::npos);
}

TEST(Binding, RankFiles) {
  const Host host;
  const Topology topology = host.read();
  const std::string path = host.root() + "/ranks";
  const auto planned = [&](int ranks, const std::string& text) {
    host.write("/ranks", text);
    Options options = make_options(ranks);
    options.rankfile = path;
    return plan(options, topology);
  };
  EXPECT_EQ(
      planned(3, "# places\nrank 1=localhost slot=1:*\nrank 0 = +n0 slot=0:1,2-3\nrank 2=localhost slot=0,7"),
      "1-3,9-11 4-7,12-15 0,7-8,15");
  EXPECT_NE(planned(2, "rank 0=localhost slot=0").find("no line for rank 1"), std::string::npos);
  EXPECT_NE(planned(1, "rank 0=elsewhere.example slot=0").find("--launcher prrte"), std::string::npos);
  for (const char* slot : {"8", "2:0", "0:4", "x", "0:", "1:1-0"})
    EXPECT_NE(planned(1, "rank 0=localhost slot=" + std::string(slot)).find("no such cores"),
              std::string::npos)
        << slot;
  EXPECT_NE(planned(1, "rank 0=localhost").find("a line is"), std::string::npos);
  EXPECT_NE(planned(1, "rank 1=localhost slot=0").find("1 processes"), std::string::npos);
  EXPECT_NE(planned(1, "rank 0=localhost slot=0\nrank 0=localhost slot=1").find("twice"), std::string::npos);
}

TEST(CpuList, RoundTrips) {
  EXPECT_EQ(parse_cpu_list("0-2,5"), (std::vector<int>{0, 1, 2, 5}));
  EXPECT_EQ(format_cpu_list({5, 2, 0, 1}), "0-2,5");
  for (const char* text : {"x", "3-1", "1,,2"}) EXPECT_FALSE(parse_cpu_list(text)) << text;
}

}  // namespace
}  // namespace weft::mpiexec
