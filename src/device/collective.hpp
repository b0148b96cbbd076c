// SPDX-License-Identifier: BSD-3-Clause
// Launches collective kernels (kernel/collective.hpp) and detects their completion. Threading: any thread;
// the owner of a slot serialises its calls.
#pragma once
#include <cstdint>
#include <utility>

#include "base/result.hpp"
#include "device/kernel/blocks.hpp"
#include "device/kernel/collective.hpp"
#include "device/kernel/direct.hpp"
#include "device/kernel/pair_blocks.hpp"
#include "device/memory.hpp"
#include "device/pack.hpp"

namespace weft::device {

/// Protocol of a collective kernel. ll and ll128: flags within the data; simple: flags after each chunk;
/// direct: loads and stores on the user buffers of all ranks.
enum class Protocol : uint8_t { ll, ll128, simple, direct };

/// The largest word, in bytes, in which a kernel can move `bytes` bytes of a shape.
[[nodiscard]] uint32_t word_of(const Shape& shape, uint64_t bytes);
/// `bytes` bytes of a shape, in words of `word` bytes, as the block of a message that begins at byte `first`.
/// Errc::unsupported for shapes beyond the kernel's 32-bit counters.
[[nodiscard]] Result<kernel::Block> block_of(const Shape& shape, uint64_t bytes, uint32_t word,
                                             uint64_t first);
/// The layout of `bytes` bytes of a shape without table, in words of `word` bytes. Errors as block_of().
[[nodiscard]] Result<kernel::enqueue::Runs> strided_runs(const Shape& shape, uint64_t bytes, uint32_t word);

/// Size in bytes of the GPU memory into which the other ranks of a communicator push (kernel::RegionLayout).
[[nodiscard]] size_t collective_region_bytes();

/// Launch slot of one communicator on one GPU, for one collective at a time. Returns to its context on
/// destruction.
class CollectiveSlot {
 public:
  CollectiveSlot() = default;
  CollectiveSlot(CollectiveSlot&& other) noexcept { swap(other); }
  CollectiveSlot& operator=(CollectiveSlot&& other) noexcept {
    CollectiveSlot(std::move(other)).swap(*this);
    return *this;
  }
  ~CollectiveSlot();
  /// Acquires a slot in the context of `near`. Errc::unsupported, with the reason, if kernels that wait for
  /// each other cannot run; Errc::again if all slots are in use.
  [[nodiscard]] static Result<CollectiveSlot> open(const Memory& near);

  /// Launches a kernel for `call`; fills in its resume state and status address.
  [[nodiscard]] Status launch(kernel::Collective& call, Protocol protocol, uint32_t blocks, uint32_t threads);
  [[nodiscard]] Status launch(kernel::Direct& call, uint32_t blocks, uint32_t threads);
  [[nodiscard]] Status launch(kernel::Blocks& call, uint32_t blocks, uint32_t threads);
  [[nodiscard]] Status launch(kernel::PairBlocks& call);
  /// Sets the fields that all calls share: regions, rank, size and timeout. Call before the first
  /// submit_to_resident_kernel().
  void set_config(const kernel::Collective& shared);
  /// Submits a small call for `blocks` blocks of the resident kernel. Returns false if the resident kernel is
  /// not running: launch the call.
  [[nodiscard]] bool submit_to_resident_kernel(const kernel::Regular& call, Protocol protocol, uint32_t epoch,
                                               uint32_t blocks);
  /// Records a call that could use `blocks` blocks of the resident kernel but is launched.
  void record_resident_demand(uint32_t blocks);
  /// Starts the resident kernel if calls arrive in quick succession. Call after launching such a call.
  void start_resident_kernel();
  /// Whether the resident kernel runs with all its blocks.
  [[nodiscard]] bool resident_kernel_running() const;
  enum class Outcome : uint8_t { running, complete, timed_out, not_started };
  /// State of the last call. `timed_out`: the kernel waited too long for other ranks; launch it again with
  /// the next launch number. `not_started`: the resident kernel ended first; launch the call with number 0.
  /// An error if the GPU faulted.
  [[nodiscard]] Result<Outcome> poll();
  /// Forgets the outcome of the last call, whose epoch may come again.
  void clear_outcome();
  /// Whether the kernels can access buffers in this memory.
  [[nodiscard]] bool can_access(const Memory& memory) const;

 private:
  /// `call`: the part of the parameter with resume state, status, epoch and launch.
  template <class Call>
  [[nodiscard]] Status start(Call& call, uint8_t kernel, void* parameter, uint32_t blocks, uint32_t threads);
  void swap(CollectiveSlot& other) noexcept {
    std::swap(queue_, other.queue_);
    std::swap(index_, other.index_);
    std::swap(expected_status_, other.expected_status_);
    std::swap(fault_check_at_, other.fault_check_at_);
    std::swap(command_, other.command_);
  }
  void* queue_ = nullptr;
  uint32_t index_ = 0;
  uint64_t expected_status_ = 0;  // status word of the last launch, without its lowest bit
  uint32_t command_ = 0;          // command number of the last call; 0: launched
  uint64_t fault_check_at_ = 0;   // monotonic ns of the next query for stream errors
};

}  // namespace weft::device
