// SPDX-License-Identifier: BSD-3-Clause
// Hardware queues: streams of a context, of all priorities, share CUDA_DEVICE_MAX_CONNECTIONS of them, and
// work behind a stream that waits for a value waits, too. Threading: under the lock of the emulator.
#pragma once
#include <algorithm>
#include <vector>

#include "world.hpp"

namespace emucuda {

/// Whether the operation waits for a value that is not there yet.
inline bool waits_for_value(const Operation& operation) {
  if (operation.type != Operation::Type::wait_value) return false;
  const char* word = translate(operation.dst, operation.width);
  return word != nullptr &&
         static_cast<int32_t>(__atomic_load_n(reinterpret_cast<const uint32_t*>(word), __ATOMIC_ACQUIRE) -
                              static_cast<uint32_t>(operation.value)) < 0;
}

/// Whether the oldest operation of the stream is behind a wait for a value in the same hardware
/// queue, or waits itself.
inline bool held(const StreamObject& stream) {
  const Operation& front = stream.queue.front();
  if (waits_for_value(front)) return true;
  for (const StreamObject* other : world().streams)
    if (other != &stream && other->context == stream.context && other->channel == stream.channel &&
        !other->queue.empty() && other->queue.front().number < front.number &&
        waits_for_value(other->queue.front()))
      return true;
  return false;
}

/// Whether a stream has come to a wait for a value. The value may have arrived since the last look.
inline bool any_at_value() {
  for (const StreamObject* stream : world().streams)
    if (!stream->queue.empty() && stream->queue.front().type == Operation::Type::wait_value) return true;
  return false;
}

/// A hardware queue that no other stream of the context uses, else the next in turn, as on an H200 (driver
/// 580).
inline unsigned channel_for(const StreamObject& stream) {
  std::vector<bool> used(world().connections, false);
  for (const StreamObject* other : world().streams)
    if (other != &stream && other->context == stream.context && !other->queue.empty())
      used[other->channel] = true;
  const auto found = std::find(used.begin(), used.end(), false);
  return found == used.end() ? world().next_channel++ % world().connections
                             : static_cast<unsigned>(found - used.begin());
}

}  // namespace emucuda
