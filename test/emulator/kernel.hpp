// SPDX-License-Identifier: BSD-3-Clause
// What runs on the emulated GPU: host functions that get turns, under the lock of the world, until they end.
#pragma once
#include <cstdint>
#include <memory>

#include "device/cuda/driver_types.hpp"

namespace emucuda {

struct ContextObject;
struct Operation;

class Kernel {
 public:
  enum class Turn { idle, worked, ended, illegal_address };
  virtual ~Kernel() = default;
  /// One turn; `time` is the kernels' clock in ns.
  virtual Turn turn(uint64_t time) = 0;
  [[nodiscard]] virtual bool is_copier() const { return false; }
  /// The same launch once more, for a graph that is replayed; null: not to be had in graphs.
  [[nodiscard]] virtual std::unique_ptr<Kernel> again() const { return nullptr; }
};

/// A kernel that modules have. `create` copies the parameters.
struct KernelEntry {
  const char* name;
  std::unique_ptr<Kernel> (*create)(ContextObject& context, void** parameters);
};
/// Those that work on data: data_kernels.cpp.
[[nodiscard]] std::unique_ptr<Kernel> create_reduce(ContextObject& context, void** parameters);
[[nodiscard]] std::unique_ptr<Kernel> create_pack(ContextObject& context, void** parameters);
[[nodiscard]] std::unique_ptr<Kernel> create_pack_tiles(ContextObject& context, void** parameters);
[[nodiscard]] const KernelEntry* find_kernel(const char* name);
/// `weft_enqueue(Batch)` and `weft_enqueue_few(Few)`, by the contract of device/kernel/enqueue.hpp.
[[nodiscard]] std::unique_ptr<Kernel> create_enqueue(ContextObject& context, void** parameters);
[[nodiscard]] std::unique_ptr<Kernel> create_enqueue_few(ContextObject& context, void** parameters);

// collective.cpp
std::unique_ptr<Kernel> create_collective_packets(ContextObject& context, void** parameters);
std::unique_ptr<Kernel> create_collective_lines(ContextObject& context, void** parameters);
std::unique_ptr<Kernel> create_stream_packets(ContextObject& context, void** parameters);
std::unique_ptr<Kernel> create_stream_blocks(ContextObject& context, void** parameters);
/// The collective that a copier's command means; null: its memory is not there.
std::unique_ptr<Kernel> create_call(ContextObject& context, uint64_t homes, const uint32_t* words);
std::unique_ptr<Kernel> create_collective_blocks(ContextObject& context, void** parameters);
std::unique_ptr<Kernel> create_collective_direct(ContextObject& context, void** parameters);

/// What a launch puts into a stream of the kernel's context, which is `context` unless that is null. The
/// kernel is loaded now if it has not been.
[[nodiscard]] weft::device::cuda::Code make_launch(const weft::device::cuda::KernelNode& node,
                                                   const ContextObject* context, Operation& operation);

/// By EMUCUDA_COPIER_EXITS: whether a kernel that may leave does so now.
[[nodiscard]] bool leaves_at_random();

}  // namespace emucuda
