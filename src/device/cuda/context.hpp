// SPDX-License-Identifier: BSD-3-Clause
// Per-context state: Weft's streams, completion flags, events and pinned chunks, created on first use. Looked
// up by (context, unique id), which distinguishes a new context at a reused address.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/result.hpp"
#include "device/copy.hpp"
#include "device/cuda/batch_copy.hpp"
#include "device/cuda/collective_slots.hpp"
#include "device/cuda/data_kernels.hpp"
#include "device/cuda/driver.hpp"
#include "device/cuda/kernels.hpp"
#include "device/cuda/launcher.hpp"
#include "device/cuda/pack_queue.hpp"
#include "device/cuda/resident_kernel.hpp"
#include "device/memory.hpp"

namespace weft::device::cuda {

/// Completion detection. `hybrid`: stream query for the last copy; flags, written before the next copy, for
/// earlier ones.
enum class Completion : int { automatic, event, flag, query, hybrid };

struct State;

/// One of Weft's streams and its completion tracking.
struct TrackedStream {
  std::mutex mutex;  // orders submissions with their sequence numbers
  State* state = nullptr;
  Stream stream = nullptr;  // written once, under the mutex
  Completion method = Completion::automatic;
  std::atomic<uint32_t> submitted{0};  // changed under the mutex
  std::atomic<uint32_t> seen{0};       // hybrid: last copy when a query found the stream idle
  uint32_t* flag = nullptr;            // in the pinned page of the state, written by the stream
  Address flag_address = 0;
  std::atomic<Code> fault{kSuccess};  // sticky: the stream failed
  Launcher pack, pack_flat, reduce;   // data kernels; under the mutex
};

/// All objects of Weft in one context. Never freed: tickets may point into a State after close().
struct State {
  Context context = nullptr;
  unsigned long long id = 0;  // cuCtxGetId; 0 without driver support
  Ordinal device = -1;
  size_t max_pitch = 0;
  std::array<TrackedStream, kStreamRoles> streams;
  Kernels kernels;
  EnqueueKernel enqueue;  ///< after load_enqueue()
  ResidentKernel resident_kernel;
  BatchCopy batch_copy;
  PackQueue pack_queue;
  Stream cancel_stream = nullptr;  ///< for copies that cancel launches
  CollectiveSlots collective_slots;
  void* flags = nullptr;  // pinned page of completion flags, a cache line per stream
  std::mutex mutex;       // guards enqueue and the vectors below
  std::vector<Event> free_events;
  std::vector<char*> free_chunks;  // staging
  std::vector<char*> chunks;       // all staging chunks allocated so far
  DataKernels data;
};

/// Whether a context still exists, determined by `probe`, an allocation of Weft in it. A query with the
/// handle of a destroyed context may crash the driver; a query with an address is always allowed.
[[nodiscard]] bool context_exists(Context context, Address probe);

/// Makes a context current for a scope.
class CurrentContext {
 public:
  explicit CurrentContext(Context context);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  [[nodiscard]] Code code() const { return code_; }  ///< kSuccess: the context is current

 private:
  Code code_ = kSuccess;
  bool pushed_ = false;
};

/// Relaxed capture mode for a scope: allows calls that a global-mode stream capture of the application
/// forbids.
class RelaxedCapture {
 public:
  RelaxedCapture() { driver().thread_exchange_stream_capture_mode(&mode_); }
  ~RelaxedCapture() { driver().thread_exchange_stream_capture_mode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  int mode_ = kCaptureModeRelaxed;
};

/// The context of a buffer; for pool and cuMemMap memory the active primary context of the device. Never
/// creates a context. Errc::unsupported if there is none.
[[nodiscard]] Result<Context> context_of(const Memory& memory);
/// The same for memory without a context, by three driver calls.
[[nodiscard]] Result<Context> home_of(const Memory& memory);
/// The state of a context, created on first use.
[[nodiscard]] Result<State*> state_of(Context context);
[[nodiscard]] inline Result<State*> state_of(const Memory& memory) {
  auto context = context_of(memory);
  if (!context) return std::move(context).error();
  return state_of(*context);
}
/// Loads the kernel of enqueued operations on first use. The state's context must be current.
[[nodiscard]] Status load_enqueue(State& state);
/// Creates the stream on first use. The state's context must be current.
[[nodiscard]] Status prepare(TrackedStream& tracked);

/// Sticky error of a stream; kSuccess while the stream is busy or idle without error.
[[nodiscard]] Code stream_fault(Context context, Stream stream);

[[nodiscard]] Result<Event> take_event(State& state);
void give_event(State& state, Event event);
void close_all_states();

}  // namespace weft::device::cuda
