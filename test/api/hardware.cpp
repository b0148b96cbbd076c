// SPDX-License-Identifier: BSD-3-Clause
// Hardware resources from a synthetic sysfs: two packages of two cores with two hardware threads each; one
// NUMA node and one L3 cache per package, one L2 cache per core.
#include "api/hardware.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace weft::api {
namespace {

class Hardware : public ::testing::Test {
 protected:
  Hardware() {
    char name[] = "/tmp/weft-hardware-XXXXXX";
    root_ = mkdtemp(name);
    for (int cpu = 0; cpu < 8; ++cpu) {
      const int package = cpu / 4 * 4, core = cpu / 2 * 2;
      const std::string of_package = std::to_string(package) + "-" + std::to_string(package + 3),
                        of_core = std::to_string(core) + "-" + std::to_string(core + 1);
      const std::string folder = "/devices/system/cpu/cpu" + std::to_string(cpu);
      put(folder + "/topology/core_siblings_list", of_package);
      put(folder + "/topology/thread_siblings_list", of_core);
      put_cache(folder + "/cache/index0", "1", "Instruction", "0-7");
      put_cache(folder + "/cache/index1", "2", "Unified", of_core);
      put_cache(folder + "/cache/index2", "3", "Unified", of_package);
      put("/devices/system/node/node" + std::to_string(cpu / 4) + "/cpulist", of_package);
    }
  }
  ~Hardware() override { std::filesystem::remove_all(root_); }

  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text << "\n";
  }
  void put_cache(const std::string& folder, const char* level, const char* type,
                 const std::string& cpus) const {
    put(folder + "/level", level);
    put(folder + "/type", type);
    put(folder + "/shared_cpu_list", cpus);
  }
  [[nodiscard]] std::map<std::string, int64_t> found(const std::vector<int>& cpus) const {
    std::map<std::string, int64_t> instances;
    for (const auto& resource : hardware_resources(root_, cpus)) instances[resource.type] = resource.instance;
    return instances;
  }
  std::string root_;
};

using Instances = std::map<std::string, int64_t>;

TEST_F(Hardware, OneThread) {
  EXPECT_EQ(found({5}), (Instances{{"hwloc://Machine", 0},
                                   {"hwloc://Package", 4},
                                   {"hwloc://NUMANode", 1},
                                   {"hwloc://L3Cache", 4},
                                   {"hwloc://L2Cache", 4},
                                   {"hwloc://Core", 4},
                                   {"hwloc://PU", 5}}));
}

TEST_F(Hardware, OneCore) {
  const auto instances = found({2, 3});
  EXPECT_EQ(instances.at("hwloc://Core"), 2);
  EXPECT_EQ(instances.at("hwloc://L2Cache"), 2);
  EXPECT_EQ(instances.at("hwloc://PU"), -1);
  EXPECT_EQ(instances.count("hwloc://L1Cache"), 0u);  // instruction caches are ignored
}

TEST_F(Hardware, TwoPackages) {
  const auto instances = found({3, 4});
  EXPECT_EQ(instances.at("hwloc://Machine"), 0);
  for (const char* type : {"hwloc://Package", "hwloc://NUMANode", "hwloc://L3Cache", "hwloc://Core"})
    EXPECT_EQ(instances.at(type), -1) << type;
}

TEST_F(Hardware, EmptySysfs) {
  EXPECT_EQ(hardware_resources("/nowhere", {0, 1}).size(), 2u);  // the machine and the CPU itself
  EXPECT_EQ(hardware_resources("/nowhere", {}).size(), 1u);
}

}  // namespace
}  // namespace weft::api
