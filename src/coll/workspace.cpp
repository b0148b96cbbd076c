// SPDX-License-Identifier: BSD-3-Clause
// The pool of GPU memory for reductions, and who uses it.
#include "coll/workspace.hpp"

#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "device/ipc.hpp"

namespace weft::coll {
namespace {

config::Size least_bytes{
    "coll.gpu_reduce_min", 16 << 10, 0, size_t{1} << 40,
    "bytes of a vector in GPU memory from which on a schedule reduces it by kernels; below, "
    "messages between host copies are quicker"};
config::Size most_bytes{"coll.gpu_workspace", size_t{512} << 20, 0, size_t{1} << 40,
                        "GPU memory that reductions keep for intermediate results, at most"};

constexpr size_t kLeastBlock = size_t{1} << 20;
constexpr size_t kWaste = 8;  // a block is used for what is at least such a part of it

/// What counts in this process is memory that a kernel on the GPU of `near` reaches.
bool reached(const device::Memory& near, const Operand& operand) {
  return operand.classified && device::can_reduce(near, operand.memory);
}

}  // namespace

device::Reduction reduction_of(const core::Op& op, const datatype::Datatype& type) {
  const auto basic = type.basic();
  if (op.user || !type.predefined() || !basic) return {};
  return device::reduction_of(op.kind, *basic);
}

const char* choose_gpu(Call& call) {
  call.on_gpu = false;
  if (!call.reduction()) return "";
  const bool send = !call.in_place, recv = call.in_place || call.results > 0;
  if (!(send && call.send.on_device()) && !(recv && call.recv.on_device())) return "";
  const int64_t size = call.recv.type->size();
  if (static_cast<uint64_t>(call.send.count * size) < least_bytes) return "";
  if (call.inter()) return "it is one between two groups";
  if (!reduction_of(*call.op, *call.recv.type).defined())
    return "kernels do not have this operation on this type";
  const device::Memory& near = recv && call.recv.on_device() ? call.recv.memory : call.send.memory;
  if ((send && !reached(near, call.send)) || (recv && !reached(near, call.recv)))
    return "a kernel on the GPU of one operand does not reach the other";
  call.on_gpu = true;
  call.gpu = near;
  return "";
}

struct Workspace::Block {
  device::Memory memory;
  bool leased = false;
};

struct Workspace::Pool {
  std::vector<std::unique_ptr<Block>> blocks;

  [[nodiscard]] size_t bytes() const {
    size_t sum = 0;
    for (const auto& block : blocks) sum += block->memory.size;
    return sum;
  }
  /// The smallest free block that does, without too much waste.
  [[nodiscard]] Block* find(const device::Memory& near, size_t bytes) const {
    Block* best = nullptr;
    for (const auto& block : blocks) {
      const device::Memory& memory = block->memory;
      const bool here =
          memory.device == near.device && (near.context == nullptr || near.context == memory.context);
      if (block->leased || !here || memory.size < bytes) continue;
      if (memory.size > kLeastBlock && memory.size / kWaste > bytes) continue;
      if (best == nullptr || memory.size < best->memory.size) best = block.get();
    }
    return best;
  }
  void drop(const Block* block) {
    device::free_scratch(block->memory);
    std::erase_if(blocks, [&](const auto& held) { return held.get() == block; });
  }
  /// Frees unused blocks until `bytes` more are within the cap; false when they cannot be.
  bool make_room(size_t more) {
    while (bytes() + more > most_bytes) {
      const Block* unused = nullptr;
      for (const auto& block : blocks)
        if (!block->leased) unused = block.get();
      if (unused == nullptr) return false;
      drop(unused);
    }
    return true;
  }
};

Workspace::Pool& Workspace::pool() {
  static auto* const instance = new Pool;
  return *instance;
}

Workspace::~Workspace() {
  if (block_ != nullptr) block_->leased = false;
}

const device::Memory& Workspace::memory() const { return block_->memory; }

Result<Workspace> Workspace::lease(const device::Memory& near, size_t bytes) {
  Workspace workspace;
  Block* block = pool().find(near, bytes);
  while (block != nullptr && !device::alive(block->memory)) {  // its context was reset
    pool().drop(block);
    block = pool().find(near, bytes);
  }
  if (block == nullptr) {
    const size_t size = std::max(kLeastBlock, std::bit_ceil(bytes));
    if (!pool().make_room(size))
      return Error(Errc::unsupported, std::to_string(size) +
                                          " bytes of GPU memory for intermediate results are "
                                          "beyond WEFT_COLL_GPU_WORKSPACE: raise it");
    auto memory = device::allocate_scratch(near, size);
    if (!memory) return std::move(memory).error();
    pool().blocks.push_back(std::make_unique<Block>(Block{*memory}));
    block = pool().blocks.back().get();
  }
  block->leased = true;
  workspace.block_ = block;
  return workspace;
}

void Workspace::close() {
  while (!pool().blocks.empty()) pool().drop(pool().blocks.back().get());
}

}  // namespace weft::coll
