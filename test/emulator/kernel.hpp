// SPDX-License-Identifier: BSD-3-Clause
// Kernels of the emulated GPU: host functions scheduled cooperatively in turns, under the lock of the world.
#pragma once
#include <cstdint>
#include <memory>

#include "device/cuda/driver_types.hpp"
#include "device/kernel/accumulate.hpp"

namespace emucuda {

struct ContextObject;
struct Operation;

class Kernel {
 public:
  enum class Turn { idle, worked, ended, illegal_address };
  virtual ~Kernel() = default;
  /// Runs one turn; `time` is the kernels' clock in ns.
  virtual Turn turn(uint64_t time) = 0;
  [[nodiscard]] virtual bool is_resident() const { return false; }
  /// A copy of the launch, for the replay of a graph; null: not supported in graphs.
  [[nodiscard]] virtual std::unique_ptr<Kernel> clone() const { return nullptr; }
};

/// A kernel available in modules. `create` copies the parameters.
struct KernelEntry {
  const char* name;
  std::unique_ptr<Kernel> (*create)(ContextObject& context, void** parameters);
};
// data_kernels.cpp
[[nodiscard]] std::unique_ptr<Kernel> create_reduce(ContextObject& context, void** parameters);
[[nodiscard]] std::unique_ptr<Kernel> create_scale(ContextObject& context, void** parameters);
[[nodiscard]] std::unique_ptr<Kernel> create_pack(ContextObject& context, void** parameters);
[[nodiscard]] std::unique_ptr<Kernel> create_pack_tiles(ContextObject& context, void** parameters);
// window.cpp
/// Executes an accumulate operation at once; false: memory not accessible.
[[nodiscard]] bool execute_accumulate(ContextObject& context, const weft::device::kernel::Accumulate& call);
[[nodiscard]] std::unique_ptr<Kernel> create_accumulate(ContextObject& context, void** parameters);
[[nodiscard]] std::unique_ptr<Kernel> create_window_sync(ContextObject& context, void** parameters);
[[nodiscard]] const KernelEntry* find_kernel(const char* name);
/// `weft_enqueue(Batch)`, `weft_enqueue_layouts(Batch)` and `weft_enqueue_small(SmallBatch)`, by the contract
/// of device/kernel/enqueue.hpp.
[[nodiscard]] std::unique_ptr<Kernel> create_enqueue(ContextObject& context, void** parameters);
[[nodiscard]] std::unique_ptr<Kernel> create_enqueue_small(ContextObject& context, void** parameters);

// jacobi.cpp
[[nodiscard]] std::unique_ptr<Kernel> create_sweep(ContextObject& context, void** parameters);
[[nodiscard]] std::unique_ptr<Kernel> create_sweep_norm(ContextObject& context, void** parameters);
[[nodiscard]] std::unique_ptr<Kernel> create_set_columns(ContextObject& context, void** parameters);

// collective.cpp
std::unique_ptr<Kernel> create_collective_ll(ContextObject& context, void** parameters);
std::unique_ptr<Kernel> create_collective_ll128(ContextObject& context, void** parameters);
std::unique_ptr<Kernel> create_stream_ll(ContextObject& context, void** parameters);
std::unique_ptr<Kernel> create_stream_simple(ContextObject& context, void** parameters);
/// Creates the collective of a resident-kernel command; null: memory not accessible.
std::unique_ptr<Kernel> create_call(ContextObject& context, uint64_t slot_configs, const uint32_t* words);
std::unique_ptr<Kernel> create_collective_simple(ContextObject& context, void** parameters);
std::unique_ptr<Kernel> create_collective_direct(ContextObject& context, void** parameters);
std::unique_ptr<Kernel> create_collective_blocks(ContextObject& context, void** parameters);

// pair_blocks.cpp
[[nodiscard]] std::unique_ptr<Kernel> create_pairs(ContextObject& context, void** parameters);

/// Creates the stream operation of a launch. The kernel must belong to `context`, unless that is null. Loads
/// the kernel if necessary.
[[nodiscard]] weft::device::cuda::Code make_launch(const weft::device::cuda::KernelNode& node,
                                                   const ContextObject* context, Operation& operation);

/// EMUCUDA_RESIDENT_KERNEL_EXITS: whether a kernel that may exit early exits now.
[[nodiscard]] bool exits_at_random();

}  // namespace emucuda
