// SPDX-License-Identifier: BSD-3-Clause
#include <cstring>

#include "device/cuda_test_support.hpp"
#include "programs/memory.hpp"

namespace programs {
namespace {

int device = 0;

}  // namespace

struct Memory::Copy {
  explicit Copy(size_t bytes) : buffer(weft::test::Buffer::Kind::device, bytes, device) {}
  weft::test::Buffer buffer;
};

void init_memory() { device = weft::test::own_device(); }

Memory::Memory(size_t words) : words_(words), copy_(std::make_unique<Copy>(words * sizeof(uint32_t))) {}
Memory::~Memory() = default;

void* Memory::address(size_t first) { return copy_->buffer.data() + first * sizeof(uint32_t); }

void Memory::upload(size_t first, size_t n) {
  const char* const bytes = reinterpret_cast<const char*>(words_.data() + first);
  copy_->buffer.write(std::vector<char>(bytes, bytes + n * sizeof(uint32_t)), first * sizeof(uint32_t));
}

void Memory::download(size_t first, size_t n) {
  const std::vector<char> bytes = copy_->buffer.read(first * sizeof(uint32_t), n * sizeof(uint32_t));
  if (n != 0) std::memcpy(words_.data() + first, bytes.data(), bytes.size());
}

}  // namespace programs
