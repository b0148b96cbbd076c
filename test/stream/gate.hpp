// SPDX-License-Identifier: BSD-3-Clause
// Helpers for tests of stream order: work of a stream that begins after a call which it precedes.
#pragma once
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "stream/stream_comm.hpp"

namespace weft::test::enqueued {

inline weft::test::Address address(const Buffer& buffer) {
  return reinterpret_cast<weft::test::Address>(buffer.data());
}

/// A stream whose work another thread lets go some time after it was queued.
class Gate {
 public:
  explicit Gate(Stream stream) : stream_(stream), word_(Kind::pinned, sizeof(unsigned)) {
    expect(driver().cuStreamWaitValue32_v2 != nullptr, "cuStreamWaitValue32");
    std::memset(word_.data(), 0, sizeof(unsigned));
  }
  ~Gate() { wait(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  /// Queues a wait. A call made within the next milliseconds finds the stream waiting.
  void close() {
    wait();
    expect(driver().cuStreamWaitValue32_v2(stream_, address(word_), ++passes_, 0) == 0,
           "cuStreamWaitValue32");
    opener_ = std::thread([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      std::atomic_ref(*reinterpret_cast<unsigned*>(word_.data())).store(passes_);
    });
  }
  void wait() {
    if (opener_.joinable()) opener_.join();
  }

 private:
  Stream stream_;
  Buffer word_;
  unsigned passes_ = 0;
  std::thread opener_;
};

inline void copy(Stream stream, const Buffer& to, const Buffer& from) {
  expect(driver().cuMemcpyDtoDAsync_v2(address(to), address(from), from.size(), stream) == 0,
         "cuMemcpyDtoDAsync");
}

}  // namespace weft::test::enqueued
