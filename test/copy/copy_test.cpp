// SPDX-License-Identifier: BSD-3-Clause
// Copies between random views of all memory kinds and parts of their streams, compared with byte maps; the
// number of driver calls; exhausted memory and injected errors.
#include "copy/copy.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string_view>

#include "copy/double_buffer.hpp"
#include "datatype/support.hpp"
#include "device/cuda_test_support.hpp"
#include "device/pool.hpp"
#include "reference/counted.hpp"

namespace weft::test {
namespace {

using copy::DoubleBuffer;
using copy::View;
using device::StreamRole;
using Kind = Buffer::Kind;

constexpr Kind kKinds[] = {Kind::host, Kind::pinned, Kind::device, Kind::managed, Kind::pool, Kind::mapped};
constexpr size_t kChunk = 4096;

/// A typed buffer, and the place of each byte of its packed stream in it.
struct Side {
  Type type;
  std::vector<size_t> map;
  std::unique_ptr<Buffer> buffer;
  View view;
};

bool overlaps(std::vector<size_t> map) {
  std::sort(map.begin(), map.end());
  return std::adjacent_find(map.begin(), map.end()) != map.end();
}

/// A side whose stream has its bytes at `places` from the address.
Side make_side(Type type, Count count, const std::vector<Count>& places, Kind kind) {
  Side side;
  side.type = std::move(type);
  Count origin = 0, end = 0;
  for (const Count at : places) origin = std::max(origin, -at), end = std::max(end, at + 1);
  for (const Count at : places) side.map.push_back(static_cast<size_t>(origin + at));
  side.buffer = std::make_unique<Buffer>(kind, static_cast<size_t>(origin + end + 16));
  char* const address = side.buffer->data() + origin;
  side.view = side.type == nullptr ? copy::plain(address, side.buffer->memory())
                                   : copy::typed(address, count, *side.type, side.buffer->memory());
  return side;
}

Side plain_side(size_t n, Kind kind) {
  std::vector<Count> places(n);
  std::iota(places.begin(), places.end(), Count{0});
  return make_side(nullptr, 0, places, kind);
}

/// `count` elements of blocks that begin at `at` and have `length` words of `size` bytes.
std::vector<Count> places_of(const std::vector<Count>& at, Count length, Count size, Count count) {
  std::vector<Count> places;
  for (Count element = 0; element < count; ++element)
    for (const Count block : at)
      for (Count i = 0; i < length * size; ++i)
        places.push_back((element * (at.back() + length) + block) * size + i);
  return places;
}

/// Blocks at a constant distance.
Side strided_side(Count blocks, Count length, Count stride, Count count, Basic word, Kind kind) {
  std::vector<Count> at(static_cast<size_t>(blocks));
  for (Count i = 0; i < blocks; ++i) at[static_cast<size_t>(i)] = i * stride;
  Datatype& old = basic(word);
  return make_side(must(datatype::vector(blocks, length, stride, old)), count,
                   places_of(at, length, old.size(), count), kind);
}

/// Blocks that fill many chunks, at random distances if `irregular`: a table of runs.
Side large_side(Random& random, bool irregular, Kind kind) {
  const Basic word = random() % 2 == 0 ? Basic::float64 : Basic::byte;
  const Count blocks = between(random, 100, 3000), length = between(random, 1, 9),
              count = between(random, 1, 2);
  if (!irregular) return strided_side(blocks, length, length + between(random, 1, 5), count, word, kind);
  std::vector<Count> at(static_cast<size_t>(blocks));
  Count next = 0;
  for (Count& block : at) {
    block = next;
    next += length + between(random, 0, 3);
  }
  Datatype& old = basic(word);
  return make_side(must(datatype::indexed_block(length, at, old)), count,
                   places_of(at, length, old.size(), count), kind);
}

Side random_side(Random& random, Kind kind) {
  const Count what = between(random, 0, 4);
  if (what == 0) return plain_side(static_cast<size_t>(between(random, 1, 30'000)), kind);
  if (what > 1) return large_side(random, random() % 2 == 0, kind);
  Type type = random_type(random, static_cast<int>(between(random, 1, 3)));
  const Count count = between(random, 1, 4);
  const auto places =
      type->size() > 20'000 ? std::vector<Count>() : reference::byte_map(reference::typemap(*type), count);
  return make_side(std::move(type), count, places, kind);
}

/// Copies a part of the stream and compares all bytes of the target.
void check(Side& to, Side& from, size_t to_offset, size_t from_offset, size_t n, bool submits) {
  const auto bytes = pattern(from.buffer->size(), 11);
  auto expected = pattern(to.buffer->size(), 12);
  from.buffer->write(bytes);
  to.buffer->write(expected);
  for (size_t i = 0; i < n; ++i) expected[to.map[to_offset + i]] = bytes[from.map[from_offset + i]];
  const View target = to.view.from(to_offset), source = from.view.from(from_offset);
  if (submits) {
    auto ticket = copy::submit(target, source, n, StreamRole::out);
    ASSERT_OK(ticket);
    ASSERT_OK(device::wait(*ticket));
  } else {
    ASSERT_OK(copy::execute(target, source, n));
  }
  ASSERT_EQ(to.buffer->read(), expected);
}

/// The setting gpu.pack.
std::string_view executor() {
  const char* const text = std::getenv("WEFT_GPU_PACK");
  return text == nullptr ? "safe" : text;
}

class CopyServiceTest : public CudaTest {
 protected:
  void TearDown() override {
    if (cuda().emulated()) cuda().fail("");
    CudaTest::TearDown();
  }
};

TEST_F(CopyServiceTest, RandomViewsAndParts) {
  int checked = 0;
  for (unsigned seed = 1; seed <= 400; ++seed) {
    Random random(seed);
    const Kind to_kind = kKinds[random() % std::size(kKinds)],
               from_kind = random() % 2 == 0 ? Kind::device : kKinds[random() % std::size(kKinds)];
    Side to = random_side(random, to_kind), from = random_side(random, from_kind);
    if (to.map.empty() || from.map.empty() || overlaps(to.map)) continue;
    const auto to_offset = static_cast<size_t>(between(random, 0, static_cast<Count>(to.map.size()) - 1)),
               from_offset = static_cast<size_t>(between(random, 0, static_cast<Count>(from.map.size()) - 1));
    const size_t most = std::min(to.map.size() - to_offset, from.map.size() - from_offset);
    const size_t n =
        random() % 3 == 0 ? static_cast<size_t>(between(random, 0, static_cast<Count>(most))) : most;
    check(to, from, to_offset, from_offset, n, random() % 2 == 0 && n != 0);
    ASSERT_FALSE(HasFailure()) << "seed " << seed << ": " << n << " bytes from " << name(from_kind) << " to "
                               << name(to_kind);
    ++checked;
  }
  EXPECT_GT(checked, 200);
}

/// Layouts of 2000 and 1000 runs of the same size.
Side column(Kind kind) { return strided_side(2000, 1, 3, 1, Basic::float64, kind); }
Side pairs(Kind kind) { return strided_side(1000, 2, 5, 1, Basic::float64, kind); }
constexpr size_t kBytes = 16'000;

unsigned long driver_copies() { return cuda().calls("cuMemcpyAsync") + cuda().calls("cuMemcpyBatchAsync"); }

TEST_F(CopyServiceTest, NoDriverCallForEachRun) {
  if (!cuda().emulated() || executor() == "off") GTEST_SKIP() << "counts calls of kernels";
  for (const Kind host : {Kind::host, Kind::pinned}) {
    for (const bool typed_host : {false, true}) {
      for (const bool typed_gpu : {false, true}) {
        if (!typed_host && !typed_gpu) continue;
        Side gpu = typed_gpu ? column(Kind::device) : plain_side(kBytes, Kind::device);
        Side cpu = typed_host ? pairs(host) : plain_side(kBytes, host);
        const unsigned long before = driver_copies();
        check(cpu, gpu, 0, 0, kBytes, false);
        check(gpu, cpu, 0, 0, kBytes, true);
        EXPECT_LE(driver_copies() - before, 2 * (kBytes / kChunk + 1)) << name(host);
      }
    }
  }
}

/// All pinned chunks of the pool.
std::vector<device::PinnedBuffer> lease_all(const Memory& near) {
  std::vector<device::PinnedBuffer> chunks;
  for (;;) {
    auto leased = device::lease_pinned(near);
    if (!leased) return chunks;
    chunks.push_back(std::move(*leased));
  }
}

TEST_F(CopyServiceTest, WithoutPinnedMemory) {
  Side gpu = column(Kind::device), plain = plain_side(kBytes, Kind::host), host = pairs(Kind::host);
  const auto all = lease_all(gpu.view.memory);
  const Counted scattered("gpu.scattered_copy");
  check(plain, gpu, 0, 0, kBytes, false);
  check(gpu, plain, 0, 0, kBytes, false);
  if (executor() != "off") {
    EXPECT_EQ(scattered.growth(), 0u) << "GPU memory serves as well";
  }
  check(host, gpu, 0, 0, kBytes, false);
  check(gpu, host, 0, 0, kBytes, false);
  EXPECT_GE(scattered.growth(), 2u);
}

TEST_F(CopyServiceTest, WithoutAnyStagingMemory) {
  Side gpu = column(Kind::device), plain = plain_side(kBytes, Kind::host);
  const auto all = lease_all(gpu.view.memory);
  auto pool = device::Workspace::lease(gpu.view.memory, size_t{8} << 20);
  ASSERT_OK(pool);
  const Counted scattered("gpu.scattered_copy");
  check(plain, gpu, 0, 0, kBytes, false);
  check(gpu, plain, 0, 0, kBytes, false);
  EXPECT_EQ(scattered.growth(), 2u);
}

TEST_F(CopyServiceTest, InjectedErrors) {
  if (!cuda().emulated()) GTEST_SKIP() << "needs the emulator";
  Side gpu = column(Kind::device), plain = plain_side(kBytes, Kind::host);
  check(plain, gpu, 0, 0, kBytes, false);
  const size_t chunks = lease_all(gpu.view.memory).size();
  int failed = 0;
  for (const char* call : {"cuGraphLaunch", "cuMemcpyAsync", "cuMemcpyBatchAsync"}) {
    for (int nth = 1; nth <= 3; ++nth) {
      for (const bool out : {true, false}) {
        const std::string fault = std::string(call) + ":" + std::to_string(nth) + ":1";
        ASSERT_EQ(cuda().fail((fault + "," + fault).c_str()), 0);
        failed +=
            copy::execute(out ? plain.view : gpu.view, out ? gpu.view : plain.view, kBytes).ok() ? 0 : 1;
        cuda().fail("");
        EXPECT_EQ(lease_all(gpu.view.memory).size(), chunks) << fault;
        check(plain, gpu, 0, 0, kBytes, false);
        check(gpu, plain, 0, 0, kBytes, false);
        ASSERT_FALSE(HasFailure()) << fault;
      }
    }
  }
  if (executor() != "safe") {  // with that setting a launch is repeated
    EXPECT_GT(failed, 0);
  }
}

TEST_F(CopyServiceTest, DoubleBufferAlternates) {
  Side gpu = column(Kind::device);
  const auto bytes = pattern(kBytes, 3);
  auto buffer = DoubleBuffer::lease(gpu.view.memory, kBytes);
  ASSERT_OK(buffer);
  std::vector<std::byte*> used;
  uint64_t next = 0;
  ASSERT_OK(buffer->upload(gpu.view, kBytes, StreamRole::in,
                           [&](std::byte* chunk, uint64_t at, size_t n) -> Status {
                             EXPECT_EQ(at, next);
                             EXPECT_LE(n, kChunk);
                             next += n;
                             used.push_back(chunk);
                             std::memcpy(chunk, bytes.data() + at, n);
                             return {};
                           }));
  EXPECT_EQ(next, kBytes);
  ASSERT_EQ(used.size(), (kBytes + kChunk - 1) / kChunk);
  EXPECT_NE(used[0], used[1]);
  for (size_t i = 2; i < used.size(); ++i) EXPECT_EQ(used[i], used[i - 2]);
  ASSERT_OK(buffer->wait());

  std::vector<char> read(kBytes);
  ASSERT_OK(buffer->download(gpu.view, kBytes, StreamRole::out,
                             [&](const std::byte* chunk, uint64_t at, size_t n) -> Status {
                               std::memcpy(read.data() + at, chunk, n);
                               return {};
                             }));
  EXPECT_EQ(read, bytes);
}

TEST_F(CopyServiceTest, DoubleBufferStopsAtAnError) {
  Side gpu = plain_side(kBytes, Kind::device);
  for (const bool upload : {true, false}) {
    auto buffer = DoubleBuffer::lease(gpu.view.memory, kBytes);
    ASSERT_OK(buffer);
    int steps = 0;
    const auto step = [&](std::byte*, uint64_t, size_t) -> Status {
      if (++steps == 2) return Error(Errc::other, "the source has ended");
      return {};
    };
    const Status outcome = upload ? buffer->upload(gpu.view, kBytes, StreamRole::in, step)
                                  : buffer->download(gpu.view, kBytes, StreamRole::out, step);
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(std::string_view(outcome.error().message()), "the source has ended");
    EXPECT_EQ(steps, 2);
  }
}

TEST_F(CopyServiceTest, DoubleBufferOfPageableMemory) {
  Side gpu = column(Kind::device);
  const auto all = lease_all(gpu.view.memory);
  const Counted pageable("gpu.pageable_staging");
  auto buffer = DoubleBuffer::lease_any(gpu.view.memory, kBytes);
  EXPECT_EQ(pageable.growth(), 1u);
  EXPECT_FALSE(DoubleBuffer::lease(gpu.view.memory, kBytes));
  const auto bytes = pattern(kBytes, 5);
  ASSERT_OK(
      buffer.upload(gpu.view, kBytes, StreamRole::in, [&](std::byte* chunk, uint64_t at, size_t n) -> Status {
        std::memcpy(chunk, bytes.data() + at, n);
        return {};
      }));
  ASSERT_OK(buffer.wait());
  std::vector<char> read(kBytes);
  ASSERT_OK(copy::execute(copy::plain(read.data()), gpu.view, kBytes));
  EXPECT_EQ(read, bytes);
}

}  // namespace
}  // namespace weft::test
