// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/partition_flags.hpp"

#include "device/allocate.hpp"
#include "device/window.hpp"
#include "weft_device.cuh"

namespace weft::p2p {

using device::abi::PartitionTable;

Result<std::unique_ptr<PartitionFlags>> PartitionFlags::create(int partitions) {
  auto current = device::current_context();
  if (!current) return std::move(current).error();
  device::UserStream gpu;
  gpu.context = current->context;
  gpu.device = current->device;
  const size_t bytes = sizeof(PartitionTable) + static_cast<size_t>(partitions) * sizeof(uint64_t);
  auto memory = device::allocate_pinned(gpu, bytes);
  if (!memory) return std::move(memory).error();
  auto* const table = static_cast<PartitionTable*>(*memory);
  table->version = device::abi::kVersion;
  table->partitions = partitions;
  table->timeout_ns = device::kernel_timeout_ns();
  return std::unique_ptr<PartitionFlags>(new PartitionFlags(gpu, table));
}

PartitionFlags::~PartitionFlags() { device::free_pinned(gpu_, table_); }

uint64_t* PartitionFlags::word(int partition) const {
  return reinterpret_cast<uint64_t*>(table_ + 1) + partition;
}

void PartitionFlags::begin() {
  table_->error = table_->cancelled = 0;
  __atomic_store_n(&table_->starts, table_->starts + 1, __ATOMIC_RELEASE);
}

void PartitionFlags::cancel() { __atomic_store_n(&table_->cancelled, 1u, __ATOMIC_RELEASE); }

bool PartitionFlags::marked(int partition) const {
  return __atomic_load_n(word(partition), __ATOMIC_ACQUIRE) == table_->starts;
}

void PartitionFlags::mark(int partition) {
  __atomic_store_n(word(partition), table_->starts, __ATOMIC_RELEASE);
}

}  // namespace weft::p2p
