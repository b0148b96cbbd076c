// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "device/cuda_test_support.hpp"
#include "rma/oracle/memory.hpp"

namespace oracle {
namespace {

using weft::test::Buffer;

int device = 0;

class DeviceMemory final : public Memory {
 public:
  DeviceMemory(Buffer::Kind kind, size_t bytes) : buffer_(kind, std::max<size_t>(bytes, 64), device) {}
  char* data() override { return buffer_.data(); }
  void write(size_t at, const char* from, size_t bytes) override {
    buffer_.write(std::vector<char>(from, from + bytes), at);
  }
  void read(size_t at, char* to, size_t bytes) override {
    const std::vector<char> found = buffer_.read(at, bytes);
    std::copy(found.begin(), found.end(), to);
  }

 private:
  Buffer buffer_;
};

}  // namespace

void init_memory() { device = weft::test::own_device(); }

std::unique_ptr<Memory> allocate_memory(size_t bytes) {
  constexpr Buffer::Kind kKinds[] = {Buffer::Kind::device, Buffer::Kind::host, Buffer::Kind::pinned,
                                     Buffer::Kind::managed, Buffer::Kind::pool};
  static const char* const name = std::getenv("TEST_MEMORY");
  static unsigned turn = static_cast<unsigned>(device);
  Buffer::Kind kind = kKinds[turn++ % std::size(kKinds)];
  for (const Buffer::Kind each : kKinds)
    if (name != nullptr && weft::test::name(each) == std::string(name)) kind = each;
  return std::make_unique<DeviceMemory>(kind, bytes);
}

}  // namespace oracle
