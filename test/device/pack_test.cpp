// SPDX-License-Identifier: BSD-3-Clause
// The pack kernel: random shapes on both sides, strided and by table, cut anywhere, every word size and kind
// of memory, against a plain loop; divisions by invariant numbers.
#include "device/pack.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

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

/// One side: its shape, and where each byte of its packed stream lies in its buffer.
struct Side {
  Shape shape;
  std::unique_ptr<SegmentTable> table;
  std::vector<size_t> map;
  size_t room = 0;
};

/// Moves the map so that it starts at `origin`, and says how much room it needs.
int64_t settle(Side& side, std::vector<int64_t> places, size_t origin) {
  const int64_t low = *std::min_element(places.begin(), places.end());
  const int64_t shift = static_cast<int64_t>(origin) - low;
  for (const int64_t place : places) side.map.push_back(static_cast<size_t>(place + shift));
  side.room = *std::max_element(side.map.begin(), side.map.end()) + 33;
  return shift;
}

Side strided(Random& random, int64_t unit) {
  Side side;
  side.shape.length = unit * between(random, 1, 40);
  side.shape.dimensions = static_cast<int>(between(random, 0, 3));
  std::vector<int64_t> places;
  for (int64_t i = 0; i < side.shape.length; ++i) places.push_back(i);
  int64_t width = side.shape.length;
  for (int i = 0; i < side.shape.dimensions; ++i) {
    const int64_t n = side.shape.count[i] = between(random, 1, 9);
    const int64_t gap = unit * between(random, 0, 30), sign = random() % 4 == 0 ? -1 : 1;
    side.shape.stride[i] = sign * (width + gap);
    width = width * n + gap * (n - 1);
    const std::vector<int64_t> inner = places;
    places.clear();
    for (int64_t k = 0; k < n; ++k)
      for (const int64_t place : inner) places.push_back(place + k * side.shape.stride[i]);
  }
  const int64_t shift = settle(side, std::move(places), static_cast<size_t>(unit * between(random, 0, 5)));
  side.shape.address = static_cast<uint64_t>(shift);  // to which the buffer's is added
  return side;
}

Side tabled(Random& random, int64_t unit, const Memory& near) {
  Side side;
  std::vector<Segment> segments;
  std::vector<int64_t> places;
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
      for (int64_t i = 0; i < segment.length; ++i) places.push_back(element * end + segment.displacement + i);
  auto made = SegmentTable::create(segments, near);
  EXPECT_TRUE(made.ok());
  side.table = std::move(*made);
  side.shape.table = side.table.get();
  side.shape.stride[0] = end;
  const int64_t shift = settle(side, std::move(places), static_cast<size_t>(unit * between(random, 0, 5)));
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
  Buffer dst(to_kind, to.room), src(from_kind, from.room);
  to.shape.address += reinterpret_cast<uint64_t>(dst.data());
  from.shape.address += reinterpret_cast<uint64_t>(src.data());
  const auto bytes = pattern(from.room, static_cast<unsigned>(random()));
  auto expected = pattern(to.room, static_cast<unsigned>(random()));
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
  auto ticket = device::pack_async(to.shape, dst.memory(), from.shape, src.memory(), n, device::Lane::local);
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

TEST_F(PackTest, NothingForHostMemory) {
  const Buffer here(Kind::device, 64), pinned(Kind::pinned, 64);
  char local[64];
  EXPECT_FALSE(device::can_pack(here.memory(), device::classify(local)));
  EXPECT_FALSE(device::can_pack(pinned.memory(), here.memory()));
  EXPECT_FALSE(device::can_pack(device::classify(local), device::classify(local)));
}

/// Every second word of a buffer.
Shape every_second(const Buffer& buffer, int64_t words) {
  Shape shape = device::plain(buffer.data());
  shape.length = 8;
  shape.dimensions = 1;
  shape.count[0] = words;
  shape.stride[0] = 16;
  return shape;
}

constexpr size_t kWords = 20'000, kBytes = 8 * kWords;

/// Packing into a buffer, and unpacking from there at the same time.
struct Relayed {
  Buffer from{Kind::device, 2 * kBytes}, between{Kind::device, kBytes}, to{Kind::device, 2 * kBytes},
      flags{Kind::device, device::Relay::kTiles * sizeof(uint64_t)};
  std::vector<char> sent = pattern(2 * kBytes, 5), expected = pattern(2 * kBytes, 6);
  device::Relay relay{device::Relay::Role::awaits, device::relay_tile(kBytes),
                      reinterpret_cast<uint64_t>(flags.data()), 7};

  Relayed() {
    from.write(sent);
    to.write(expected);
    flags.write(std::vector<char>(device::Relay::kTiles * sizeof(uint64_t)));
    for (size_t i = 0; i < 2 * kBytes; i += 16)
      std::copy_n(sent.begin() + static_cast<long>(i), 8, expected.begin() + static_cast<long>(i));
  }
  Result<device::Ticket> unpack() { return unpack_runs_of(1); }
  Result<device::Ticket> unpack_runs_of(int64_t words) {
    Shape shape = every_second(to, kWords / words);
    shape.length *= words;
    shape.stride[0] *= words;
    return device::pack_async(shape, to.memory(), device::plain(between.data()), between.memory(), kBytes,
                              device::Lane::in, relay);
  }
  Result<device::Ticket> pack() {
    device::Relay tells = relay;
    tells.role = device::Relay::Role::tells;
    return device::pack_async(device::plain(between.data()), between.memory(), every_second(from, kWords),
                              from.memory(), kBytes, device::Lane::out, tells);
  }
};

TEST_F(PackTest, OneKernelFollowsAnother) {
  Relayed r;
  ASSERT_TRUE(device::can_relay(r.to.memory()));
  const auto before = device::pack_counters(r.to.memory());
  for (int attempt = 0;; ++attempt) {  // the emulated GPU may be slower than a kernel's patience
    auto follows = r.unpack(), leads = r.pack();
    ASSERT_OK(follows);
    ASSERT_OK(leads);
    const Status outcome = device::wait(*follows);
    ASSERT_OK(device::wait(*leads));
    if (outcome) break;
    ASSERT_EQ(outcome.error().code(), Errc::again);
    ASSERT_LT(attempt, 100);
    ++r.relay.epoch;
  }
  EXPECT_EQ(r.to.read(), r.expected);
  EXPECT_GT(device::pack_counters(r.to.memory()).launched, before.launched);
}

TEST_F(PackTest, NothingToFollowIsSaid) {
  Relayed r;
  ASSERT_TRUE(device::can_relay(r.to.memory()));
  const auto before = device::pack_counters(r.to.memory());
  auto follows = r.unpack();
  ASSERT_OK(follows);
  const Status outcome = device::wait(*follows);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), Errc::again);
  const auto after = device::pack_counters(r.to.memory());
  EXPECT_EQ(after.missed + after.taken_back, before.missed + before.taken_back + 1);
}

// Only where each run is less than a sector of memory.
TEST_F(PackTest, PlacesOfShortRunsAreFetchedAhead) {
  Relayed r;
  ASSERT_TRUE(device::can_relay(r.to.memory()));
  for (const int64_t words : {1, 2, 4}) {
    const auto before = device::pack_counters(r.to.memory());
    auto follows = r.unpack_runs_of(words);
    ASSERT_OK(follows);
    EXPECT_FALSE(device::wait(*follows).ok());  // nobody packs
    EXPECT_EQ(device::pack_counters(r.to.memory()).touched - before.touched, words < 4 ? 1U : 0U) << words;
  }
}

// The application's kernel holds every place, so the copy engines must pack.
TEST_F(PackTest, AFullGpuPacksByTheEngines) {
  const char *pack = std::getenv("WEFT_GPU_PACK"), *patience = std::getenv("WEFT_GPU_PACK_PATIENCE");
  if (pack == nullptr || patience == nullptr || std::strlen(patience) > 9)
    GTEST_SKIP() << "waits for a place for a long time, or for ever";
  // A real driver copies inside a GPU by kernels of its own; between GPUs: p2p/device_full.
  if (!cuda().emulated()) GTEST_SKIP() << "fills the GPU of copies that the driver does by kernels";
  Buffer from(Kind::device, 2 * kBytes), to(Kind::device, kBytes);
  FullGpu gpu(0);
  const auto sent = pattern(2 * kBytes, 9);
  from.write(sent);
  const auto before = device::pack_counters(to.memory());
  gpu.fill();
  device::Ticket tickets[12];  // more than slots
  for (auto& ticket : tickets) {
    auto made = device::pack_async(device::plain(to.data()), to.memory(), every_second(from, kWords),
                                   from.memory(), kBytes, device::Lane::local);
    ASSERT_OK(made);
    ticket = std::move(*made);
  }
  for (auto& ticket : tickets) ASSERT_OK(device::wait(ticket));
  EXPECT_TRUE(gpu.full());
  EXPECT_EQ(device::pack_counters(to.memory()).taken_back, before.taken_back + std::size(tickets));
  gpu.release();
  std::vector<char> expected;
  for (size_t i = 0; i < 2 * kBytes; i += 16)
    expected.insert(expected.end(), sent.begin() + static_cast<long>(i),
                    sent.begin() + static_cast<long>(i + 8));
  EXPECT_EQ(to.read(), expected);
}

TEST_F(PackTest, TooLargeIsSaid) {
  const Buffer here(Kind::device, 64);
  Shape shape = device::plain(here.data());
  shape.length = int64_t{1} << 33;
  shape.dimensions = 2;
  shape.count[0] = 8;
  shape.stride[0] = shape.length * 2 + 1;
  shape.stride[1] = shape.stride[0] * 8;
  const auto ticket = device::pack_async(device::plain(here.data()), here.memory(), shape, here.memory(), 64,
                                         device::Lane::local);
  ASSERT_FALSE(ticket.ok());
  EXPECT_EQ(ticket.error().code(), Errc::unsupported);
}

}  // namespace
}  // namespace weft::test
