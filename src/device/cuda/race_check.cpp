// SPDX-License-Identifier: BSD-3-Clause
#include "device/race_check.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/counters.hpp"
#include "base/log.hpp"
#include "device/cuda/context.hpp"
#include "device/cuda/driver.hpp"
#include "device/cuda/race_check.hpp"
#include "device/stream_words.hpp"

namespace weft::device {
namespace {

using counters::Unit;
using cuda::Code;
using cuda::driver;

config::Size setting_bytes{
    "check.gpu_bytes", 16 << 20, 4096, size_t{1} << 40,
    "Largest buffer in bytes that WEFT_CHECK=gpu compares as a whole. Of larger ones it compares 64 parts at "
    "equal distances, of that size together."};
config::Size setting_wait{"check.gpu_wait_ns", 2'000'000'000, 0, 600'000'000'000,
                          "Longest wait, in ns, of WEFT_CHECK=gpu for GPU work that was queued before a "
                          "call. Longer work leaves the "
                          "call unchecked."};

counters::Counter compared("check.gpu_compared", Unit::events,
                           "Buffers that WEFT_CHECK=gpu has compared after queued GPU work had ended");
counters::Counter undecided("check.gpu_undecided", Unit::events,
                            "Buffers that WEFT_CHECK=gpu has not compared: queued GPU work did not end in "
                            "check.gpu_wait_ns");
counters::Counter skipped("check.gpu_skipped", Unit::events,
                          "Buffers that WEFT_CHECK=gpu has not compared: a graph was captured, or the driver "
                          "is older than CUDA 12.5");

constexpr size_t kParts = 64;  // of a buffer that is not compared as a whole

const cuda::Stream kDefaultStreams[] = {reinterpret_cast<cuda::Stream>(1),   // legacy
                                        reinterpret_cast<cuda::Stream>(2)};  // of this thread

/// A context whose work is recorded, with the stream of the copies and unused events.
struct Watched {
  cuda::Context context = nullptr;
  unsigned long long id = 0;
  cuda::Stream stream = nullptr;
  std::vector<cuda::Event> events;
};

/// All contexts that were seen. Entries stay where they are, since checks name them by their index.
auto& contexts = *new std::vector<Watched>;
bool ended = false;  // a record has invalidated a capture: no more checks

/// Logs why buffers are not compared, once for each reason.
void say(bool& said, const std::string& why) {
  if (!std::exchange(said, true)) log::write(log::Level::warn, "WEFT_CHECK=gpu: %s", why.c_str());
}
void skip(bool& said, const std::string& why) {
  skipped.add(1);
  say(said, why);
}

bool driver_records() {
  static bool said = false;
  if (driver().ctx_record_event != nullptr && driver().ctx_get_id != nullptr) return true;
  const int version = driver().version;
  skip(said, "buffers are not checked (the driver implements CUDA " + std::to_string(version / 1000) + "." +
                 std::to_string(version % 1000 / 10) + "): update it to CUDA 12.5 or newer");
  return false;
}

void capture_in_progress() {
  static bool said = false;
  skip(said, "buffers are not checked while the program captures a graph");
}

/// The stream and an event of the current context, made now.
bool make(Watched& watched) {
  const cuda::RelaxedCapture relaxed;
  cuda::Event event = nullptr;
  if (driver().stream_create(&watched.stream, cuda::kStreamNonBlocking) != cuda::kSuccess) return false;
  if (driver().event_create(&event, cuda::kEventDisableTiming) != cuda::kSuccess) return false;
  watched.events.push_back(event);
  return true;
}

/// Index of a live context; -1: it cannot be used.
int watched(cuda::Context context) {
  unsigned long long id = 0;
  if (driver().ctx_get_id(context, &id) != cuda::kSuccess) return -1;
  for (size_t i = 0; i < contexts.size(); ++i)
    if (contexts[i].context == context && contexts[i].id == id) return static_cast<int>(i);
  const cuda::CurrentContext current(context);
  Watched made{context, id, nullptr, {}};
  if (current.code() != cuda::kSuccess || !make(made)) return -1;
  contexts.push_back(std::move(made));
  return static_cast<int>(contexts.size()) - 1;
}

/// The active primary contexts.
std::vector<cuda::Context> primary_contexts() {
  std::vector<cuda::Context> found;
  int devices = 0;
  if (driver().device_get_count(&devices) != cuda::kSuccess) return found;
  for (int device = 0; device < devices; ++device) {
    unsigned flags = 0;
    int active = 0;
    cuda::Context context = nullptr;
    if (driver().primary_ctx_get_state(device, &flags, &active) != cuda::kSuccess || active == 0) continue;
    if (driver().primary_ctx_retain(&context, device) != cuda::kSuccess) continue;
    driver().primary_ctx_release(device);
    found.push_back(context);
  }
  return found;
}

/// Whether a capture is known to be in progress that a record would invalidate: in the default streams of the
/// current context, or in a stream that synchronises with them.
bool capturing() {
  for (const cuda::Stream stream : kDefaultStreams) {
    int status = cuda::kCaptureNone;
    const Code code = driver().stream_is_capturing(stream, &status);
    if (code == cuda::kCaptureImplicit || (code == cuda::kSuccess && status != cuda::kCaptureNone))
      return true;
  }
  return false;
}

}  // namespace

void prepare_race_checks() {
  if (!available() || !driver_records()) return;
  for (const cuda::Context context : primary_contexts()) (void)watched(context);
}

void cuda::close_race_checks() {
  for (Watched& watched : contexts) {
    unsigned long long id = 0;
    if (watched.stream == nullptr || driver().ctx_get_id(watched.context, &id) != kSuccess ||
        id != watched.id)
      continue;
    const CurrentContext current(watched.context);
    if (current.code() != kSuccess) continue;
    for (const Event event : watched.events) driver().event_destroy(event);
    driver().stream_destroy(watched.stream);
  }
  contexts.clear();
}

RaceCheck::RaceCheck(RaceCheck&& other) noexcept
    : state_(std::exchange(other.state_, State::idle)),
      memory_(other.memory_),
      first_(other.first_),
      parts_(std::move(other.parts_)),
      before_(std::move(other.before_)),
      after_(std::move(other.after_)),
      recorded_(std::exchange(other.recorded_, {})),
      give_up_at_(other.give_up_at_) {}

void RaceCheck::release_events() {
  for (const Recorded& one : recorded_)
    if (one.context < contexts.size()) contexts[one.context].events.push_back(one.event);
  recorded_.clear();
}

RaceCheck::State RaceCheck::finish(State state) {
  release_events();
  (state == State::compared ? compared : undecided).add(1);
  return state_ = state;
}

void RaceCheck::choose_parts(size_t bytes) {
  parts_.clear();
  const size_t limit = setting_bytes;
  if (bytes <= limit) {
    parts_.push_back({0, bytes, 0});
    return;
  }
  const size_t size = limit / kParts;
  for (size_t i = 0; i < kParts; ++i)
    parts_.push_back(
        {static_cast<size_t>(static_cast<double>(bytes - size) / (kParts - 1) * static_cast<double>(i)), size,
         i * size});
  parts_.back().offset = bytes - size;
}

/// Records events in all active contexts. Returns false if the buffer cannot be checked.
bool RaceCheck::record(const Memory& memory) {
  std::vector<cuda::Context> active = primary_contexts();
  cuda::Context current = nullptr;
  if (const auto own = cuda::context_of(memory)) active.push_back(*own);
  if (driver().ctx_get_current(&current) == cuda::kSuccess && current != nullptr) active.push_back(current);
  std::sort(active.begin(), active.end());
  active.erase(std::unique(active.begin(), active.end()), active.end());
  for (const cuda::Context context : active) {
    const int index = watched(context);
    if (index < 0) continue;
    const cuda::CurrentContext scope(context);
    if (scope.code() != cuda::kSuccess) continue;
    if (capturing()) return capture_in_progress(), false;
    const cuda::RelaxedCapture relaxed;
    Watched& there = contexts[static_cast<size_t>(index)];
    cuda::Event event = nullptr;
    if (!there.events.empty()) {
      event = there.events.back();
      there.events.pop_back();
    } else if (driver().event_create(&event, cuda::kEventDisableTiming) != cuda::kSuccess) {
      continue;
    }
    const Code code = driver().ctx_record_event(context, event);
    if (code == cuda::kSuccess) {
      recorded_.push_back({static_cast<size_t>(index), event});
      continue;
    }
    there.events.push_back(event);
    if (code != cuda::kCaptureUnsupported) continue;
    ended = true;
    log::write(log::Level::warn,
               "WEFT_CHECK=gpu: the check has invalidated the capture of a graph by another thread, and ends "
               "in this process: run programs that capture graphs during MPI calls without it "
               "(WEFT_CHECK=arguments)");
    return false;
  }
  return true;
}

/// Whether all recorded work has ended; `failed`: an error of the GPU.
bool RaceCheck::work_ended(bool& failed) {
  const cuda::RelaxedCapture relaxed;
  while (!recorded_.empty()) {
    const Recorded& one = recorded_.back();
    Watched& there = contexts[one.context];
    const cuda::CurrentContext scope(there.context);
    const Code code = scope.code() != cuda::kSuccess ? scope.code() : driver().event_query(one.event);
    if (code == cuda::kNotReady) return false;
    failed |= code != cuda::kSuccess;
    there.events.push_back(one.event);
    recorded_.pop_back();
  }
  return true;
}

/// Copies the parts into pageable memory, which the copy engine fills before the call returns.
bool RaceCheck::copy(std::vector<std::byte>& to) const {
  const auto context = cuda::context_of(memory_);
  const int index = context ? watched(*context) : -1;
  if (index < 0) return false;
  const cuda::CurrentContext scope(*context);
  if (scope.code() != cuda::kSuccess) return false;
  const cuda::RelaxedCapture relaxed;
  const cuda::Stream stream = contexts[static_cast<size_t>(index)].stream;
  to.resize(parts_.back().at + parts_.back().size);
  for (const Part& part : parts_)
    if (driver().memcpy_async(reinterpret_cast<cuda::Address>(to.data() + part.at),
                              reinterpret_cast<cuda::Address>(first_ + part.offset), part.size,
                              stream) != cuda::kSuccess)
      return false;
  return true;
}

bool RaceCheck::start(const Memory& memory, const void* first, size_t bytes) {
  if (!available() || ended || bytes == 0 || memory.fault != 0 || !driver_records()) return false;
  // A stream waits for this call, which runs in its order: the buffer needs no comparison, and a wait would
  // not end.
  if (for_stream()) return false;
  bool failed = false;
  if (!record(memory) || work_ended(failed) || failed) return release_events(), false;
  memory_ = memory;
  first_ = static_cast<const std::byte*>(first);
  choose_parts(bytes);
  if (!copy(before_)) return finish(State::undecided), false;
  state_ = State::waiting;
  give_up_at_ = monotonic_ns() + setting_wait;
  return true;
}

RaceCheck::State RaceCheck::poll() {
  if (state_ != State::waiting) return state_;
  bool failed = false;
  const bool over = work_ended(failed);
  if (failed) return finish(State::undecided);
  if (over) return finish(copy(after_) ? State::compared : State::undecided);
  if (monotonic_ns() < give_up_at_) return State::waiting;
  static bool said = false;
  say(said, "buffers are not compared: GPU work that was queued before a call has not ended after " +
                std::to_string(setting_wait / 1'000'000) + " ms");
  return finish(State::undecided);
}

size_t RaceCheck::first_change(size_t offset, size_t n) const {
  const size_t end = offset + n;
  for (const Part& part : parts_) {
    const size_t low = std::max(offset, part.offset), high = std::min(end, part.offset + part.size);
    if (low >= high) continue;
    const std::byte* const was = before_.data() + part.at + (low - part.offset);
    const std::byte* const is = after_.data() + part.at + (low - part.offset);
    if (std::memcmp(was, is, high - low) == 0) continue;
    return low + static_cast<size_t>(std::mismatch(was, was + (high - low), is).first - was);
  }
  return end;
}

}  // namespace weft::device
