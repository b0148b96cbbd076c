// SPDX-License-Identifier: BSD-3-Clause
// Selection of provider and interface, with simulated candidates and sysfs trees.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "transport/ofi/nic.hpp"
#include "transport/ofi/select.hpp"

namespace {

namespace fs = std::filesystem;
using namespace weft::transport::ofi;

/// A machine of two NUMA nodes; a GPU and one NIC share a switch on the second.
class Machine {
 public:
  Machine() {
    char name[] = "sysfs-XXXXXX";
    root_ = fs::absolute(::mkdtemp(name));
    pci("pci0000:00", "0000:00:01.0", "0000:01:00.0", 0);  // a NIC
    pci("pci0000:80", "0000:80:01.0", "0000:81:00.0", 1);  // a NIC behind the switch of the GPU
    pci("pci0000:80", "0000:80:01.0", "0000:82:00.0", 1);  // the GPU
    pci("pci0000:80", "0000:80:02.0", "0000:83:00.0", 1);  // a NIC behind another switch
    write("devices/system/node/node0/cpulist", "0-511");
    write("devices/system/node/node1/cpulist", "512-1023");
    interface("lo", 772, false, 0);
    interface("eth0", 1, true, 1000);
    interface("eth1", 1, true, 25000);
    interface("docker0", 1, false, 0);
    fs::create_directories(root_ / "class/net/docker0/bridge");
  }
  ~Machine() { fs::remove_all(root_); }
  [[nodiscard]] std::string path() const { return root_.string(); }

 private:
  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }
  void pci(const std::string& bridge, const std::string& port, const std::string& device, int node) const {
    const fs::path real = fs::path("devices") / bridge / port / device;
    write(real / "numa_node", std::to_string(node));
    fs::create_directories(root_ / "bus/pci/devices");
    fs::create_symlink(root_ / real, root_ / "bus/pci/devices" / device);
  }
  void interface(const std::string& name, int type, bool real, int speed) const {
    const fs::path folder = fs::path("class/net") / name;
    write(folder / "type", std::to_string(type));
    if (speed != 0) write(folder / "speed", std::to_string(speed));
    if (real) fs::create_directories(root_ / folder / "device");
  }
  fs::path root_;
};

Candidate rdma(const char* provider, const char* interface, const char* pci) {
  Candidate candidate;
  candidate.provider = provider;
  candidate.interface = interface;
  candidate.pci = pci;
  return candidate;
}
Candidate socket(const char* provider, const char* interface, bool loopback = false,
                 bool link_local = false) {
  Candidate candidate;
  candidate.provider = provider;
  candidate.interface = interface;
  candidate.format = 2;
  candidate.loopback = loopback;
  candidate.link_local = link_local;
  return candidate;
}

class SelectTest : public testing::Test {
 protected:
  Machine machine;
  SelectionRequest request{"", "", false, 0, machine.path()};
  std::string selected(const std::vector<Candidate>& candidates) {
    auto selection = select(candidates, request);
    if (!selection) return "error: " + selection.error().message();
    std::string all = candidates[selection->index].provider + "/" + candidates[selection->index].interface;
    for (const size_t other : selection->others) all += "+" + candidates[other].interface;
    return all;
  }
};

TEST_F(SelectTest, DistanceByPcieThenByNode) {
  const auto at = [&](const char* pci) { return locality_of_pci(machine.path(), pci); };
  const Locality gpu = at("0000:82:00.0");
  EXPECT_EQ(distance(at("0000:81:00.0"), gpu), Distance::same_switch);
  EXPECT_EQ(distance(at("0000:83:00.0"), gpu), Distance::same_bridge);
  EXPECT_EQ(distance(at("0000:01:00.0"), gpu), Distance::across_nodes);
  EXPECT_EQ(distance(at("0000:99:00.0"), gpu), Distance::unknown);
  EXPECT_EQ(distance(at("0000:01:00.0"), Locality{"", {0}}), Distance::same_node);
}

TEST_F(SelectTest, FastProvidersBeforeSockets) {
  EXPECT_EQ(selected({socket("tcp;ofi_rxm", "eth0"), rdma("verbs;ofi_rxm", "mlx5_0", "0000:01:00.0")}),
            "verbs;ofi_rxm/mlx5_0");
  EXPECT_EQ(selected({rdma("verbs;ofi_rxm", "mlx5_0", ""), rdma("cxi", "cxi0", "")}), "cxi/cxi0");
  EXPECT_EQ(selected({socket("net", "eth0"), rdma("shm", "shm", ""), socket("udp;ofi_rxd", "eth0"),
                      rdma("lnx", "shm+tcp", ""), socket("tcp;ofi_rxm", "eth0")}),
            "tcp;ofi_rxm/eth0");
}

TEST_F(SelectTest, RequestedProviderIsSelected) {
  request.provider = "udp";
  EXPECT_EQ(selected({socket("tcp", "eth0"), socket("udp;ofi_rxd", "eth0")}), "udp;ofi_rxd/eth0");
  request.provider = "";
  request.environment = true;  // FI_PROVIDER=lnx: libfabric reports nothing else
  EXPECT_EQ(selected({rdma("lnx", "shm+cxi0", "")}), "lnx/shm+cxi0");
  request.environment = false;
  request.provider = "verbs";
  EXPECT_NE(selected({socket("tcp", "eth0")}).find("WEFT_NET_OFI_PROVIDER=verbs, available: tcp/eth0"),
            std::string::npos);
  request.provider = "";
  EXPECT_NE(selected({}).find("available: none"), std::string::npos);
}

TEST_F(SelectTest, SocketsUseTheFastestPhysicalInterface) {
  EXPECT_EQ(selected({socket("tcp", "lo", true), socket("tcp", "docker0"), socket("tcp", "eth0"),
                      socket("tcp", "eth1", false, true), socket("tcp", "eth1")}),
            "tcp/eth1");
  EXPECT_EQ(selected({socket("tcp", "lo", true), socket("tcp", "docker0")}), "tcp/docker0");
  EXPECT_EQ(selected({socket("tcp", "lo", true)}), "tcp/lo");
}

TEST_F(SelectTest, NearestAdaptersRoundRobin) {
  request.local_size = 4;  // one adapter for each rank
  // This thread runs on cores of node 0 (0-511), which has one adapter with two addresses.
  const std::vector<Candidate> candidates = {
      rdma("cxi", "cxi2", "0000:83:00.0"), rdma("cxi", "cxi0", "0000:01:00.0"),
      rdma("cxi", "cxi0", "0000:01:00.0"), rdma("cxi", "cxi1", "0000:81:00.0")};
  EXPECT_EQ(selected(candidates), "cxi/cxi0");
  request.local_rank = 1;
  EXPECT_EQ(selected(candidates), "cxi/cxi0");
  const std::vector<Candidate> far = {rdma("cxi", "cxi1", "0000:81:00.0"),
                                      rdma("cxi", "cxi2", "0000:83:00.0")};
  EXPECT_EQ(selected(far), "cxi/cxi2");
  request.local_rank = 2;
  EXPECT_EQ(selected(far), "cxi/cxi1");
}

TEST_F(SelectTest, NicListIsIndexedByLocalRank) {
  const std::vector<Candidate> candidates = {rdma("cxi", "cxi0", ""), rdma("cxi", "cxi1", "")};
  request.nics = "cxi1,cxi0";
  EXPECT_EQ(selected(candidates), "cxi/cxi1");
  request.local_rank = 3;
  EXPECT_EQ(selected(candidates), "cxi/cxi0");
  request.nics = "cxi9";
  EXPECT_NE(selected(candidates).find("WEFT_NET_OFI_NIC=cxi9"), std::string::npos);
}

TEST_F(SelectTest, AutomaticShareOfTheEquallyNearAdapters) {
  const std::vector<Candidate> far = {rdma("cxi", "cxi0", "0000:81:00.0"),
                                      rdma("cxi", "cxi1", "0000:83:00.0"),
                                      rdma("cxi", "cxi0", "0000:81:00.0")};  // a second address
  request.local_size = 1;
  EXPECT_EQ(selected(far), "cxi/cxi0+cxi1");
  request.local_size = 2;
  EXPECT_EQ(selected(far), "cxi/cxi0");
  request.local_rank = 1;
  EXPECT_EQ(selected(far), "cxi/cxi1");
  // One rank uses only the near one of three.
  request.local_rank = 0;
  request.local_size = 1;
  std::vector<Candidate> all = far;
  all.push_back(rdma("cxi", "cxi2", "0000:01:00.0"));
  EXPECT_EQ(selected(all), "cxi/cxi2");
  // Another speed.
  std::vector<Candidate> uneven = far;
  uneven[1].speed = 1;
  EXPECT_EQ(selected(uneven), "cxi/cxi0");
}

TEST_F(SelectTest, RequestedNumberOfAdaptersByDistance) {
  std::vector<Candidate> all = {rdma("cxi", "cxi0", "0000:81:00.0"), rdma("cxi", "cxi1", "0000:83:00.0"),
                                rdma("cxi", "cxi2", "0000:01:00.0")};
  request.adapters = 2;
  EXPECT_EQ(selected(all), "cxi/cxi2+cxi0");
  request.adapters = 4;
  EXPECT_EQ(selected(all), "cxi/cxi2+cxi0+cxi1");
  request.adapters = 1;
  EXPECT_EQ(selected(all), "cxi/cxi2");
  // The first adapters of the ranks differ, although every rank uses all.
  all.pop_back();
  request.adapters = 2;
  EXPECT_EQ(selected(all), "cxi/cxi0+cxi1");
  request.local_rank = 1;
  EXPECT_EQ(selected(all), "cxi/cxi1+cxi0");
}

TEST_F(SelectTest, SeveralSocketInterfacesOnRequestOnly) {
  const std::vector<Candidate> candidates = {socket("tcp", "lo", true),
                                             socket("tcp", "eth0"),
                                             socket("tcp", "docker0"),
                                             socket("tcp", "eth1"),
                                             socket("tcp", "eth1"),
                                             socket("tcp;ofi_rxm", "eth0"),
                                             socket("tcp", "eth2", false, true)};
  EXPECT_EQ(selected(candidates), "tcp/eth1");
  request.adapters = 3;
  EXPECT_EQ(selected(candidates), "tcp/eth1+eth0");
}

TEST_F(SelectTest, SeveralNamedInterfacesOfOneRank) {
  const std::vector<Candidate> candidates = {socket("tcp", "lo", true), socket("tcp", "eth0"),
                                             socket("tcp", "eth1")};
  request.nics = "eth0+eth1,lo+lo";
  EXPECT_EQ(selected(candidates), "tcp/eth0+eth1");
  request.local_rank = 1;
  EXPECT_EQ(selected(candidates), "tcp/lo+lo");
  request.nics = "eth0+eth9";
  EXPECT_NE(selected(candidates).find("WEFT_NET_OFI_NIC=eth9"), std::string::npos);
  request.nics = "lo+lo+lo+lo+lo";
  EXPECT_NE(selected(candidates).find("more than 4"), std::string::npos);
}

TEST(Provider, SharedMemoryNeedsLibfabric2) {
  EXPECT_TRUE(check_provider("shm", weft::transport::ofi::abi::version(2, 0)).ok());
  EXPECT_TRUE(check_provider("tcp", weft::transport::ofi::abi::version(1, 17)).ok());
  const weft::Status refused = check_provider("shm", weft::transport::ofi::abi::version(1, 22));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("libfabric 2"), std::string::npos);
}

TEST(Loopback, ByAddress) {
  const unsigned char v4[16] = {2, 0, 0, 0, 127, 0, 0, 1}, other[16] = {2, 0, 0, 0, 10, 0, 0, 1};
  EXPECT_TRUE(is_loopback(2, v4, sizeof v4));
  EXPECT_FALSE(is_loopback(2, other, sizeof other));
  EXPECT_FALSE(is_loopback(2, v4, 4));
  EXPECT_FALSE(is_loopback(10, v4, sizeof v4));
}

}  // namespace
