// SPDX-License-Identifier: BSD-3-Clause
// The pack kernel: random strided shapes and segment tables on both sides, partial streams, every word size
// and memory kind, compared with a simple loop; division by invariants.
#include "device/pack.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include "../reference/counted.hpp"
#include "cuda_test_support.hpp"
#include "device/kernel/pack.hpp"

namespace weft::test {
namespace {

using device::Segment;
using device::SegmentTable;
using device::Shape;
using Kind = Buffer::Kind;
using Random = std::mt19937_64;

class PackTest : public CudaTest {};

int64_t between(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

TEST(Divisor, IsDivision) {
  Random random(1);
  for (int i = 0; i < 200000; ++i) {
    const auto by = static_cast<uint32_t>(std::max<uint64_t>(1, random() >> (32 + random() % 32)));
    const auto n = static_cast<uint32_t>(random() >> (32 + random() % 32));
    ASSERT_EQ(device::kernel::Divisor(by).quotient(n), n / by) << n << " / " << by;
    ASSERT_EQ(device::kernel::Divisor(by).quotient(n / by * by), n / by);
    ASSERT_EQ(device::kernel::Divisor(by).quotient(~0u), ~0u / by) << by;
  }
}

/// One side: its shape, and the buffer offset of each byte of its packed stream.
struct Side {
  Shape shape;
  std::unique_ptr<SegmentTable> table;
  std::vector<size_t> map;
  size_t bytes_needed = 0;
};

/// Shifts the map to start at `origin`; returns the required buffer size.
int64_t rebase(Side& side, std::vector<int64_t> offsets, size_t origin) {
  const int64_t low = *std::min_element(offsets.begin(), offsets.end());
  const int64_t shift = static_cast<int64_t>(origin) - low;
  for (const int64_t offset : offsets) side.map.push_back(static_cast<size_t>(offset + shift));
  side.bytes_needed = *std::max_element(side.map.begin(), side.map.end()) + 33;
  return shift;
}

Side strided(Random& random, int64_t unit) {
  Side side;
  side.shape.length = unit * between(random, 1, 40);
  side.shape.dimensions = static_cast<int>(between(random, 0, 3));
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < side.shape.length; ++i) offsets.push_back(i);
  int64_t width = side.shape.length;
  for (int i = 0; i < side.shape.dimensions; ++i) {
    const int64_t n = side.shape.count[i] = between(random, 1, 9);
    const int64_t gap = unit * between(random, 0, 30), sign = random() % 4 == 0 ? -1 : 1;
    side.shape.stride[i] = sign * (width + gap);
    width = width * n + gap * (n - 1);
    const std::vector<int64_t> inner = offsets;
    offsets.clear();
    for (int64_t k = 0; k < n; ++k)
      for (const int64_t offset : inner) offsets.push_back(offset + k * side.shape.stride[i]);
  }
  const int64_t shift = rebase(side, std::move(offsets), static_cast<size_t>(unit * between(random, 0, 5)));
  side.shape.address = static_cast<uint64_t>(shift);  // the address of the buffer is added later
  return side;
}

Side tabled(Random& random, int64_t unit, const Memory& near) {
  Side side;
  std::vector<Segment> segments;
  std::vector<int64_t> offsets;
  const int64_t elements = between(random, 1, 5);
  int64_t end = 0;
  for (int64_t i = between(random, 1, 200); i > 0; --i) {
    end += unit * between(random, 0, 3);
    segments.push_back({end, unit * between(random, 1, i % 7 == 0 ? 300 : 3)});
    end += segments.back().length;
  }
  if (random() % 2 == 0) std::shuffle(segments.begin(), segments.end(), random);
  for (int64_t element = 0; element < elements; ++element)
    for (const Segment& segment : segments)
      for (int64_t i = 0; i < segment.length; ++i)
        offsets.push_back(element * end + segment.displacement + i);
  auto made = SegmentTable::create(segments, near);
  EXPECT_TRUE(made.ok());
  side.table = std::move(*made);
  side.shape.table = side.table.get();
  side.shape.stride[0] = end;
  const int64_t shift = rebase(side, std::move(offsets), static_cast<size_t>(unit * between(random, 0, 5)));
  side.shape.address = static_cast<uint64_t>(shift);
  return side;
}

Side any_side(Random& random, int64_t unit, const Memory& near) {
  return random() % 2 == 0 ? strided(random, unit) : tabled(random, unit, near);
}

void check(Random& random, Kind to_kind, Kind from_kind) {
  const Buffer anchor(Kind::device, 64);
  const int64_t unit = int64_t{1} << between(random, 0, 4);
  Side to = any_side(random, unit, anchor.memory()), from = any_side(random, unit, anchor.memory());
  Buffer dst(to_kind, to.bytes_needed), src(from_kind, from.bytes_needed);
  to.shape.address += reinterpret_cast<uint64_t>(dst.data());
  from.shape.address += reinterpret_cast<uint64_t>(src.data());
  const auto bytes = pattern(from.bytes_needed, static_cast<unsigned>(random()));
  auto expected = pattern(to.bytes_needed, static_cast<unsigned>(random()));
  src.write(bytes);
  dst.write(expected);
  const size_t step = random() % 2 == 0 ? static_cast<size_t>(unit) : 1;
  to.shape.offset =
      static_cast<uint64_t>(between(random, 0, static_cast<int64_t>(to.map.size() - 1))) / step * step;
  from.shape.offset =
      static_cast<uint64_t>(between(random, 0, static_cast<int64_t>(from.map.size() - 1))) / step * step;
  const size_t n = std::min(to.map.size() - to.shape.offset, from.map.size() - from.shape.offset);
  for (size_t i = 0; i < n; ++i)
    expected[to.map[to.shape.offset + i]] = bytes[from.map[from.shape.offset + i]];
  auto ticket =
      device::pack_async(to.shape, dst.memory(), from.shape, src.memory(), n, device::StreamRole::local);
  ASSERT_OK(ticket);
  ASSERT_OK(device::wait(*ticket));
  ASSERT_EQ(dst.read(), expected) << "unit " << unit << ", " << n << " bytes";
}

TEST_F(PackTest, RandomShapes) {
  Random random(3);
  for (int i = 0; i < 150 && !HasFatalFailure(); ++i) check(random, Kind::device, Kind::device);
  for (const Kind kind : {Kind::pool, Kind::managed, Kind::mapped})
    for (int i = 0; i < 15 && !HasFatalFailure(); ++i) {
      check(random, kind, Kind::device);
      check(random, Kind::device, kind);
    }
}

TEST_F(PackTest, RejectsHostMemory) {
  const Buffer here(Kind::device, 64), pinned(Kind::pinned, 64);
  char local[64];
  EXPECT_FALSE(device::can_pack(here.memory(), device::classify(local)));
  EXPECT_FALSE(device::can_pack(pinned.memory(), here.memory()));
  EXPECT_FALSE(device::can_pack(device::classify(local), device::classify(local)));
}

/// Shape with every second word of a buffer.
Shape every_second(const Buffer& buffer, int64_t words) {
  Shape shape = device::contiguous_shape(buffer.data());
  shape.length = 8;
  shape.dimensions = 1;
  shape.count[0] = words;
  shape.stride[0] = 16;
  return shape;
}

constexpr size_t kWords = 20'000, kBytes = 8 * kWords;

/// Concurrent packing into a buffer and unpacking from it.
struct PackAndUnpack {
  Buffer from{Kind::device, 2 * kBytes}, between{Kind::device, kBytes}, to{Kind::device, 2 * kBytes},
      flags{Kind::device, device::TileSync::kTiles * sizeof(uint64_t)};
  std::vector<char> sent = pattern(2 * kBytes, 5), expected = pattern(2 * kBytes, 6);
  device::TileSync sync{device::TileSync::Role::consumes, device::sync_tile_bytes(kBytes),
                        reinterpret_cast<uint64_t>(flags.data()), 7};

  PackAndUnpack() {
    from.write(sent);
    to.write(expected);
    flags.write(std::vector<char>(device::TileSync::kTiles * sizeof(uint64_t)));
    for (size_t i = 0; i < 2 * kBytes; i += 16)
      std::copy_n(sent.begin() + static_cast<long>(i), 8, expected.begin() + static_cast<long>(i));
  }
  Result<device::Ticket> unpack() { return unpack_runs_of(1); }
  Result<device::Ticket> unpack_runs_of(int64_t words) {
    Shape shape = every_second(to, kWords / words);
    shape.length *= words;
    shape.stride[0] *= words;
    return device::pack_async(shape, to.memory(), device::contiguous_shape(between.data()), between.memory(),
                              kBytes, device::StreamRole::in, sync);
  }
  Result<device::Ticket> pack() {
    device::TileSync produces = sync;
    produces.role = device::TileSync::Role::produces;
    return device::pack_async(device::contiguous_shape(between.data()), between.memory(),
                              every_second(from, kWords), from.memory(), kBytes, device::StreamRole::out,
                              produces);
  }
};

TEST_F(PackTest, UnpackOverlapsWithPack) {
  PackAndUnpack r;
  ASSERT_TRUE(device::can_sync_tiles(r.to.memory()));
  const Counted launches("gpu.pack_launches");
  for (int attempt = 0;; ++attempt) {  // the emulated GPU may exceed the timeout
    auto follows = r.unpack(), leads = r.pack();
    ASSERT_OK(follows);
    ASSERT_OK(leads);
    const Status outcome = device::wait(*follows);
    ASSERT_OK(device::wait(*leads));
    if (outcome) break;
    ASSERT_EQ(outcome.error().code(), Errc::again);
    ASSERT_LT(attempt, 100);
    ++r.sync.epoch;
  }
  EXPECT_EQ(r.to.read(), r.expected);
  EXPECT_GT(launches.growth(), 0u);
}

TEST_F(PackTest, MissingTilesTimeOut) {
  PackAndUnpack r;
  ASSERT_TRUE(device::can_sync_tiles(r.to.memory()));
  const Counted timeouts("gpu.pack_timeouts"), not_started("gpu.pack_not_started");
  auto follows = r.unpack();
  ASSERT_OK(follows);
  const Status outcome = device::wait(*follows);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), Errc::again);
  EXPECT_EQ(timeouts.growth() + not_started.growth(), 1u);
}

// Prefetching applies only to runs below a sector of memory.
TEST_F(PackTest, ShortRunsArePrefetched) {
  PackAndUnpack r;
  ASSERT_TRUE(device::can_sync_tiles(r.to.memory()));
  for (const int64_t words : {1, 2, 4}) {
    const Counted prefetches("gpu.pack_prefetches");
    auto follows = r.unpack_runs_of(words);
    ASSERT_OK(follows);
    EXPECT_FALSE(device::wait(*follows).ok());  // no kernel packs
    EXPECT_EQ(prefetches.growth(), words < 4 ? 1U : 0U) << words;
  }
}

// The application's kernel occupies the GPU, so copy engines must pack.
TEST_F(PackTest, FullGpuPacksByCopyEngines) {
  const char *pack = std::getenv("WEFT_GPU_PACK"), *timeout = std::getenv("WEFT_GPU_PACK_TIMEOUT_NS");
  if (pack == nullptr || timeout == nullptr || std::strlen(timeout) > 9)
    GTEST_SKIP() << "the timeout is too long, or there is none";
  // A real driver copies inside a GPU with kernels; for copies between GPUs see p2p/device_full.
  if (!cuda().emulated()) GTEST_SKIP() << "the driver copies inside a GPU with kernels";
  Buffer from(Kind::device, 2 * kBytes), to(Kind::device, kBytes);
  FullGpu gpu(0);
  const auto sent = pattern(2 * kBytes, 9);
  from.write(sent);
  const Counted not_started("gpu.pack_not_started");
  gpu.fill();
  device::Ticket tickets[12];  // more than slots
  for (auto& ticket : tickets) {
    auto made =
        device::pack_async(device::contiguous_shape(to.data()), to.memory(), every_second(from, kWords),
                           from.memory(), kBytes, device::StreamRole::local);
    ASSERT_OK(made);
    ticket = std::move(*made);
  }
  for (auto& ticket : tickets) ASSERT_OK(device::wait(ticket));
  EXPECT_TRUE(gpu.full());
  EXPECT_EQ(not_started.growth(), std::size(tickets));
  gpu.release();
  std::vector<char> expected;
  for (size_t i = 0; i < 2 * kBytes; i += 16)
    expected.insert(expected.end(), sent.begin() + static_cast<long>(i),
                    sent.begin() + static_cast<long>(i + 8));
  EXPECT_EQ(to.read(), expected);
}

TEST_F(PackTest, TooLargeIsRejected) {
  const Buffer here(Kind::device, 64);
  Shape shape = device::contiguous_shape(here.data());
  shape.length = int64_t{1} << 33;
  shape.dimensions = 2;
  shape.count[0] = 8;
  shape.stride[0] = shape.length * 2 + 1;
  shape.stride[1] = shape.stride[0] * 8;
  const auto ticket = device::pack_async(device::contiguous_shape(here.data()), here.memory(), shape,
                                         here.memory(), 64, device::StreamRole::local);
  ASSERT_FALSE(ticket.ok());
  EXPECT_EQ(ticket.error().code(), Errc::unsupported);
}

}  // namespace
}  // namespace weft::test
