// SPDX-License-Identifier: BSD-3-Clause
// Speed of commit, packing and reductions relative to plain loops. Prints figures; fails only if a ratio is
// so large that the algorithm must be wrong (e.g. a scan instead of a seek).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>

#include "datatype/reduce.hpp"
#include "datatype/support.hpp"

namespace weft::test {
namespace {

double milliseconds(const std::function<void()>& work, int repeats = 7) {
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(
        best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

double print(const char* what, double bytes, double time, double plain) {
  std::printf("%-44s %8.3f ms %7.2f GB/s   plain loop %8.3f ms   ratio %.2f\n", what, time,
              bytes / time / 1e6, plain, time / plain);
  return time / plain;
}

/// Hand-written loop that copies blocks of `length` bytes.
template <size_t length>
void plain_gather(const char* from, char* to, size_t count, size_t stride) {
  for (size_t i = 0; i < count; ++i) std::memcpy(to + i * length, from + i * stride, length);
}

template <size_t length>
void vector_speed(const char* what, size_t stride) {
  const size_t count = (size_t{16} << 20) / stride;
  std::vector<char> from(count * stride, 1), to(count * length);
  const Type type = must(
      datatype::hvector(static_cast<Count>(count), length, static_cast<Count>(stride), basic(Basic::byte)));
  const double time = milliseconds([&] { datatype::pack(*type, 1, from.data(), 0, to.data(), to.size()); });
  const double back = milliseconds([&] { datatype::unpack(*type, 1, from.data(), 0, to.data(), to.size()); });
  const double plain = milliseconds([&] { plain_gather<length>(from.data(), to.data(), count, stride); });
  EXPECT_LT(print(what, static_cast<double>(to.size()), time, plain), 10);
  std::printf("%-44s %8.3f ms\n", "  unpack", back);
}

TEST(Speed, Vectors) {
  vector_speed<4>("pack 4 B of every 16 B", 16);
  vector_speed<8>("pack 8 B of every 64 B", 64);
  vector_speed<8>("pack 8 B of every 16 B", 16);
  vector_speed<16>("pack 16 B of every 64 B", 64);
  vector_speed<20>("pack 20 B of every 64 B", 64);
  vector_speed<64>("pack 64 B of every 128 B", 128);
  vector_speed<1024>("pack 1 KiB of every 2 KiB", 2048);
}

TEST(Speed, MillionBlocks) {
  const size_t n = 1000000;
  std::vector<Count> lengths(n), at(n);
  Count next = 0;
  Random random(3);
  for (size_t i = 0; i < n; ++i) {
    lengths[i] = between(random, 1, 3);
    at[i] = next;
    next += lengths[i] + between(random, 1, 3);
  }
  Datatype& doubles = basic(Basic::float64);
  Type type;
  const double make = milliseconds(
      [&] {
        type = must(datatype::indexed(lengths, at, doubles));
        type->commit();
      },
      3);
  std::printf("make and commit indexed of %zu blocks: %.1f ms\n", n, make);
  std::vector<double> from(static_cast<size_t>(next), 1);
  std::vector<char> to(static_cast<size_t>(type->size()));
  const double time = milliseconds([&] { datatype::pack(*type, 1, from.data(), 0, to.data(), to.size()); });
  const double plain = milliseconds([&] {
    char* out = to.data();
    for (size_t i = 0; i < n; ++i) {
      std::memcpy(out, from.data() + at[i], static_cast<size_t>(lengths[i]) * 8);
      out += lengths[i] * 8;
    }
  });
  EXPECT_LT(print("pack indexed, a million blocks of 1 to 3", static_cast<double>(to.size()), time, plain),
            10);
  const size_t fragment_bytes = 8192;
  const double fragments = milliseconds([&] {
    for (size_t done = to.size() / fragment_bytes; done-- > 0;)
      datatype::pack(*type, 1, from.data(), static_cast<Count>(done * fragment_bytes),
                     to.data() + done * fragment_bytes, fragment_bytes);
  });
  EXPECT_LT(print("  in 8 KiB fragments, backwards", static_cast<double>(to.size()), fragments, plain), 20);
  const Type equal = must(datatype::indexed_block(1, at, doubles));
  const double one = milliseconds([&] { datatype::pack(*equal, 1, from.data(), 0, to.data(), n * 8); });
  EXPECT_LT(print("pack indexed_block, a million doubles", 8e6, one, milliseconds([&] {
                    for (size_t i = 0; i < n; ++i) std::memcpy(to.data() + 8 * i, from.data() + at[i], 8);
                  })),
            10);
}

TEST(Speed, Nested) {
  Datatype& doubles = basic(Basic::float64);
  const std::vector<Count> sizes = {128, 128, 128}, subsizes = {128, 128, 1}, starts = {0, 0, 5};
  const Type face = must(datatype::subarray(sizes, subsizes, starts, datatype::Order::c, doubles));
  std::vector<double> from(128 * 128 * 128, 1), to(128 * 128);
  const double time =
      milliseconds([&] { datatype::pack(*face, 1, from.data(), 0, to.data(), to.size() * 8); });
  EXPECT_LT(print("pack the worst face of 128^3 doubles", 128 * 128 * 8, time, milliseconds([&] {
                    for (size_t i = 0; i < to.size(); ++i) to[i] = from[i * 128 + 5];
                  })),
            10);
  const std::vector<Count> one = {1, 1}, at = {0, 8};
  const std::vector<Datatype*> types = {&doubles, &basic(Basic::int32)};
  const Type record = must(datatype::struct_(one, at, types));
  std::vector<char> records(16 * 100000, 1), packed(12 * 100000);
  const double fields =
      milliseconds([&] { datatype::pack(*record, 100000, records.data(), 0, packed.data(), packed.size()); });
  EXPECT_LT(print("pack 100000 of {double, int}", 12e5, fields,
                  milliseconds([&] { plain_gather<12>(records.data(), packed.data(), 100000, 16); })),
            10);
  const std::vector<Count> apart = {0, 12};
  const Type holes = must(
      datatype::resized(*must(datatype::struct_(
                            one, apart, std::vector<Datatype*>{&basic(Basic::int32), &basic(Basic::int32)})),
                        0, 16));
  const double holed =
      milliseconds([&] { datatype::pack(*holes, 100000, records.data(), 0, packed.data(), 800000); });
  EXPECT_LT(print("pack 100000 of {int, gap, int}", 8e5, holed, milliseconds([&] {
                    for (size_t i = 0; i < 100000; ++i) {
                      std::memcpy(packed.data() + 8 * i, records.data() + 16 * i, 4);
                      std::memcpy(packed.data() + 8 * i + 4, records.data() + 16 * i + 12, 4);
                    }
                  })),
            20);
}

TEST(Speed, Reductions) {
  std::vector<double> a(1 << 15, 1), b(1 << 15, 2);
  std::vector<int8_t> c(1 << 18, 1), d(1 << 18, 2);
  const auto bytes = static_cast<double>(a.size() * 8);
  using datatype::ReduceOp;
  const double memory = milliseconds([&] { std::memcpy(b.data(), a.data(), a.size() * 8); }, 50);
  const auto rate = [&](ReduceOp op, Basic type, const void* in, void* inout, size_t n) {
    return milliseconds([&] { datatype::reduce_function(op, type)(in, inout, inout, n); }, 50);
  };
  print("double sum, 256 KiB (relative to memcpy)", bytes,
        rate(ReduceOp::sum, Basic::float64, a.data(), b.data(), a.size()), memory);
  print("float max", bytes, rate(ReduceOp::max, Basic::float32, a.data(), b.data(), 2 * a.size()), memory);
  print("int8 prod", bytes, rate(ReduceOp::prod, Basic::int8, c.data(), d.data(), c.size()), memory);
  print("complex double prod", bytes,
        rate(ReduceOp::prod, Basic::complex_float64, a.data(), b.data(), a.size() / 2), memory);
  print("double_int maxloc", bytes,
        rate(ReduceOp::maxloc, Basic::double_int, a.data(), b.data(), a.size() / 2), memory);
}

}  // namespace
}  // namespace weft::test
