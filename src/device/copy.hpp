// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous copies between any two memory kinds, in Weft's own non-blocking streams of the buffer's own
// context. A completed copy is visible to every later kernel on any stream. Threading: any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/result.hpp"
#include "device/memory.hpp"

namespace weft::device {

/// Which of a context's streams carries a copy: one stream each, so that directions overlap.
/// Copies of one lane and context run in order; nothing orders two lanes.
enum class Lane : uint8_t { in, out, local, aux };
inline constexpr size_t kLanes = 4;

/// What a submitted copy is waited for with; see done(). Movable, allocation-free; dropping it does not
/// cancel the copy.
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
  /// False once done() has said so, and for a ticket of a copy that was complete at submission.
  [[nodiscard]] bool pending() const { return where_ != nullptr; }
  /// Whether a copy engine has it.
  [[nodiscard]] bool by_engine() const { return pending() && by_ == By::engine; }

 private:
  friend struct TicketAccess;
  void swap(Ticket& other) noexcept {
    std::swap(where_, other.where_);
    std::swap(event_, other.event_);
    std::swap(check_at_, other.check_at_);
    std::swap(sequence_, other.sequence_);
    std::swap(by_, other.by_);
  }
  void return_event();
  enum class By : uint8_t { engine, copier, list, pack };
  void* where_ = nullptr;  // the lane's stream object, or the state of the context whose kernels have it
  void* event_ = nullptr;  // only with gpu.completion = event
  uint64_t check_at_ = 0;  // when the stream is next asked for faults, ns of the monotonic clock
  uint32_t sequence_ = 0;
  By by_ = By::engine;
};

/// One piece of a list of copies.
struct Piece {
  void* dst;
  const void* src;
  size_t size;
};

/// Rows of `width` bytes, `height` of them; pitches in bytes, at least `width` and below 2 GiB.
struct Copy2D {
  void* dst;
  size_t dst_pitch;
  const void* src;
  size_t src_pitch;
  size_t width, height;
};

/// Starts a copy of n bytes. The stream is one of the destination's context when that is device memory, else
/// of the source's. Pageable host memory is accepted, but the driver may then block in the call: stage large
/// copies through lease_pinned(). Host to host is done at once. The ranges must not overlap.
[[nodiscard]] Result<Ticket> copy_async(void* dst, const Memory& dst_memory, const void* src,
                                        const Memory& src_memory, size_t n, Lane lane);
/// Starts many copies with a single completion: all into allocations of one context, from memory of one kind.
/// They run in no particular order, in as few submissions as possible. `beside`: copy engines are at work for
/// the same link, which a kernel uses better together with them.
[[nodiscard]] Result<Ticket> copy_pieces_async(const Piece* pieces, size_t count, const Memory& dst_memory,
                                               const Memory& src_memory, Lane lane, bool beside = false);
/// Starts a copy by a copy engine, and writes `value` to `word`, a uint64_t in GPU memory, behind it: a
/// kernel on any GPU that sees it there sees the data. Where the driver does not write it, it is left out.
[[nodiscard]] Result<Ticket> copy_told_async(void* dst, const Memory& dst_memory, const void* src,
                                             const Memory& src_memory, size_t n, Lane lane, uint64_t word,
                                             uint64_t value);
/// Starts a strided copy. Errc::unsupported for a pitch that the hardware cannot do: use pieces then.
[[nodiscard]] Result<Ticket> copy_2d_async(const Copy2D& copy, const Memory& dst_memory,
                                           const Memory& src_memory, Lane lane);
/// True once the copy is complete; the ticket is then empty. Never blocks, but for what a full GPU does not
/// pack. An error when the GPU faulted; Errc::again: what was awaited did not come in time (pack.hpp).
[[nodiscard]] Result<bool> done(Ticket& ticket);
/// Polls done() to completion, giving the CPU away after a while.
[[nodiscard]] Status wait(Ticket& ticket);
/// copy_async() and wait(), for small or cold uses.
[[nodiscard]] Status copy(void* dst, const Memory& dst_memory, const void* src, const Memory& src_memory,
                          size_t n);

/// Other processes of the job use this device too: no kernel of Weft stays resident on it.
void note_shared(int device);

/// While this process is in MPI with an active operation on `memory`: what serves small copies in its context
/// stays awake for those that follow.
void keep_awake(const Memory& memory);

/// Who may carry one copy of this size between places that a kernel reaches, by the settings: the copier
/// while copies come close together, by so many blocks (0: never); a list kernel when several go out
/// together.
struct Carriers {
  uint32_t copier_blocks;
  bool list;
};
[[nodiscard]] Carriers carriers_of(size_t bytes);

/// What the copier of the context of `memory` has done: copies served, lives, copies taken back.
struct CopierCounters {
  uint64_t served = 0, lives = 0, taken_back = 0;
};
[[nodiscard]] CopierCounters copier_counters(const Memory& memory);
/// The same for lists of copies that went out as one kernel.
struct ListCounters {
  uint64_t launched = 0, taken_back = 0;
};
[[nodiscard]] ListCounters list_counters(const Memory& memory);

/// How completion is seen in the context of `memory` now: "event", "flag", "query" or "hybrid"; "none" before
/// its first copy.
[[nodiscard]] const char* completion_method(const Memory& memory);

}  // namespace weft::device
