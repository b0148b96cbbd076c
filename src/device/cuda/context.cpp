// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/context.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/config.hpp"
#include "base/log.hpp"
#include "device/context_guard.hpp"
#include "device/kernel/pack.hpp"
#include "device/kernel/reduce.hpp"

namespace weft::device::cuda {
namespace {

config::Choice setting_completion("gpu.completion", 0, {"auto", "event", "flag", "query"},
                                  "Completion detection of GPU copies: event query, flag in pinned memory "
                                  "written by the stream, stream query, "
                                  "or auto: stream query for the last copy of a stream and flags for the "
                                  "copies before, if streams can write "
                                  "flags");

constexpr size_t kMaxStates = 64;
constexpr size_t kFlagStride = 64;  // bytes: one cache line per stream

std::mutex states_mutex;                             // serialises additions and close
std::array<std::atomic<State*>, kMaxStates> states;  // append-only until close
std::atomic<size_t> state_count{0};
auto& every_state =
    *new std::vector<std::unique_ptr<State>>;  // including destroyed contexts: tickets point into them

unsigned long long id_of(Context context) {
  unsigned long long id = 0;
  if (driver().ctx_get_id != nullptr && driver().ctx_get_id(context, &id) != kSuccess) return 0;
  return id;
}

State* find(Context context, unsigned long long id) {
  const size_t count = state_count.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; ++i) {
    State* state = states[i].load(std::memory_order_acquire);
    if (state->context == context && state->id == id) return state;
  }
  return nullptr;
}

/// Creates graphs, which take GPU memory, only for the streams that usually run the data kernels.
void open_launchers(State& state) {
  for (size_t i = 0; i < kStreamRoles; ++i) {
    TrackedStream& tracked = state.streams[i];
    const bool graphs = state.cancel_stream != nullptr;
    const size_t pack_graphs = graphs && i != static_cast<size_t>(StreamRole::aux) ? 1 : 0;
    const size_t reductions = graphs && i == static_cast<size_t>(StreamRole::local) ? 1 : 0;
    tracked.pack.open(state.data.pack, sizeof(kernel::Pack), pack_graphs, state.cancel_stream);
    tracked.pack_flat.open(state.data.pack_flat, sizeof(kernel::Pack), pack_graphs, state.cancel_stream);
    tracked.reduce.open(state.data.reduce, sizeof(kernel::Reduce), reductions, state.cancel_stream);
  }
}

/// Queries device and limits, allocates the flag page and loads the kernels.
Status fill(State& state) {
  const CurrentContext current(state.context);
  if (current.code() != kSuccess)
    return failure(current.code(), "cuCtxPushCurrent", "the GPU buffer's context cannot be used");
  const RelaxedCapture relaxed;
  int pitch = 0;
  WEFT_CUDA_TRY(ctx_get_device, "the device of a GPU context cannot be found", &state.device);
  WEFT_CUDA_TRY(device_get_attribute, "a GPU's largest pitch cannot be found", &pitch, kDeviceMaxPitch,
                state.device);
  WEFT_CUDA_TRY(mem_host_alloc, "pinned memory for completion flags cannot be allocated", &state.flags,
                kStreamRoles * kFlagStride, kHostAllocPortable | kHostAllocDeviceMap);
  std::memset(state.flags, 0, kStreamRoles * kFlagStride);
  Address address = 0;
  WEFT_CUDA_TRY(mem_host_get_device_pointer, "pinned memory is not mapped for the GPU", &address, state.flags,
                0);
  state.max_pitch = static_cast<size_t>(pitch);
  for (size_t i = 0; i < kStreamRoles; ++i) {
    TrackedStream& tracked = state.streams[i];
    tracked.state = &state;
    tracked.flag = reinterpret_cast<uint32_t*>(static_cast<char*>(state.flags) + i * kFlagStride);
    tracked.flag_address = address + i * kFlagStride;
  }
  state.data = load_data_kernels();
  state.kernels = load_kernels();
  state.resident_kernel.open(state);
  if (driver().stream_create_with_priority(&state.cancel_stream, kStreamNonBlocking, kHighestPriority) !=
      kSuccess)
    state.cancel_stream = nullptr;  // disables cancellable launches, reported as slow paths
  open_launchers(state);
  state.batch_copy.open(state);
  state.pack_queue.open(state);
  return {};
}

/// Installs a state, in place of a destroyed context at the same address if there is one.
Status install(State* state) {
  const size_t count = state_count.load(std::memory_order_relaxed);
  for (size_t i = 0; i < count; ++i) {
    if (states[i].load(std::memory_order_relaxed)->context != state->context) continue;
    states[i].store(state, std::memory_order_release);
    return {};
  }
  if (count == kMaxStates)
    return Error(Errc::no_mem, "too many CUDA contexts hold MPI buffers (limit " +
                                   std::to_string(kMaxStates) + "): use fewer contexts");
  states[count].store(state, std::memory_order_release);
  state_count.store(count + 1, std::memory_order_release);
  return {};
}

/// Destroys all objects in the context, unless the context no longer exists.
void destroy(State& state) {
  if (!context_exists(state.context, reinterpret_cast<Address>(state.flags))) return;
  const CurrentContext current(state.context);
  if (current.code() != kSuccess) return;
  const RelaxedCapture relaxed;
  Code worst = kSuccess;
  const auto note = [&](Code code) {
    if (code != kSuccess && !gone(code)) worst = code;
  };
  state.resident_kernel.close();
  state.batch_copy.close();
  state.pack_queue.close();
  if (state.cancel_stream != nullptr) note(driver().stream_destroy(state.cancel_stream));
  state.cancel_stream = nullptr;
  state.collective_slots.close();
  for (TrackedStream& tracked : state.streams) {
    const std::lock_guard lock(tracked.mutex);
    for (Launcher* launcher : {&tracked.pack, &tracked.pack_flat, &tracked.reduce}) launcher->close();
    if (tracked.stream != nullptr) note(driver().stream_destroy(tracked.stream));
    tracked.stream = nullptr;
    tracked.flag = nullptr;
  }
  const std::lock_guard lock(state.mutex);
  for (Event event : state.free_events) note(driver().event_destroy(event));
  for (char* chunk : state.chunks) note(driver().mem_free_host(chunk));
  if (state.flags != nullptr) note(driver().mem_free_host(state.flags));
  if (state.kernels.module != nullptr) note(driver().module_unload(state.kernels.module));
  unload(state.data);
  if (state.enqueue.module != nullptr) note(driver().module_unload(state.enqueue.module));
  if (worst != kSuccess)
    log::write(log::Level::warn, "GPU resources were not all freed (%s)", describe(worst).c_str());
}

}  // namespace

bool context_exists(Context context, Address probe) {
  Context owner = nullptr;
  return driver().pointer_get_attribute(&owner, kAttributeContext, probe) == kSuccess && owner == context;
}

CurrentContext::CurrentContext(Context context) {
  Context current = nullptr;
  code_ = driver().ctx_get_current(&current);
  if (code_ != kSuccess || current == context) return;
  code_ = driver().ctx_push_current(context);
  pushed_ = code_ == kSuccess;
}

CurrentContext::~CurrentContext() {
  Context popped = nullptr;
  if (pushed_) driver().ctx_pop_current(&popped);
}

Result<Context> context_of(const Memory& memory) {
  if (memory.context != nullptr) return memory.context;
  return memory.home != nullptr ? memory.home : home_of(memory);
}

Result<Context> home_of(const Memory& memory) {
  if (memory.fault != 0)
    return failure(memory.fault, "cuPointerGetAttributes", "the buffer cannot be classified");
  Context context = nullptr;
  unsigned flags = 0;
  int active = 0;
  if (memory.device >= 0 && driver().primary_ctx_get_state(memory.device, &flags, &active) == kSuccess &&
      active != 0) {
    WEFT_CUDA_TRY(primary_ctx_retain, "the primary context of a GPU cannot be used", &context, memory.device);
    driver().primary_ctx_release(memory.device);
    return context;
  }
  Ordinal current_device = -1;
  if (driver().ctx_get_current(&context) == kSuccess && context != nullptr &&
      driver().ctx_get_device(&current_device) == kSuccess && current_device == memory.device)
    return context;
  return Error(Errc::unsupported,
               "the buffer's GPU " + std::to_string(memory.device) +
                   " has no active context in this process (it is pool or mapped memory, or its context was "
                   "destroyed): select the device before calling MPI");
}

Result<State*> state_of(Context context) {
  const unsigned long long id = id_of(context);
  if (State* state = find(context, id)) [[likely]]
    return state;
  const std::lock_guard lock(states_mutex);
  if (State* state = find(context, id)) return state;
  auto state = std::make_unique<State>();
  state->context = context;
  state->id = id;
  WEFT_TRY(fill(*state));
  WEFT_TRY(install(state.get()));
  every_state.push_back(std::move(state));
  return every_state.back().get();
}

Status load_enqueue(State& state) {
  const std::lock_guard lock(state.mutex);
  if (state.enqueue.few != nullptr) return {};
  auto loaded = load_enqueue_kernel();
  if (!loaded) return std::move(loaded).error();
  state.enqueue = *loaded;
  return {};
}

Status prepare(TrackedStream& tracked) {
  if (tracked.stream != nullptr) [[likely]]
    return {};
  const RelaxedCapture relaxed;
  Stream stream = nullptr;
  WEFT_CUDA_TRY(stream_create_with_priority, "a stream for MPI transfers cannot be created", &stream,
                kStreamNonBlocking, kHighestPriority);
  tracked.method = static_cast<Completion>(setting_completion.index());
  if (tracked.method == Completion::automatic || tracked.method == Completion::flag) {
    const Code code = driver().stream_write_value32(stream, tracked.flag_address, 0, kWriteValueDefault);
    if (code != kSuccess && tracked.method == Completion::flag) {
      driver().stream_destroy(stream);
      return failure(code, "cuStreamWriteValue32",
                     "WEFT_GPU_COMPLETION=flag does not work on this GPU: use auto");
    }
    if (code != kSuccess)
      log::write(log::Level::info, "GPU completion by events: streams cannot write flags (%s)",
                 describe(code).c_str());
    tracked.method = code != kSuccess                          ? Completion::event
                     : tracked.method == Completion::automatic ? Completion::hybrid
                                                               : Completion::flag;
  }
  tracked.stream = stream;
  return {};
}

Code stream_fault(Context context, Stream stream) {
  const CurrentContext current(context);
  if (current.code() != kSuccess) return current.code();
  const RelaxedCapture relaxed;
  const Code code = driver().stream_query(stream);
  return code == kNotReady ? kSuccess : code;
}

Result<Event> take_event(State& state) {
  {
    const std::lock_guard lock(state.mutex);
    if (!state.free_events.empty()) {
      const Event event = state.free_events.back();
      state.free_events.pop_back();
      return event;
    }
  }
  const RelaxedCapture relaxed;
  Event event = nullptr;
  WEFT_CUDA_TRY(event_create, "an event for MPI transfers cannot be created", &event, kEventDisableTiming);
  return event;
}

void give_event(State& state, Event event) {
  const std::lock_guard lock(state.mutex);
  state.free_events.push_back(event);
}

void close_all_states() {
  const std::lock_guard lock(states_mutex);
  const size_t count = state_count.exchange(0, std::memory_order_acq_rel);
  for (size_t i = 0; i < count; ++i) destroy(*states[i].load(std::memory_order_relaxed));
}

}  // namespace weft::device::cuda

namespace weft::device {

void ContextGuard::push(const Memory& memory) {
  const auto context = cuda::context_of(memory);
  cuda::Context current = nullptr;
  if (!context || cuda::driver().ctx_get_current(&current) != cuda::kSuccess || current == *context) return;
  pushed_ = cuda::driver().ctx_push_current(*context) == cuda::kSuccess;
}

void ContextGuard::pop() {
  cuda::Context popped = nullptr;
  cuda::driver().ctx_pop_current(&popped);
}

}  // namespace weft::device
