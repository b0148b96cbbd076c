// SPDX-License-Identifier: BSD-3-Clause
#include <cstring>
#include <vector>

#include "rma/oracle/memory.hpp"

namespace oracle {
namespace {

class HostMemory final : public Memory {
 public:
  explicit HostMemory(size_t bytes) : bytes_(bytes + kAlignment) {}
  char* data() override {
    const size_t over = reinterpret_cast<size_t>(bytes_.data()) % kAlignment;
    return bytes_.data() + (over == 0 ? 0 : kAlignment - over);
  }
  void write(size_t at, const char* from, size_t bytes) override { std::memcpy(data() + at, from, bytes); }
  void read(size_t at, char* to, size_t bytes) override { std::memcpy(to, data() + at, bytes); }

 private:
  static constexpr size_t kAlignment = 64;
  std::vector<char> bytes_;
};

}  // namespace

void init_memory() {}

std::unique_ptr<Memory> allocate_memory(size_t bytes) { return std::make_unique<HostMemory>(bytes); }

}  // namespace oracle
