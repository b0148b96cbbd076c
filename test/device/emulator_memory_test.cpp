// SPDX-License-Identifier: BSD-3-Clause
// The emulated driver itself: mapped memory, pointer attributes, reserved addresses.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "cuda_test_support.hpp"
#include "emulator_calls.hpp"

namespace weft::test {
namespace {

class EmulatedMemory : public CudaTest {};

TEST_F(EmulatedMemory, MappedMemoryIsSharedByDescriptor) {
  Buffer source(Buffer::Kind::mapped, 3 << 20);
  source.write(pattern(3 << 20, 5));
  const auto at = address_of(source.data());
  device::cuda::IpcMemHandle ipc;
  EXPECT_EQ(call("cuIpcGetMemHandle", &ipc, at), device::cuda::kInvalidValue);
  unsigned long long handle = 0, imported = 0, before = 0;
  int fd = -1;
  ASSERT_EQ(call("cuMemRetainAllocationHandle", &handle, static_cast<void*>(source.data())), 0);
  ASSERT_EQ(call("cuMemExportToShareableHandle", static_cast<void*>(&fd), handle, 1, 0ull), 0);
  ASSERT_EQ(call("cuMemImportFromShareableHandle", &imported, reinterpret_cast<void*>(intptr_t{fd}), 1), 0);
  EXPECT_EQ(cuda().cuMemRelease(handle), 0);
  EXPECT_EQ(::close(fd), 0);
  constexpr size_t kSize = 2 << 20;
  Address second = 0;
  ASSERT_EQ(cuda().cuMemAddressReserve(&second, kSize, 0, 0, 0), 0);
  ASSERT_EQ(cuda().cuMemMap(second, kSize, 0, imported, 0), 0);
  std::vector<char> seen(1000);
  const Address inside = second + at % kSize;
  EXPECT_NE(cuda().cuMemcpyDtoH_v2(seen.data(), inside, 1000), 0);  // no access yet
  const AccessDescription access;
  ASSERT_EQ(cuda().cuMemSetAccess(second, kSize, &access, 1), 0);
  EXPECT_EQ(cuda().cuMemcpyDtoH_v2(seen.data(), inside, 1000), 0);
  EXPECT_EQ(seen, source.read(0, 1000));
  EXPECT_NE(call("cuMemExportToShareableHandle", static_cast<void*>(&fd), imported, 1, 0ull), 0);
  constexpr int kBufferId = 7;
  ASSERT_EQ(call("cuPointerGetAttribute", static_cast<void*>(&before), kBufferId, second), 0);
  ASSERT_EQ(cuda().cuMemUnmap(second, kSize), 0);
  ASSERT_EQ(cuda().cuMemMap(second, kSize, 0, imported, 0), 0);
  unsigned long long after = 0;
  ASSERT_EQ(call("cuPointerGetAttribute", static_cast<void*>(&after), kBufferId, second), 0);
  EXPECT_NE(after, before);
  EXPECT_EQ(cuda().cuMemUnmap(second, kSize), 0);
  EXPECT_EQ(cuda().cuMemRelease(imported), 0);
  EXPECT_EQ(cuda().cuMemAddressFree(second, kSize), 0);
}

// Like the real driver: the range is the reservation; another allocation has another block id, a remapped one
// the same.
TEST_F(EmulatedMemory, AttributesDistinguishMappingAndReservation) {
  Buffer buffer(Buffer::Kind::mapped, 4 << 20);
  constexpr size_t kSize = 2 << 20;
  const auto attribute_of = [&](int attribute, Address at) {
    unsigned long long value = 0;
    EXPECT_EQ(call("cuPointerGetAttribute", static_cast<void*>(&value), attribute, at), 0);
    return value;
  };
  const Address first = address_of(buffer.data()) / kSize * kSize, second = first + kSize;
  EXPECT_EQ(attribute_of(device::cuda::kAttributeRangeStart, second), first);
  EXPECT_GE(attribute_of(device::cuda::kAttributeRangeSize, second), 2 * kSize);
  EXPECT_EQ(attribute_of(device::cuda::kAttributeMappingBase, second + 1000), second);
  EXPECT_EQ(attribute_of(device::cuda::kAttributeMappingSize, second), kSize);
  const auto block = attribute_of(device::cuda::kAttributeBlockId, second);
  EXPECT_NE(block, attribute_of(device::cuda::kAttributeBlockId, first));
  buffer.replace(1, false);
  EXPECT_EQ(attribute_of(device::cuda::kAttributeBlockId, second), block);
  buffer.replace(1, true);
  EXPECT_NE(attribute_of(device::cuda::kAttributeBlockId, second), block);
}

// Freed addresses are reused by size, but reservations are aligned.
TEST_F(EmulatedMemory, ReservationIsAlignedAlsoAtFreedAddresses) {
  constexpr size_t kSize = 4 << 20;
  Address odd[3] = {}, reserved = 0;
  for (Address& address : odd) ASSERT_EQ(cuda().cuMemAlloc_v2(&address, kSize), 0);
  for (Address& address : odd) EXPECT_EQ(cuda().cuMemFree_v2(address), 0);
  ASSERT_EQ(cuda().cuMemAddressReserve(&reserved, kSize, 0, 0, 0), 0);
  EXPECT_EQ(reserved % (2 << 20), 0u);
  EXPECT_EQ(cuda().cuMemAddressFree(reserved, kSize), 0);
}

}  // namespace
}  // namespace weft::test
