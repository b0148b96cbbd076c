// SPDX-License-Identifier: BSD-3-Clause
// Times of classification, small copies in each direction, and large copies. Prints a table; checks the
// bounds of docs/gpu-internals.md on a real GPU. Run with WEFT_GPU_COMPLETION=event, flag and query to
// compare.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <tuple>
#include <vector>

#include "cuda_test_support.hpp"

namespace weft::test {
namespace {

using Kind = Buffer::Kind;
using Clock = std::chrono::steady_clock;

/// Median time of one call in microseconds.
double median(int calls, const std::function<void()>& call) {
  for (int i = 0; i < calls / 10 + 1; ++i) call();
  std::vector<double> times;
  for (int i = 0; i < calls; ++i) {
    const auto start = Clock::now();
    call();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + calls / 2, times.end());
  return times[static_cast<size_t>(calls) / 2];
}

class SpeedTest : public CudaTest {
 protected:
  /// Time from submission to detected completion, in microseconds.
  static double copy_time(const Buffer& dst, const Buffer& src, size_t n) {
    const Memory to = dst.memory(), from = src.memory();
    bool ok = true;
    const double time = median(cuda().emulated() ? 20
                               : n > (1 << 20)   ? 50
                                                 : 1000,
                               [&] {
                                 auto ticket = device::copy_async(dst.data(), to, src.data(), from, n,
                                                                  device::StreamRole::in);
                                 ok = ticket.ok() && device::wait(*ticket).ok() && ok;
                               });
    EXPECT_TRUE(ok);
    return time;
  }
};

TEST_F(SpeedTest, Classification) {
  const Buffer on_device(Kind::device, 4096), pinned(Kind::pinned, 4096), host(Kind::host, 4096);
  for (const auto& [what, buffer] :
       {std::pair("device", &on_device), std::pair("pinned", &pinned), std::pair("host", &host)}) {
    const double time = median(2000, [&] { (void)buffer->memory(); });
    std::printf("classify %-8s %8.3f us\n", what, time);
    EXPECT_LT(time, cuda().emulated() ? 100 : 3);
  }
}

TEST_F(SpeedTest, SmallAndLargeCopies) {
  const int other = cuda().devices > 1 ? 1 : 0;
  constexpr size_t kLarge = size_t{64} << 20;
  const size_t large = cuda().emulated() ? size_t{1} << 20 : kLarge;
  const Buffer near(Kind::device, large, 0), far(Kind::device, large, other), host(Kind::pinned, large),
      pageable(Kind::host, 4096);
  struct Row {
    const char* what;
    const Buffer *dst, *src;
    double bound;  // us for 8 bytes on an H200; without peer access through the host
  };
  const Row rows[] = {
      {"device to peer", &far, &near, 25},          {"peer to device", &near, &far, 25},
      {"device to pinned", &host, &near, 12},       {"pinned to device", &near, &host, 10},
      {"device to pageable", &pageable, &near, 30}, {"pageable to device", &near, &pageable, 30}};
  std::printf("completion by %s\n", (copy_time(near, far, 8), device::completion_method(near.memory())));
  for (const Row& row : rows) {
    const double time = copy_time(*row.dst, *row.src, 8);
    std::printf("%-20s 8 B %8.2f us", row.what, time);
    EXPECT_LT(time, cuda().emulated() ? 5000 : row.bound) << row.what;
    for (const size_t n : {size_t{64} << 10, size_t{1} << 20, size_t{4} << 20, kLarge}) {
      if (n > row.dst->size() || n > row.src->size()) continue;
      const double t = copy_time(*row.dst, *row.src, n);
      std::printf(" | %zu KiB %.1f us %.1f GB/s", n >> 10, t, static_cast<double>(n) / t / 1e3);
    }
    std::printf("\n");
  }
}

/// Copies in quick succession, which the resident kernel executes within a GPU. Between two GPUs without peer
/// access the driver makes them through the host.
TEST_F(SpeedTest, QuickSuccession) {
  constexpr size_t kCopies = 64, kDistance = 128;
  const Buffer near(Kind::device, 256 << 10, 0), far(Kind::device, 256 << 10, cuda().devices > 1 ? 1 : 0);
  const double bound = cuda().emulated() ? 5000 : cuda().devices > 1 ? 40 : 12;
  for (const auto& [what, dst, src] :
       {std::tuple("device to peer", &far, &near), std::tuple("peer to device", &near, &far)}) {
    std::printf("%-16s", what);
    for (const size_t n : {8, 512, 1 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 10}) {
      const double time = copy_time(*dst, *src, n);
      EXPECT_LT(time, bound) << what << ", " << n << " bytes";
      std::printf(" | %zu B %.2f us", n, time);
    }
    std::vector<device::CopyOp> copies;
    for (size_t i = 0; i < kCopies; ++i)
      copies.push_back({static_cast<char*>(dst->data()) + i * kDistance,
                        static_cast<const char*>(src->data()) + i * kDistance, 8});
    const double time = median(cuda().emulated() ? 20 : 1000, [&] {
      auto ticket = device::copy_batch_async(copies.data(), copies.size(), dst->memory(), src->memory(),
                                             device::StreamRole::in);
      ASSERT_TRUE(ticket.ok() && device::wait(*ticket).ok());
    });
    std::printf(" | %zu of 8 B %.2f us\n", kCopies, time);
    EXPECT_LT(time, cuda().emulated() ? 5000 : cuda().devices > 1 ? 40 * kCopies : 20) << what;
  }
}

}  // namespace
}  // namespace weft::test
