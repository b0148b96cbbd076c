// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coll/test_memory.hpp"
#include "device/cuda_test_support.hpp"

namespace expect {
namespace {

using weft::test::Buffer;

/// Memory and its kind; nothing is freed while it waits for the next user.
struct Block {
  Buffer::Kind kind;
  std::unique_ptr<Buffer> buffer;
};

constexpr Buffer::Kind kMixedKinds[] = {Buffer::Kind::device, Buffer::Kind::host, Buffer::Kind::pinned,
                                        Buffer::Kind::managed, Buffer::Kind::pool};
constexpr size_t kMaxIdle = 6;

std::string memory;
bool reuses = false;
std::deque<Block> idle;
std::vector<std::pair<reference::Field*, Block>> unowned;
int device = 0;
unsigned turn = 0;

Buffer::Kind next_kind() {
  if (memory == "mixed") return kMixedKinds[turn % std::size(kMixedKinds)];
  for (const Buffer::Kind kind :
       {Buffer::Kind::device, Buffer::Kind::host, Buffer::Kind::pinned, Buffer::Kind::managed,
        Buffer::Kind::pool, Buffer::Kind::mapped, Buffer::Kind::unshared})
    if (memory == weft::test::name(kind)) return kind;
  std::abort();
}

Block take(size_t bytes) {
  const Buffer::Kind kind = next_kind();
  const auto fits = [&](const Block& block) { return block.kind == kind && block.buffer->size() >= bytes; };
  const auto found = std::ranges::find_if(idle, fits);
  if (++turn % 2 == 0 || found == idle.end())
    return {kind, std::make_unique<Buffer>(kind, std::max<size_t>(bytes, 4), device)};
  Block block = std::move(*found);
  idle.erase(found);
  return block;
}

}  // namespace

struct FieldCopies::Copy {
  reference::Field* field;
  Block block;
};

void init_memory() {
  device = weft::test::own_device();
  turn = static_cast<unsigned>(device);
  const char* const name = std::getenv("TEST_MEMORY");
  memory = name == nullptr ? "device" : name;
}

void use_memory(const char* name, bool reused) {
  memory = name;
  reuses = reused;
  if (!reuses) idle.clear();
}

void* buffer_for(reference::Field& field) {
  unowned.emplace_back(&field, take(field.bytes()));
  return unowned.back().second.buffer->data();
}

FieldCopies::FieldCopies() = default;

FieldCopies::~FieldCopies() {
  for (const auto& copy : copies_)
    if (reuses) idle.push_back(std::move(copy->block));
  while (idle.size() > kMaxIdle) idle.pop_front();
}

void FieldCopies::upload() {
  for (auto& [field, block] : unowned)
    copies_.push_back(std::make_unique<Copy>(Copy{field, std::move(block)}));
  unowned.clear();
  for (const auto& copy : copies_) {
    const char* bytes = reinterpret_cast<const char*>(copy->field->data());
    copy->block.buffer->write(std::vector<char>(bytes, bytes + copy->field->bytes()));
  }
}

void FieldCopies::download() const {
  for (const auto& copy : copies_) {
    const size_t size = copy->field->bytes();
    if (size != 0) std::memcpy(copy->field->data(), copy->block.buffer->read(0, size).data(), size);
  }
}

}  // namespace expect
