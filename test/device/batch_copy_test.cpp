// SPDX-License-Identifier: BSD-3-Clause
// Windows of copies by one batch copy kernel, and their cancellation on a full GPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "../reference/counted.hpp"
#include "../reference/draw.hpp"
#include "cuda_test_support.hpp"

namespace weft::test {
namespace {

using Kind = Buffer::Kind;

class BatchCopyTest : public CudaTest {};

/// Copies of odd sizes between odd offsets of two buffers, submitted as one batch.
class Window {
 public:
  static constexpr size_t kCopies = 50, kMaxBytes = 70'000;
  Window() : from_(Kind::device, kCopies * kMaxBytes), to_(Kind::device, kCopies * kMaxBytes) {}

  /// Writes new content and prepares the batch. Waits for kernels.
  void prepare(unsigned seed) {
    randomized::Draw draw(seed);
    const auto sent = pattern(kCopies * kMaxBytes, seed);
    from_.write(sent);
    expected_ = to_.read();
    for (size_t i = 0; i < kCopies; ++i) {
      const size_t shift = draw.one_in(2) ? 0 : draw.number() % 17;
      const size_t n = draw.one_in(10) ? 0 : 1 + draw.number() % (kMaxBytes - 64);
      const size_t from = i * kMaxBytes + shift,
                   to = i * kMaxBytes + (draw.one_in(2) ? shift : draw.number() % 17);
      copies_[i] = {to_.data() + to, from_.data() + from, n};
      std::copy_n(sent.begin() + static_cast<long>(from), n, expected_.begin() + static_cast<long>(to));
    }
    to_memory_ = to_.memory();
    from_memory_ = from_.memory();
  }
  void submit() {
    auto ticket =
        device::copy_batch_async(copies_, kCopies, to_memory_, from_memory_, device::StreamRole::in);
    ASSERT_OK(ticket);
    ticket_ = std::move(*ticket);
  }
  void start(unsigned seed) {
    prepare(seed);
    submit();
  }
  void finish() { ASSERT_OK(device::wait(ticket_)); }
  void check(const char* where) { EXPECT_EQ(to_.read(), expected_) << where; }

 private:
  Buffer from_, to_;
  std::vector<char> expected_;
  device::CopyOp copies_[kCopies] = {};
  Memory to_memory_, from_memory_;
  device::Ticket ticket_;
};

/// Whether the timeout is long enough for any kernel to start.
bool has_long_timeout() {
  const char* nanoseconds = std::getenv("WEFT_GPU_BATCH_COPY_TIMEOUT_NS");
  return nanoseconds != nullptr && std::atoll(nanoseconds) >= 1'000'000'000;
}

TEST_F(BatchCopyTest, WindowIsOneLaunch) {
  const Counted launches("gpu.batch_copy_launches"), cancelled("gpu.batch_copy_cancelled");
  Window window;
  for (unsigned seed = 1; seed < 20; ++seed) {
    window.start(seed);
    window.finish();
    window.check("a window");
  }
  if (cuda().emulated() && !has_long_timeout()) return;
  EXPECT_EQ(launches.growth(), 19u);
  EXPECT_EQ(cancelled.growth(), 0u);
}

// TEST_LAUNCHES: graphs, or calls (cuLaunchKernel).
TEST_F(BatchCopyTest, LaunchIsAGraph) {
  const char* const launches = std::getenv("TEST_LAUNCHES");
  if (launches == nullptr) GTEST_SKIP() << "only the emulated driver counts calls";
  Window window;
  const auto graphs = cuda().calls("cuGraphLaunch"), calls = cuda().calls("cuLaunchKernel");
  for (unsigned seed = 1; seed < 5; ++seed) {
    window.start(seed);
    window.finish();
    window.check("a window");
  }
  const bool by_graphs = std::string(launches) == "graphs";
  EXPECT_EQ(cuda().calls("cuGraphLaunch") - graphs, by_graphs ? 4u : 0u);
  EXPECT_EQ(cuda().calls("cuLaunchKernel") - calls, by_graphs ? 0u : 4u);
}

TEST_F(BatchCopyTest, MoreWindowsThanSlots) {
  Window windows[7];
  for (int round = 0; round < 5; ++round) {
    for (unsigned i = 0; i < std::size(windows); ++i) windows[i].start(i + 1);
    for (Window& window : windows) window.finish();
    for (Window& window : windows) window.check("one of several windows");
  }
}

// A full GPU (docs/gpu.md): the application's kernel occupies the GPU and waits, so the copies must not need
// a kernel.
TEST_F(BatchCopyTest, FullGpuFallsBackToCopyEngines) {
  if (has_long_timeout()) GTEST_SKIP() << "the timeout is too long";
  // A real driver copies inside a GPU with a kernel; for copies between GPUs see p2p/device_full.
  if (!cuda().emulated()) GTEST_SKIP() << "the driver copies inside a GPU with a kernel";
  FullGpu gpu(0);
  Window window, second;
  window.start(1);
  window.finish();
  for (unsigned round = 2; round < 5; ++round) {
    const Counted cancelled("gpu.batch_copy_cancelled");
    window.prepare(round);
    second.prepare(round + 10);
    gpu.fill();
    window.submit();
    second.submit();
    window.finish();
    second.finish();
    EXPECT_TRUE(gpu.full());
    EXPECT_GT(cancelled.growth(), 0u);
    gpu.release();
    window.check("on a full GPU");
    second.check("on a full GPU");
    // The cancelled launches run now, without effect.
    window.start(round + 20);
    window.finish();
    window.check("afterwards");
  }
}

}  // namespace
}  // namespace weft::test
