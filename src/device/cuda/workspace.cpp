// SPDX-License-Identifier: BSD-3-Clause
#include "device/workspace.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "device/ipc.hpp"

namespace weft::device {
namespace {

config::Size setting_bytes{
    "gpu.workspace_bytes",
    size_t{512} << 20,
    0,
    size_t{1} << 40,
    "Maximum GPU memory in bytes for intermediate results of reductions and segment tables of datatypes.",
    "GPU memory is scarce (smaller), or reductions fall back to the host for lack of memory (larger)"};

constexpr size_t kMinBlockBytes = size_t{64} << 10;
constexpr size_t kMaxWasteFactor = 8;  // a block serves requests of at least size / factor

}  // namespace

struct Workspace::Block {
  Memory memory;
  bool leased = false;
  bool gone = false;  // freed while leased
};

struct Workspace::Pool {
  std::vector<std::unique_ptr<Block>> blocks;

  [[nodiscard]] size_t bytes() const {
    size_t sum = 0;
    for (const auto& block : blocks) sum += block->gone ? 0 : block->memory.size;
    return sum;
  }
  /// The smallest suitable free block within the waste limit.
  [[nodiscard]] Block* find(const Memory& near, size_t bytes) const {
    Block* best = nullptr;
    for (const auto& block : blocks) {
      const Memory& memory = block->memory;
      const bool here =
          memory.device == near.device && (near.context == nullptr || near.context == memory.context);
      if (block->leased || !here || memory.size < bytes) continue;
      if (memory.size > kMinBlockBytes && memory.size / kMaxWasteFactor > bytes) continue;
      if (best == nullptr || memory.size < best->memory.size) best = block.get();
    }
    return best;
  }
  void drop(const Block* block) {
    if (!block->gone) free_scratch(block->memory);
    std::erase_if(blocks, [&](const auto& held) { return held.get() == block; });
  }
  /// Frees unused blocks until `more` bytes fit below the cap; false if they do not fit.
  bool evict_for(size_t more) {
    while (bytes() + more > setting_bytes) {
      const auto unused =
          std::find_if(blocks.begin(), blocks.end(), [](const auto& block) { return !block->leased; });
      if (unused == blocks.end()) return false;
      drop(unused->get());
    }
    return true;
  }
};

Workspace::Pool& Workspace::pool() {
  static auto* const instance = new Pool;
  return *instance;
}

Workspace::~Workspace() {
  if (block_ == nullptr) return;
  block_->leased = false;
  if (block_->gone) pool().drop(block_);
}

const Memory& Workspace::memory() const { return block_->memory; }

bool Workspace::alive() const { return block_ != nullptr && !block_->gone && device::alive(block_->memory); }

Result<Workspace> Workspace::lease(const Memory& near, size_t bytes) {
  Block* block = pool().find(near, bytes);
  while (block != nullptr && !device::alive(block->memory)) {
    pool().drop(block);
    block = pool().find(near, bytes);
  }
  if (block == nullptr) {
    const size_t size = std::max(kMinBlockBytes, std::bit_ceil(bytes));
    if (!pool().evict_for(size))
      return Error(Errc::unsupported, std::to_string(size) +
                                          " bytes of GPU workspace memory exceed "
                                          "WEFT_GPU_WORKSPACE_BYTES: raise it");
    auto memory = allocate_scratch(near, size);
    if (!memory) return std::move(memory).error();
    pool().blocks.push_back(std::make_unique<Block>(Block{*memory}));
    block = pool().blocks.back().get();
  }
  block->leased = true;
  Workspace workspace;
  workspace.block_ = block;
  return workspace;
}

void Workspace::close() {
  for (const auto& block : pool().blocks) {
    free_scratch(block->memory);
    block->gone = true;
  }
  std::erase_if(pool().blocks, [](const auto& block) { return !block->leased; });
}

}  // namespace weft::device
