// SPDX-License-Identifier: BSD-3-Clause
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coll/test_memory.hpp"
#include "device/cuda_test_support.hpp"

namespace expect {
namespace {

using weft::test::Buffer;

std::vector<std::pair<reference::Field*, std::unique_ptr<Buffer>>> copies;
int device = 0;

Buffer::Kind kind_of(const std::string& name, unsigned turn) {
  constexpr Buffer::Kind kKinds[] = {Buffer::Kind::device, Buffer::Kind::host, Buffer::Kind::pinned,
                                     Buffer::Kind::managed, Buffer::Kind::pool};
  for (const Buffer::Kind kind : kKinds)
    if (name == weft::test::name(kind)) return kind;
  if (name != "mixed") std::abort();
  return kKinds[turn % std::size(kKinds)];
}

}  // namespace

void init_memory() { device = weft::test::own_device(); }

void* buffer_for(reference::Field& field) {
  static const char* const name = std::getenv("TEST_MEMORY");
  static unsigned turn = static_cast<unsigned>(device);
  const auto kind = kind_of(name == nullptr ? "device" : name, turn++);
  copies.emplace_back(&field, std::make_unique<Buffer>(kind, std::max<size_t>(field.bytes(), 4), device));
  return copies.back().second->data();
}

FieldCopies::~FieldCopies() { copies.clear(); }

void FieldCopies::upload() const {
  for (const auto& [field, copy] : copies) {
    const char* bytes = reinterpret_cast<const char*>(field->data());
    copy->write(std::vector<char>(bytes, bytes + field->bytes()));
  }
}

void FieldCopies::download() const {
  for (const auto& [field, copy] : copies) {
    const std::vector<char> bytes = copy->read();
    if (field->bytes() != 0) std::memcpy(field->data(), bytes.data(), field->bytes());
  }
}

}  // namespace expect
