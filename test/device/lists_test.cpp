// SPDX-License-Identifier: BSD-3-Clause
// Windows of copies that go out as one kernel, and what becomes of them on a GPU that has no place for it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "../reference/draw.hpp"
#include "cuda_test_support.hpp"

namespace weft::test {
namespace {

using Kind = Buffer::Kind;

class ListsTest : public CudaTest {};

/// Copies of odd sizes between odd places of two buffers, submitted as one.
class Window {
 public:
  static constexpr size_t kCopies = 50, kMost = 70'000;
  Window() : from_(Kind::device, kCopies * kMost), to_(Kind::device, kCopies * kMost) {}

  /// New content, and what will be copied. Waits for kernels.
  void prepare(unsigned seed) {
    randomized::Draw draw(seed);
    const auto sent = pattern(kCopies * kMost, seed);
    from_.write(sent);
    expected_ = to_.read();
    for (size_t i = 0; i < kCopies; ++i) {
      const size_t shift = draw.one_in(2) ? 0 : draw.number() % 17;
      const size_t n = draw.one_in(10) ? 0 : 1 + draw.number() % (kMost - 64);
      const size_t from = i * kMost + shift, to = i * kMost + (draw.one_in(2) ? shift : draw.number() % 17);
      pieces_[i] = {to_.data() + to, from_.data() + from, n};
      std::copy_n(sent.begin() + static_cast<long>(from), n, expected_.begin() + static_cast<long>(to));
    }
    to_memory_ = to_.memory();
    from_memory_ = from_.memory();
  }
  void submit() {
    auto ticket = device::copy_pieces_async(pieces_, kCopies, to_memory_, from_memory_, device::Lane::in);
    ASSERT_OK(ticket);
    ticket_ = std::move(*ticket);
  }
  void start(unsigned seed) {
    prepare(seed);
    submit();
  }
  void finish() { ASSERT_OK(device::wait(ticket_)); }
  void check(const char* where) { EXPECT_EQ(to_.read(), expected_) << where; }
  [[nodiscard]] device::ListCounters counters() const { return device::list_counters(to_.memory()); }

 private:
  Buffer from_, to_;
  std::vector<char> expected_;
  device::Piece pieces_[kCopies] = {};
  Memory to_memory_, from_memory_;
  device::Ticket ticket_;
};

/// A kernel has all the time that it may need to start.
bool patient() {
  const char* nanoseconds = std::getenv("WEFT_GPU_LIST_PATIENCE");
  return nanoseconds != nullptr && std::atoll(nanoseconds) >= 1'000'000'000;
}

TEST_F(ListsTest, AWindowIsOneLaunch) {
  Window window;
  for (unsigned seed = 1; seed < 20; ++seed) {
    window.start(seed);
    window.finish();
    window.check("a window");
  }
  if (cuda().emulated() && !patient()) return;
  EXPECT_EQ(window.counters().launched, 19u);
  EXPECT_EQ(window.counters().taken_back, 0u);
}

// TEST_LAUNCHES: graphs, or calls where there are none.
TEST_F(ListsTest, ALaunchIsAGraph) {
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

TEST_F(ListsTest, MoreWindowsThanSlots) {
  Window windows[7];
  for (int round = 0; round < 5; ++round) {
    for (unsigned i = 0; i < std::size(windows); ++i) windows[i].start(i + 1);
    for (Window& window : windows) window.finish();
    for (Window& window : windows) window.check("one of several windows");
  }
}

// Trap 2: the application's kernel holds every place and waits, so the copies must come about without one.
TEST_F(ListsTest, AFullGpuGetsItsCopiesByTheEngines) {
  if (patient()) GTEST_SKIP() << "waits for a place as long as it is told";
  // A real driver copies inside a GPU by a kernel of its own; between GPUs: p2p/device_full.
  if (!cuda().emulated()) GTEST_SKIP() << "inside one GPU the driver's copies need a place as well";
  FullGpu gpu(0);
  Window window, second;
  window.start(1);
  window.finish();
  for (unsigned round = 2; round < 5; ++round) {
    const auto before = window.counters();
    window.prepare(round);
    second.prepare(round + 10);
    gpu.fill();
    window.submit();
    second.submit();
    window.finish();
    second.finish();
    EXPECT_TRUE(gpu.full());
    EXPECT_GT(window.counters().taken_back, before.taken_back);
    gpu.release();
    window.check("on a full GPU");
    second.check("on a full GPU");
    // What was taken back runs now, and does nothing.
    window.start(round + 20);
    window.finish();
    window.check("afterwards");
  }
}

}  // namespace
}  // namespace weft::test
