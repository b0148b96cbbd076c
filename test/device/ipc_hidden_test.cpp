// SPDX-License-Identifier: BSD-3-Clause
// CUDA IPC with GPUs that are hidden from the importer, and the reasons of refusals.
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "device/cuda/peer.hpp"
#include "ipc_support.hpp"

namespace weft::test {
namespace {

using IpcHiddenTest = IpcTest;

// CUDA_VISIBLE_DEVICES by index, and by UUID and its beginning.
TEST_F(IpcHiddenTest, HiddenDeviceIsMapped) {
  if (!cuda().emulated() || cuda().devices != 2) GTEST_SKIP() << "the emulated machine has a third device";
  for (const char* visible : {"2", "GPU-656d756c-6174-6564-2047-505520202032,0",
                              "GPU-656d756c-6174-6564-2047-505520202032", "2,GPU-unknown,0"}) {
    ExportChild child(0, visible);
    Importer importer;
    const Buffer near(Kind::device, 64, 1);
    for (const auto type : {Request::Type::allocate, Request::Type::map}) {
      const Answer answer = child.request(type, 0, 300'000, 1);
      auto mapping = importer.open(kPeer, answer.region, &answer.probe, near.memory());
      ASSERT_OK(mapping);
      EXPECT_EQ((*mapping)->memory().device, -1) << "no ordinal here";
      Buffer local(Kind::device, 300'000, 1);
      void* const remote = (*mapping)->at(answer.address);
      EXPECT_OK(device::copy(local.data(), local.memory(), remote, (*mapping)->memory(), 300'000));
      EXPECT_EQ(local.read(), pattern(300'000, 1));
      local.write(pattern(5000, 3));
      EXPECT_OK(device::copy(remote, (*mapping)->memory(), local.data(), local.memory(), 5000));
      child.request(Request::Type::check, 0, 5000, 3);
      importer.release(*mapping);
    }
  }
}

// TEST_REFUSAL: words of the reason, in variants of this test in which the child's device cannot be mapped.
TEST_F(IpcHiddenTest, RefusalNamesItsCause) {
  const char* const cause = std::getenv("TEST_REFUSAL");
  if (cause == nullptr) GTEST_SKIP() << "every device can be mapped";
  ExportChild child(0);
  Importer importer;
  const Buffer near(Kind::device, 64);
  const Answer answer = child.request(Request::Type::allocate, 0, 4096, 1),
               mapped = child.request(Request::Type::map, 1, 4096, 2);
  const auto refused = importer.open(kPeer, answer.region, &answer.probe, near.memory());
  auto descriptors = transport::cuda_ipc::DescriptorList::acquire(mapped.region);
  ASSERT_OK(descriptors);
  const auto also = device::open_shareable_handles(*descriptors, mapped.region.device, near.memory());
  device::close_all(*descriptors);
  ASSERT_FALSE(refused.ok());
  ASSERT_FALSE(also.ok());
  for (const Error* error : {&refused.error(), &also.error()}) {
    EXPECT_EQ(error->code(), Errc::unsupported);
    EXPECT_NE(error->message().find(cause), std::string::npos) << error->message();
  }
}

// A device file that cannot be opened for another reason than a cgroup: the tests may run as root.
TEST(DeviceFileTest, AccessIsToldApart) {
  namespace files = std::filesystem;
  using Access = device::cuda::DeviceFile::Access;
  const std::string root = ::testing::TempDir() + "weft_device_files_" + std::to_string(::getpid());
  const auto describe = [&](const char* pci, const char* uuid, const char* minor) {
    files::create_directories(root + "/gpus/" + pci);
    std::ofstream(root + "/gpus/" + pci + "/information")
        << "Model: \t\t NVIDIA H200\nGPU UUID: \t " << uuid << "\nDevice Minor: \t " << minor << "\n";
  };
  describe("0000:01:00.0", "GPU-00000000-0000-0000-0000-000000000001", "0");
  describe("0000:02:00.0", "GPU-00000000-0000-0000-0000-000000000002", "1");
  describe("0000:03:00.0", "GPU-00000000-0000-0000-0000-000000000003", "2");
  files::create_directories(root + "/dev/nvidia1");
  std::ofstream(root + "/dev/nvidia0") << "";
  const auto access = [&](uint8_t last) {
    device::Uuid uuid{};
    uuid.back() = last;
    return device::cuda::find_device_file(uuid, root + "/gpus", root + "/dev");
  };
  EXPECT_EQ(access(1).access, Access::granted);
  EXPECT_EQ(access(2).access, Access::denied);
  EXPECT_EQ(access(2).path, root + "/dev/nvidia1");
  EXPECT_EQ(access(2).error, std::strerror(EISDIR));
  EXPECT_EQ(access(3).access, Access::absent) << "the container has no such file";
  EXPECT_EQ(access(4).access, Access::absent) << "the container does not list it";
  EXPECT_EQ(device::cuda::find_device_file({}, root + "/none", root).access, Access::unknown);
  files::remove_all(root);
}

}  // namespace
}  // namespace weft::test
