// SPDX-License-Identifier: BSD-3-Clause
// Random datatypes, and the comparison of a datatype with the byte map of the oracle.
#include "datatype/support.hpp"

#include <algorithm>
#include <cstring>

namespace weft::test {
namespace {

using datatype::Width;

Width random_width(Random& random) { return between(random, 0, 1) == 0 ? Width::narrow : Width::wide; }

std::vector<Count> numbers(Random& random, size_t n, Count low, Count high) {
  std::vector<Count> values(n);
  for (Count& value : values) value = between(random, low, high);
  return values;
}

Type random_basic(Random& random) {
  const auto all = datatype::all_predefined();
  return Type(all[static_cast<size_t>(between(random, 0, static_cast<Count>(all.size()) - 1))]);
}

Type random_struct(Random& random, int depth) {
  const auto n = static_cast<size_t>(between(random, 0, 3));
  std::vector<Type> parts;
  std::vector<Datatype*> types;
  for (size_t i = 0; i < n; ++i) {
    parts.push_back(random_type(random, depth - 1));
    types.push_back(parts.back().get());
  }
  return must(
      datatype::struct_(numbers(random, n, 0, 2), numbers(random, n, -40, 200), types, random_width(random)));
}

Type random_array(Random& random, Datatype& old, bool distributed) {
  const auto n = static_cast<size_t>(between(random, 1, 3));
  const auto order = between(random, 0, 1) == 0 ? datatype::Order::c : datatype::Order::fortran;
  const auto sizes = numbers(random, n, 1, 5);
  if (!distributed) {
    std::vector<Count> subsizes(n), starts(n);
    for (size_t d = 0; d < n; ++d) {
      subsizes[d] = between(random, 1, sizes[d]);
      starts[d] = between(random, 0, sizes[d] - subsizes[d]);
    }
    return must(datatype::subarray(sizes, subsizes, starts, order, old, random_width(random)));
  }
  std::vector<int> distributions(n), arguments(n), psizes(n);
  int processes = 1;
  for (size_t d = 0; d < n; ++d) {
    distributions[d] = static_cast<int>(between(random, 16, 18));
    psizes[d] = distributions[d] == 16 ? 1 : static_cast<int>(between(random, 1, 3));
    const auto least = distributions[d] == 17 ? (sizes[d] + psizes[d] - 1) / psizes[d] : 1;
    arguments[d] = between(random, 0, 1) == 0 ? datatype::kDefaultDistributionArgument
                                              : static_cast<int>(between(random, least, least + 2));
    processes *= psizes[d];
  }
  const auto rank = static_cast<int>(between(random, 0, processes - 1));
  return must(datatype::darray({processes, rank, sizes, distributions, arguments, psizes, order}, old,
                               random_width(random)));
}

}  // namespace

Type random_type(Random& random, int depth) {
  if (depth == 0) return random_basic(random);
  const Count kind = between(random, 0, 12);
  if (kind == 0) return random_struct(random, depth);
  Type old = random_type(random, depth - 1);
  const Width width = random_width(random);
  const auto n = static_cast<size_t>(between(random, 0, 4));
  const Count length = between(random, 0, 3);
  switch (kind) {
    case 1:
      return must(datatype::contiguous(length, *old, width));
    case 2:
      return must(datatype::vector(length, between(random, 0, 3), between(random, -4, 5), *old, width));
    case 3:
      return must(datatype::hvector(length, between(random, 0, 3), between(random, -90, 90), *old, width));
    case 4:
      return must(datatype::indexed(numbers(random, n, 0, 3), numbers(random, n, -5, 9), *old, width));
    case 5:
      return must(datatype::hindexed(numbers(random, n, 0, 3), numbers(random, n, -50, 90), *old, width));
    case 6:
      return must(datatype::indexed_block(length, numbers(random, n, -5, 9), *old, width));
    case 7:
      return must(datatype::hindexed_block(length, numbers(random, n, -50, 90), *old, width));
    case 8:
      return random_array(random, *old, false);
    case 9:
      return random_array(random, *old, true);
    case 10:
      return must(datatype::resized(*old, between(random, -30, 30), between(random, -60, 60), width));
    case 11:
      return must(datatype::dup(*old));
    default:
      return must(datatype::vector(3, 1, 2, *old, width));  // more cases with a constant stride
  }
}

namespace {

/// Memory that covers the displacements of a byte map, filled with random bytes.
struct Memory {
  std::vector<unsigned char> bytes;
  Count low = 0;

  Memory(const std::vector<Count>& map, Random& random) {
    Count high = 0;
    for (const Count at : map) {
      low = std::min(low, at);
      high = std::max(high, at + 1);
    }
    bytes.resize(static_cast<size_t>(high - low) + 1);
    for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
  }
  unsigned char* origin() { return bytes.data() - low; }
};

/// Splits [0, total) at random positions.
std::vector<Count> cuts(Random& random, Count total) {
  std::vector<Count> at = {0, total};
  for (Count i = between(random, 0, 6); i > 0; --i) at.push_back(between(random, 0, total));
  std::sort(at.begin(), at.end());
  return at;
}

void check_bounds(const Datatype& type, const reference::TypeMap& map) {
  ASSERT_EQ(type.size(), map.size());
  EXPECT_EQ(type.lb(), map.lb());
  EXPECT_EQ(type.ub(), map.ub());
  EXPECT_EQ(type.true_lb(), map.true_lb());
  EXPECT_EQ(type.true_ub(), map.true_ub());
  EXPECT_EQ(type.basic_elements(), static_cast<Count>(map.elements.size()));
}

void check_pack(const Datatype& type, Count count, const std::vector<Count>& map, Random& random) {
  Memory memory(map, random);
  const auto total = static_cast<Count>(map.size());
  std::vector<unsigned char> expected, got(map.size() + 1, 0xEE);
  for (const Count at : map) expected.push_back(memory.origin()[at]);
  const auto at = cuts(random, total);
  for (size_t i = at.size() - 1; i > 0; --i) {  // backwards: any order is valid
    const auto n = static_cast<size_t>(at[i] - at[i - 1]);
    ASSERT_EQ(datatype::pack(type, count, memory.origin(), at[i - 1], got.data() + at[i - 1], n), n);
  }
  EXPECT_EQ(got.back(), 0xEE);
  got.pop_back();
  ASSERT_EQ(got, expected);
  got.assign(map.size() + 9, 0);
  EXPECT_EQ(datatype::pack(type, count, memory.origin(), 0, got.data(), map.size() + 9), map.size());
}

void check_unpack(const Datatype& type, Count count, const std::vector<Count>& map, Random& random) {
  Memory memory(map, random);
  std::vector<unsigned char> stream(map.size());
  for (auto& byte : stream) byte = static_cast<unsigned char>(random());
  Memory expected = memory;
  for (size_t i = 0; i < map.size(); ++i) expected.origin()[map[i]] = stream[i];
  const auto at = cuts(random, static_cast<Count>(map.size()));
  for (size_t i = 1; i < at.size(); ++i) {  // forwards: the type map may overlap
    const auto n = static_cast<size_t>(at[i] - at[i - 1]);
    ASSERT_EQ(datatype::unpack(type, count, memory.origin(), at[i - 1], stream.data() + at[i - 1], n), n);
  }
  ASSERT_EQ(memory.bytes, expected.bytes);
}

/// The packed stream of a slice is the byte range of the original stream.
void check_slice(Datatype& type, Count count, const std::vector<Count>& map, Random& random) {
  if (map.empty()) return;
  const auto total = static_cast<Count>(map.size());
  const Count from = between(random, 0, total), n = between(random, 0, total - from);
  const Type slice = must(datatype::slice(type, count, from, n));
  ASSERT_EQ(slice->size(), n);
  std::vector<Count> visited;
  datatype::for_each_run(*slice, 1, 0, n, [&](Count displacement, Count length) {
    for (Count i = 0; i < length; ++i) visited.push_back(displacement + i);
  });
  ASSERT_EQ(visited, std::vector<Count>(map.begin() + from, map.begin() + from + n));
}

void check_runs(const Datatype& type, Count count, const std::vector<Count>& map, Random& random) {
  const auto total = static_cast<Count>(map.size());
  const Count from = between(random, 0, total), n = between(random, 0, total - from);
  std::vector<Count> visited;
  datatype::for_each_run(type, count, from, n, [&](Count displacement, Count length) {
    for (Count i = 0; i < length; ++i) visited.push_back(displacement + i);
  });
  ASSERT_EQ(visited, std::vector<Count>(map.begin() + from, map.begin() + from + n));
  Count seen = 0;  // the visitor stops early
  datatype::for_each_run(type, count, 0, total, [&](Count, Count) { return ++seen < 2; });
  EXPECT_LE(seen, 2);
}

void check_strided(const Datatype& type, Count count, const std::vector<Count>& map) {
  const auto form = type.strided(count);
  if (!form) return;
  std::vector<Count> visited;
  for (Count k = 0; k < form->count[2]; ++k)
    for (Count j = 0; j < form->count[1]; ++j)
      for (Count i = 0; i < form->count[0]; ++i)
        for (Count b = 0; b < form->length; ++b)
          visited.push_back(form->displacement + i * form->stride[0] + j * form->stride[1] +
                            k * form->stride[2] + b);
  ASSERT_EQ(visited, map);
}

void check_elements(const Datatype& type, const reference::TypeMap& map, Random& random) {
  for (int i = 0; i < 5; ++i) {
    const Count bytes = between(random, 0, 2 * map.size() + 1);
    EXPECT_EQ(datatype::elements(type, bytes), reference::elements(map, bytes)) << bytes << " bytes";
    if (map.elements.empty()) continue;
    const Count wanted = between(random, 0, 2 * static_cast<Count>(map.elements.size()));
    EXPECT_EQ(reference::elements(map, datatype::bytes_of_elements(type, wanted)), wanted);
  }
}

}  // namespace

void check_against_oracle(Datatype& type, Count count, Random& random) {
  type.commit();
  const reference::TypeMap map = reference::typemap(type);
  check_bounds(type, map);
  if (testing::Test::HasFailure()) return;
  const auto bytes = reference::byte_map(map, count);
  if (type.contiguous()) {
    for (size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], static_cast<Count>(i));
  }
  check_pack(type, count, bytes, random);
  check_unpack(type, count, bytes, random);
  check_runs(type, count, bytes, random);
  check_slice(type, count, bytes, random);
  check_strided(type, count, bytes);
  check_elements(type, map, random);
}

}  // namespace weft::test
