// SPDX-License-Identifier: BSD-3-Clause
// The reduction kernel: operations, types, memory kinds, alignments, numbers of terms and lengths, in place
// and not, compared with host loops; padding and neighbouring bytes stay unchanged.
#include "device/reduce.hpp"

#include <cstring>
#include <string>

#include "cuda_test_support.hpp"
#include "datatype/reduce.hpp"
#include "numbers.hpp"

namespace weft::test {
namespace {

using datatype::Basic;
using datatype::ReduceOp;
using device::StreamRole;
using Kind = Buffer::Kind;

class ReduceTest : public CudaTest {};

struct Case {
  size_t count;
  size_t terms;
  size_t offset;  ///< of the result in its buffer; the offset of term i is larger by `skew` * i
  size_t skew;
  bool in_place;
};

constexpr Case kCases[] = {{1, 2, 0, 0, false},     {5, 2, 0, 0, true},     {1000, 2, 0, 0, false},
                           {1003, 3, 0, 0, true},   {997, 2, 16, 0, false}, {1009, 2, 32, 16, true},
                           {333, 17, 0, 0, false},  {21, 40, 0, 0, true},   {1001, 1, 0, 0, false},
                           {20011, 2, 0, 0, false}, {77, 2, 1, 0, false},   {130, 3, 3, 1, true}};

/// Expected bytes of the result and its surroundings.
std::vector<char> expect(datatype::ReduceFn function, const std::vector<std::vector<char>>& terms,
                         Basic basic, std::vector<char> bytes, size_t offset) {
  const size_t count = terms[0].size() / static_cast<size_t>(datatype::traits_of(basic).extent);
  std::vector<char> sum = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    std::vector<char> next = terms[i];
    function(sum.data(), next.data(), next.data(), count);
    sum = next;
  }
  // With the copying operation, padding stays unchanged.
  datatype::reduce_function(ReduceOp::replace, basic)(sum.data(), bytes.data() + offset,
                                                      bytes.data() + offset, count);
  return bytes;
}

template <class T>
void check(ReduceOp op, Basic basic, const Case& c, Kind kind) {
  const device::Reduction reduction = device::reduction_of(op, basic);
  if (!reduction.defined()) return;
  if (op == ReduceOp::prod && c.terms > 4) return;  // overflow; the bits of NaNs differ
  const size_t step = std::min<size_t>(sizeof(T), alignof(T) * (c.offset % 16 == 0 ? 1 : 0));
  const size_t at = c.offset + step * (c.count % 3), bytes = c.count * sizeof(T),
               buffer_bytes = bytes + at + 64;
  const std::string what = std::string(datatype::name(op)) + ' ' + datatype::traits_of(basic).name + ", " +
                           std::to_string(c.count) + " x " + std::to_string(c.terms) + " at " +
                           std::to_string(at) + ", " + name(kind);
  std::vector<std::vector<char>> terms;
  std::vector<std::unique_ptr<Buffer>> sources;
  std::vector<const void*> addresses;
  for (size_t i = 0; i < c.terms; ++i) {
    terms.push_back(numbers<T>(c.count, static_cast<unsigned>(i + c.count)));
    const size_t offset = at + (i == 0 && c.in_place ? 0 : c.skew * i);
    sources.push_back(std::make_unique<Buffer>(kind, offset + bytes + 64));
    sources.back()->write(pattern(sources.back()->size(), 9));
    sources.back()->write(terms.back(), offset);
    addresses.push_back(sources.back()->data() + offset);
  }
  Buffer other(kind, buffer_bytes);
  other.write(pattern(buffer_bytes, 9));
  const Buffer& result = c.in_place ? *sources[0] : other;
  const auto expected = expect(datatype::reduce_function(op, basic), terms, basic, result.read(), at);
  ASSERT_TRUE(device::can_reduce(result.memory(), sources.back()->memory())) << what;
  auto ticket = device::reduce_async(reduction, result.data() + at, result.memory(), addresses, bytes,
                                     StreamRole::local);
  ASSERT_OK(ticket);
  ASSERT_OK(device::wait(*ticket));
  const auto seen = result.read();
  for (size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], expected[i]) << what << ", byte " << i;
}

void check_all(const Case& c, Kind kind) {
  for (int op = 0; op < element::kReduceOpCount; ++op) {
#define WEFT_X(name, type, group) check<type>(static_cast<ReduceOp>(op), Basic::name, c, kind);
    WEFT_BASIC_TYPES(WEFT_X)
#undef WEFT_X
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST_F(ReduceTest, EveryOperationAndType) {
  for (const Case& c : kCases) check_all(c, Kind::device);
}

TEST_F(ReduceTest, EveryKind) {
  for (const Kind kind : {Kind::managed, Kind::pool, Kind::mapped})
    for (const Case& c : {kCases[1], kCases[4]})
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
        check<double>(op, Basic::float64, c, kind);
        check<int8_t>(op, Basic::int8, c, kind);
        check<element::Half>(op, Basic::float16, c, kind);
      }
}

TEST_F(ReduceTest, RejectsHostMemory) {
  const Buffer device(Kind::device, 64), pinned(Kind::pinned, 64);
  char local[64];
  EXPECT_FALSE(device::can_reduce(device.memory(), device::classify(local)));
  EXPECT_FALSE(device::can_reduce(device::classify(local), device.memory()));
  EXPECT_FALSE(device::can_reduce(device.memory(), pinned.memory()));
  auto ticket = device::reduce_async(device::reduction_of(ReduceOp::sum, Basic::float32), device.data(),
                                     device.memory(), {}, 0, StreamRole::local);
  ASSERT_OK(ticket);
  EXPECT_FALSE(ticket->pending());
}

}  // namespace
}  // namespace weft::test
