// SPDX-License-Identifier: BSD-3-Clause
#include "device/pool.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "base/assert.hpp"
#include "base/config.hpp"
#include "base/counters.hpp"
#include "base/log.hpp"
#include "device/cuda/context.hpp"
#include "device/cuda/deferred.hpp"
#include "device/ipc.hpp"

namespace weft::device {
namespace {

config::Size setting_bytes{
    "gpu.pool_bytes",
    size_t{1} << 30,
    0,
    size_t{1} << 40,
    "Maximum GPU memory in bytes that a process takes for bounce buffers, regions of collectives, "
    "intermediate "
    "results of reductions and segment tables of datatypes; allocated on first use.",
    "GPU memory is scarce (smaller), or slow paths report that the cap is reached (larger)"};

counters::Counter held("gpu.pool_bytes", counters::Unit::bytes,
                       "GPU memory that the library has allocated, leased or not", counters::Kind::level);
counters::Counter leased("gpu.pool_leases", counters::Unit::events, "Leases of workspace memory on a GPU");
counters::Counter allocations("gpu.pool_allocations", counters::Unit::events,
                              "Allocations of GPU memory for the library itself");
counters::Counter refusals("gpu.pool_refusals", counters::Unit::events,
                           "Allocations of GPU memory refused because of the cap gpu.pool_bytes");

constexpr size_t kMinBlockBytes = size_t{64} << 10;
constexpr size_t kMaxWasteFactor = 8;  // a block serves requests of at least size / factor

}  // namespace

struct Workspace::Block {
  Memory memory;
  bool leased = false;
  bool gone = false;  // freed while leased
};

/// The workspace blocks; all other memory is counted only.
struct Workspace::Pool {
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<ScratchCache*> caches;

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
  /// Frees unused blocks and memory of caches until `more` bytes fit below the cap; false if they do not fit.
  bool evict_for(size_t more) {
    while (held.value() + more > setting_bytes) {
      const auto unused =
          std::find_if(blocks.begin(), blocks.end(), [](const auto& block) { return !block->leased; });
      if (unused != blocks.end())
        drop(unused->get());
      else if (std::none_of(caches.begin(), caches.end(), [](ScratchCache* cache) { return cache->evict(); }))
        return false;
    }
    return true;
  }
};

Workspace::Pool& Workspace::pool() {
  static auto* const instance = new Pool;
  return *instance;
}

ScratchCache::ScratchCache() { Workspace::pool().caches.push_back(this); }
ScratchCache::~ScratchCache() { std::erase(Workspace::pool().caches, this); }

void Workspace::release() {
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
    auto memory = allocate_scratch(near, std::max(kMinBlockBytes, std::bit_ceil(bytes)));
    if (!memory) return std::move(memory).error();
    pool().blocks.push_back(std::make_unique<Block>(Block{*memory}));
    block = pool().blocks.back().get();
  }
  block->leased = true;
  leased.add_shared();
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

Result<Memory> allocate_scratch(const Memory& near, size_t bytes) {
  if (!Workspace::pool().evict_for(bytes)) {
    refusals.add_shared();
    return Error(Errc::unsupported,
                 std::to_string(bytes) + " bytes of GPU memory exceed WEFT_GPU_POOL_BYTES: raise it");
  }
  auto context = cuda::context_of(near);
  if (!context) return std::move(context).error();
  const cuda::CurrentContext current(*context);
  if (current.code() != cuda::kSuccess)
    return cuda::failure(current.code(), "cuCtxPushCurrent", "GPU scratch memory cannot be allocated");
  const cuda::RelaxedCapture relaxed;
  cuda::Address address = 0;
  WEFT_CUDA_TRY(mem_alloc, "GPU scratch memory cannot be allocated", &address, bytes);
  const Memory memory = classify(reinterpret_cast<void*>(address));
  if (memory.kind != MemoryKind::cuda_device) {
    cuda::driver().mem_free(address);
    return Error(Errc::intern, "GPU scratch memory is not recognised as device memory");
  }
  held.add_shared(memory.size);
  allocations.add_shared();
  return memory;
}

namespace {

void free_unused_scratch(const Memory& scratch) {
  if (scratch.context == nullptr || !alive(scratch)) return;
  const cuda::CurrentContext current(scratch.context);
  if (current.code() != cuda::kSuccess) return;
  const cuda::RelaxedCapture relaxed;
  const cuda::Code code = cuda::driver().mem_free(scratch.base);
  if (code != cuda::kSuccess && code != cuda::kInvalidValue && !cuda::gone(code))
    log::write(log::Level::warn, "GPU scratch memory was not freed (%s)", cuda::describe(code).c_str());
}

}  // namespace

void free_scratch(const Memory& scratch) {
  WEFT_ASSERT(held.value() >= scratch.size);  // D5
  held.add_shared(0 - scratch.size);
  cuda::release_or_defer([scratch] { free_unused_scratch(scratch); });
}

}  // namespace weft::device
