// SPDX-License-Identifier: BSD-3-Clause
// Words between a stream of the application and the host, in pinned memory: the stream writes a start word
// and awaits a completion word. Also captures of streams, and default streams, which an internal stream joins
// by events. Threading: any thread; the caller orders submissions to one stream.
#pragma once
#include <cstdint>

#include "base/result.hpp"
#include "device/stream.hpp"

namespace weft::device {

/// Adopts a stream for words, default streams included: these get an internal stream. The context of a
/// default stream is the current one. Creates Weft's streams in the context and loads its kernels, which
/// waits for running kernels. Errc::unsupported, with the reason, without a driver whose streams write and
/// await words (CUDA 11.7).
[[nodiscard]] Result<UserStream> adopt_stream_for_words(void* handle);
/// Destroys the internal stream of a default stream; no-op for other streams.
void release_stream(const UserStream& stream);
/// Whether the handle and the current context name the stream. For handles of the application: the context
/// of a stream that has been destroyed, and whose handle is used again, differs or is the same.
[[nodiscard]] bool names(const UserStream& stream, void* handle);

/// Enqueues, in this order: start = 1 after all writes of earlier work of the stream; wait until completion
/// is 1; completion = 0. The values are constant, so that a graph which has captured the words can be
/// launched again (T1 of stream/order/README.md). The words are 4-byte aligned, in memory of
/// allocate_pinned().
[[nodiscard]] Status enqueue_words(const UserStream& stream, uint32_t* start, uint32_t* completion);

/// How many streams of a context may wait for words at the same time. The driver maps the streams of a
/// context, whatever their priority, to CUDA_DEVICE_MAX_CONNECTIONS hardware queues (8 by default, at most
/// 32), and work behind a waiting stream in its queue waits, too. Six queues stay free: four for Weft's
/// copies, one for its resident kernel and one for other work of the program; at least one stream may wait.
[[nodiscard]] unsigned max_waiting_streams();

/// The capture of a stream.
struct Capture {
  uint64_t id = 0;        ///< unique in the process; 0: the stream is not captured
  void* graph = nullptr;  ///< that receives the work
  explicit operator bool() const { return id != 0; }
};
[[nodiscard]] Result<Capture> capture_of(const UserStream& stream);
/// Calls release(state) once the graph, its copies, its executable graphs and their launches have ended: in
/// any thread, which may hold locks of the driver. On failure, calls it at once; but for Errc::unsupported:
/// the driver has no user objects, and the function is never called.
[[nodiscard]] Status call_at_end(const Capture& capture, void (*release)(void*), void* state);

/// Adds to the number of calls and captures for which streams of the program may wait. While it is not zero,
/// the device layer calls nothing of the driver that waits for all streams: it defers releases of memory
/// (cuda/deferred.hpp).
void streams_may_wait(int calls);

/// Marks the calling thread for a scope: it executes a call for which a stream of the program waits.
class ForStream {
 public:
  ForStream();
  ~ForStream();
  ForStream(const ForStream&) = delete;
  ForStream& operator=(const ForStream&) = delete;
};
/// Whether the calling thread executes such a call: a wait for all streams would never end.
[[nodiscard]] bool for_stream();

}  // namespace weft::device
