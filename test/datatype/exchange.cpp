// SPDX-License-Identifier: BSD-3-Clause
// Sends random datatypes around a ring: to the same type, packed, or to another layout with the same
// signature. Compares every byte with the oracle's type map. usage: exchange rounds COUNT SEED; exchange
// seconds TIME [SEED]
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "datatype/message_buffer.hpp"
#include "datatype/mirror.hpp"
#include "datatype/support.hpp"
#include "reference/rounds.hpp"

namespace {

using weft::datatype::Count;
using weft::test::between;

constexpr Count kLargest = 400000;  // bytes per message
int rank = 0, size = 0;
long bytes_compared = 0;

/// `count` elements of an MPI datatype, with the oracle's byte displacements.
struct Layout {
  MPI_Datatype type;
  Count count, low = 0, high = 0;
  std::vector<Count> map;

  Layout(MPI_Datatype made, Count n, std::vector<Count> bytes) : type(made), count(n), map(std::move(bytes)) {
    for (const Count at : map) low = std::min(low, at), high = std::max(high, at + 1);
    MPI_Type_commit(&type);
  }
  [[nodiscard]] bool overlaps() const {
    std::vector<Count> sorted = map;
    std::sort(sorted.begin(), sorted.end());
    return std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  }
};

/// Memory for a layout with 8 guard bytes on both sides.
struct Memory {
  std::vector<char> bytes;
  Count origin;
  explicit Memory(const Layout& layout)
      : bytes(static_cast<size_t>(layout.high - layout.low + 16)), origin(8 - layout.low) {}
};

void fail(const std::string& what) {
  std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

void fill(Memory& memory, int from, uint64_t seed) {
  for (size_t i = 0; i < memory.bytes.size(); ++i)
    memory.bytes[i] = static_cast<char>(static_cast<uint64_t>(from) * 37 + i * 13 + (i >> 8) + seed);
}

/// The bytes of the layout in type-map order.
std::vector<char> stream_of(const Memory& memory, const Layout& layout) {
  std::vector<char> stream;
  for (const Count at : layout.map) stream.push_back(memory.bytes[static_cast<size_t>(memory.origin + at)]);
  return stream;
}

/// The elements with gaps between them: another layout with the same signature.
Layout spread(const Layout& layout, const weft::reference::TypeMap& map, weft::test::Random& random) {
  const Count stride = (map.true_ub() - map.true_lb()) * between(random, 1, 2) + between(random, 0, 9);
  MPI_Datatype made;
  MPI_Type_create_hvector_c(layout.count, 1, stride, layout.type, &made);
  std::vector<Count> bytes;
  for (Count i = 0; i < layout.count; ++i)
    for (const Count at : byte_map(map, 1)) bytes.push_back(i * stride + at);
  return {made, 1, std::move(bytes)};
}

Layout plain(Count n, MPI_Datatype type) {
  std::vector<Count> bytes(static_cast<size_t>(n));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<Count>(i);
  return {type, n, std::move(bytes)};
}

void transfer(char* out, const Layout& sent, char* in, const Layout& received, Count mode,
              MPI_Status& status) {
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  if (mode == 0) {
    MPI_Sendrecv_c(out, sent.count, sent.type, right, 1, in, received.count, received.type, left, 1,
                   MPI_COMM_WORLD, &status);
    return;
  }
  MPI_Request requests[2];
  if (mode == 3) {  // persistent, twice
    MPI_Recv_init_c(in, received.count, received.type, left, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init_c(out, sent.count, sent.type, right, 1, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 2; ++i) {
      MPI_Startall(2, requests);
      MPI_Wait(&requests[0], &status);
      MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    return;
  }
  auto* const call = mode == 1 ? &MPI_Isend_c : &MPI_Issend_c;
  call(out, sent.count, sent.type, right, 1, MPI_COMM_WORLD, &requests[0]);
  if (mode == 2) MPI_Probe(left, 1, MPI_COMM_WORLD, &status);
  MPI_Irecv_c(in, received.count, received.type, left, 1, MPI_COMM_WORLD, &requests[1]);
  MPI_Wait(&requests[1], &status);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

void exchange(const Layout& sent, const Layout& received, Count elements, Count mode, uint64_t seed) {
  Memory out(sent), in(received), theirs(sent);
  fill(out, rank, seed);
  fill(theirs, (rank + size - 1) % size, seed);
  fill(in, 99, seed);
  Memory expected = in;
  const auto stream = stream_of(theirs, sent);
  for (size_t i = 0; i < stream.size(); ++i)
    expected.bytes[static_cast<size_t>(expected.origin + received.map[i])] = stream[i];
  MPI_Status status;
  const weft::test::MessageBuffer from(out.bytes), to(in.bytes);
  transfer(from.data() + out.origin, sent, to.data() + in.origin, received, mode, status);
  to.download();
  if (in.bytes != expected.bytes) {
    const auto at =
        std::mismatch(in.bytes.begin(), in.bytes.end(), expected.bytes.begin()).first - in.bytes.begin();
    fail("byte " + std::to_string(at - in.origin) + " of the receive buffer is wrong (mode " +
         std::to_string(mode) + ", " + std::to_string(stream.size()) + " bytes)");
  }
  MPI_Count got = -1;
  MPI_Get_elements_c(&status, received.type, &got);
  if (elements >= 0 && got != elements)
    fail(std::to_string(got) + " elements received, not " + std::to_string(elements));
  bytes_compared += static_cast<long>(stream.size());
}

/// Checks size and extents of one element.
void check_queries(MPI_Datatype type, const weft::reference::TypeMap& map) {
  MPI_Count bytes, lb, extent, true_lb, true_extent;
  MPI_Type_size_c(type, &bytes);
  MPI_Type_get_extent_c(type, &lb, &extent);
  MPI_Type_get_true_extent_c(type, &true_lb, &true_extent);
  if (bytes != map.size() || lb != map.lb() || extent != map.extent() || true_lb != map.true_lb() ||
      true_extent != map.true_ub() - map.true_lb())
    fail("size or extent is wrong");
}

/// Checks MPI_Pack in two steps, and MPI_Unpack.
void check_pack(const Layout& layout, Count first, uint64_t seed) {
  Memory memory(layout);
  fill(memory, rank, seed);
  MPI_Aint extent, lb;
  MPI_Type_get_extent(layout.type, &lb, &extent);
  MPI_Count packed_size = 0, position = 0;
  MPI_Pack_size_c(layout.count, layout.type, MPI_COMM_WORLD, &packed_size);
  std::vector<char> packed(static_cast<size_t>(packed_size));
  const weft::test::MessageBuffer from(memory.bytes), to(packed);
  char* const elements = from.data() + memory.origin;
  MPI_Pack_c(elements, first, layout.type, to.data(), packed_size, &position, MPI_COMM_WORLD);
  MPI_Pack_c(elements + first * extent, layout.count - first, layout.type, to.data(), packed_size, &position,
             MPI_COMM_WORLD);
  to.download();
  if (position != packed_size || packed != stream_of(memory, layout))
    fail("MPI_Pack produces a wrong stream");
  if (layout.overlaps()) return;
  Memory expected(layout);
  expected.bytes.assign(expected.bytes.size(), '\x66');
  Memory unpacked = expected;
  for (size_t i = 0; i < packed.size(); ++i)
    expected.bytes[static_cast<size_t>(expected.origin + layout.map[i])] = packed[i];
  const weft::test::MessageBuffer stream(packed), back(unpacked.bytes);
  position = 0;
  MPI_Unpack_c(stream.data(), packed_size, &position, back.data() + unpacked.origin, layout.count,
               layout.type, MPI_COMM_WORLD);
  back.download();
  if (position != packed_size || unpacked.bytes != expected.bytes) fail("MPI_Unpack writes wrong bytes");
}

void round(uint64_t seed) {
  weft::test::Random random(seed);
  const weft::test::Type type = weft::test::random_type(random, static_cast<int>(between(random, 1, 4)));
  const auto map = weft::reference::typemap(*type);
  const Count largest = std::max<Count>(1, kLargest / std::max<Count>(map.size(), 1));
  const Count count =
      std::min(largest, between(random, 0, 3) == 0 ? between(random, 100, 3000) : between(random, 0, 5));
  if (map.size() > kLargest) return;
  const Layout layout(weft::test::mirror(*type), count, byte_map(map, count));
  check_queries(layout.type, map);
  check_pack(layout, between(random, 0, count), seed);
  const auto n = static_cast<Count>(layout.map.size()),
             elements = static_cast<Count>(map.elements.size()) * count;
  const Count mode = between(random, 0, 3);
  const Layout packed = plain(n, MPI_PACKED);
  exchange(layout, packed, n, mode, seed);
  const Layout apart = spread(layout, map, random);
  if (!layout.overlaps()) {
    exchange(packed, layout, elements, mode, seed);
    exchange(apart, layout, elements, mode, seed);
    exchange(layout, layout, elements, mode, seed);
  }
  if (!apart.overlaps()) exchange(layout, apart, elements, mode, seed);
  weft::test::free_mirror(apart.type);
  weft::test::free_mirror(layout.type);
}

}  // namespace

int main(int argc, char** argv) {
  weft::test::open_message_buffers();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const long rounds = randomized::run_rounds(argc, argv, [](uint64_t seed) { round(seed); });
  if (rank == 0) std::printf("%ld rounds, %ld bytes compared in rank 0\n", rounds, bytes_compared);
  MPI_Finalize();
  return 0;
}
