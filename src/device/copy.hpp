// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous copies between any two memory kinds, in Weft's non-blocking streams of the buffer's context.
// A completed copy is visible to every later kernel on any stream. Threading: any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/result.hpp"
#include "device/memory.hpp"

namespace weft::device {

/// Selects one of the streams of a context, so that directions overlap. Copies of one role and context run in
/// order; streams of different roles are unordered.
enum class StreamRole : uint8_t { in, out, local, aux };
inline constexpr size_t kStreamRoles = 4;

/// Handle of a submitted copy, polled with done(). Movable; no allocation. Destruction does not cancel the
/// copy.
class Ticket {
 public:
  Ticket() = default;
  Ticket(Ticket&& other) noexcept { swap(other); }
  Ticket& operator=(Ticket&& other) noexcept {
    Ticket(std::move(other)).swap(*this);
    return *this;
  }
  ~Ticket() {
    if (event_ != nullptr) [[unlikely]]
      return_event();
  }
  /// False after done() returned true, and for a copy that was complete at submission.
  [[nodiscard]] bool pending() const { return owner_ != nullptr; }
  /// Whether a copy engine executes the copy.
  [[nodiscard]] bool on_copy_engine() const { return pending() && executor_ == Executor::copy_engine; }

 private:
  friend struct TicketAccess;
  void swap(Ticket& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(event_, other.event_);
    std::swap(fault_check_at_, other.fault_check_at_);
    std::swap(sequence_, other.sequence_);
    std::swap(executor_, other.executor_);
  }
  void return_event();
  enum class Executor : uint8_t { copy_engine, resident_kernel, batch_copy, pack_kernel };
  void* owner_ = nullptr;        // TrackedStream of a copy engine, else WorkQueue
  void* event_ = nullptr;        // only with gpu.completion = event
  uint64_t fault_check_at_ = 0;  // monotonic ns of the next query for stream errors
  uint32_t sequence_ = 0;
  Executor executor_ = Executor::copy_engine;
};

/// One copy of a batch.
struct CopyOp {
  void* dst;
  const void* src;
  size_t size;
};

/// Starts a copy of n bytes, in a stream of the destination's context if that is device memory, else of the
/// source's. With pageable host memory the driver may block in the call: stage large copies through
/// lease_pinned(). Host to host copies complete at once. The ranges must not overlap.
[[nodiscard]] Result<Ticket> copy_async(void* dst, const Memory& dst_memory, const void* src,
                                        const Memory& src_memory, size_t n, StreamRole role);
/// Starts a batch of copies with a single completion: all into allocations of one context, from memory of one
/// kind. The copies are unordered and use as few submissions as possible. `engines_busy`: copy engines
/// already use the same link, so larger copies go to a kernel, which shares the link better. `chain`:
/// successive copies of one chain need not be detected one by one, which spares the copy engine a pause of
/// some microseconds after each; all are detected with the last.
[[nodiscard]] Result<Ticket> copy_batch_async(const CopyOp* copies, size_t count, const Memory& dst_memory,
                                              const Memory& src_memory, StreamRole role,
                                              bool engines_busy = false, const void* chain = nullptr);
/// Starts a copy by a copy engine, followed by a write of `value` to `word`, a uint64_t in GPU memory. A
/// kernel on any GPU that reads the value also reads the data. Without driver support the word is not
/// written.
[[nodiscard]] Result<Ticket> copy_signal_async(void* dst, const Memory& dst_memory, const void* src,
                                               const Memory& src_memory, size_t n, StreamRole role,
                                               uint64_t word, uint64_t value);
/// Returns true once the copy is complete; the ticket is then empty. Blocks only while a cancelled pack
/// kernel is replaced by copies inside one GPU. An error if the GPU faulted; Errc::again: timeout of a
/// TileSync (pack.hpp).
[[nodiscard]] Result<bool> done(Ticket& ticket);
/// Polls done() until completion; yields the CPU after a number of polls.
[[nodiscard]] Status wait(Ticket& ticket);
/// copy_async() followed by wait(), for small or infrequent copies.
[[nodiscard]] Status copy(void* dst, const Memory& dst_memory, const void* src, const Memory& src_memory,
                          size_t n);

/// Records that `ranks` ranks of the job, this one included, use a device. Without MPS no resident kernel and
/// no copy kernel runs there; under MPS the resident kernel leaves blocks to the other ranks.
void note_shared_device(int device, uint32_t ranks);
/// The largest number of ranks recorded for a device, at least 1.
[[nodiscard]] uint32_t ranks_on_device(int device);
/// Whether kernels of several ranks run side by side on a device instead of in time slices
/// (gpu.kernels_on_shared_gpu): under MPS.
[[nodiscard]] bool kernels_run_side_by_side(int device);

/// Keeps the resident kernel in the context of `memory` running for the next small copies. Call repeatedly
/// while this process is in MPI with an active operation on `memory`.
void keep_running(const Memory& memory);

/// Kernels that may execute a copy of a given size between buffers that a kernel can access, by the settings.
struct KernelOptions {
  uint32_t resident_blocks;  ///< blocks of the resident kernel, for copies in quick succession; 0: never
  bool batch_copy;           ///< the batch copy kernel, for several copies submitted together
};
[[nodiscard]] KernelOptions kernel_options_for(size_t bytes);

/// Completion method in the context of `memory`: "event", "flag", "query" or "hybrid"; "none" without a GPU.
[[nodiscard]] const char* completion_method(const Memory& memory);

}  // namespace weft::device
