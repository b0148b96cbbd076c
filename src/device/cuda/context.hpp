// SPDX-License-Identifier: BSD-3-Clause
// What Weft keeps in one CUDA context: its streams, completion flags, events and pinned chunks, created on
// first use. Found by (context, unique id), so that a context made anew at an old address is not mistaken.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/result.hpp"
#include "device/copy.hpp"
#include "device/cuda/copier.hpp"
#include "device/cuda/data_kernels.hpp"
#include "device/cuda/driver.hpp"
#include "device/cuda/kernels.hpp"
#include "device/cuda/launcher.hpp"
#include "device/cuda/lists.hpp"
#include "device/cuda/packs.hpp"
#include "device/cuda/ports.hpp"
#include "device/memory.hpp"

namespace weft::device::cuda {

/// `hybrid`: the last copy of a stream by asking the stream, earlier ones by the flag written before their
/// successor.
enum class Completion : int { automatic, event, flag, query, hybrid };

struct State;

/// One stream of Weft's own and how its progress is seen.
struct LaneStream {
  std::mutex mutex;  // orders submissions with their sequence numbers
  State* state = nullptr;
  Stream stream = nullptr;  // written once, under the mutex
  Completion method = Completion::automatic;
  std::atomic<uint32_t> submitted{0};  // changed under the mutex
  std::atomic<uint32_t> seen{0};       // hybrid: the copy that was last when the stream was found idle
  uint32_t* flag = nullptr;            // in the state's pinned page, written by the stream
  Address flag_address = 0;
  std::atomic<Code> fault{kSuccess};  // sticky: the stream failed
  Launcher pack, pack_flat, reduce;   // of the data kernels; under the mutex
};

/// All of Weft's objects in one context. Never freed: tickets may point into it after close().
struct State {
  Context context = nullptr;
  unsigned long long id = 0;  // cuCtxGetId; 0 when the driver has none
  Ordinal device = -1;
  size_t max_pitch = 0;
  std::array<LaneStream, kLanes> lanes;
  Kernels kernels;
  EnqueueKernel enqueue;  ///< after load_enqueue()
  Copier copier;
  Lists lists;
  Packs packs;
  Stream cancels = nullptr;  ///< of copies that take back lists and packs
  Ports ports;
  void* flags = nullptr;  // pinned page of completion flags, a cache line a lane
  std::mutex mutex;       // for the vectors below
  std::vector<Event> free_events;
  std::vector<char*> free_chunks;  // staging
  std::vector<char*> chunks;       // all staging chunks allocated so far
  DataKernels data;
};

/// Whether a context still exists, by an allocation of ours in it: asking about the handle itself is not
/// allowed once it was destroyed (the driver may crash), asking about an address always is.
[[nodiscard]] bool exists(Context context, Address witness);

/// Makes a context current for a scope, unless it is already.
class CurrentContext {
 public:
  explicit CurrentContext(Context context);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  [[nodiscard]] Code code() const { return code_; }  ///< kSuccess: it is current

 private:
  Code code_ = kSuccess;
  bool pushed_ = false;
};

/// Lets calls that a global-mode stream capture of the application forbids go through for a scope.
class RelaxedCapture {
 public:
  RelaxedCapture() { driver().thread_exchange_stream_capture_mode(&mode_); }
  ~RelaxedCapture() { driver().thread_exchange_stream_capture_mode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  int mode_ = kCaptureModeRelaxed;
};

/// The context to use for a buffer: its own, else (pool and cuMemMap memory) the active primary context of
/// its device. Never creates one. Errc::unsupported when there is none.
[[nodiscard]] Result<Context> context_of(const Memory& memory);
/// The same for memory without one of its own, asked of the driver: three calls.
[[nodiscard]] Result<Context> home_of(const Memory& memory);
/// Weft's state in a context.
[[nodiscard]] Result<State*> state_of(Context context);
[[nodiscard]] inline Result<State*> state_of(const Memory& memory) {
  auto context = context_of(memory);
  if (!context) return std::move(context).error();
  return state_of(*context);
}
/// Loads the kernel of enqueued operations, once. The state's context must be current.
[[nodiscard]] Status load_enqueue(State& state);
/// The lane's stream, created on first use. The state's context must be current.
[[nodiscard]] Status prepare(LaneStream& lane);

/// What ended a stream of Weft's; kSuccess while it runs and when all went well.
[[nodiscard]] Code stream_fault(Context context, Stream stream);

[[nodiscard]] Result<Event> take_event(State& state);
void give_event(State& state, Event event);
void close_all_states();

}  // namespace weft::device::cuda
