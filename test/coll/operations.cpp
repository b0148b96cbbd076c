// SPDX-License-Identifier: BSD-3-Clause
// Every predefined operation on every predefined type in the memory that TEST_MEMORY names (device; mixed:
// different kinds on different ranks), in every reduction collective, in place and not, compared with host
// loops.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "datatype/predefined.hpp"
#include "datatype/reduce.hpp"
#include "device/cuda_test_support.hpp"
#include "device/numbers.hpp"

namespace {

namespace element = weft::element;  // used by the table of types

using weft::datatype::Basic;
using weft::datatype::ReduceFn;
using weft::datatype::ReduceOp;
using weft::test::Buffer;

const struct {
  MPI_Op op;
  ReduceOp kind;
} kOps[] = {{MPI_SUM, ReduceOp::sum},        {MPI_MIN, ReduceOp::min},       {MPI_MAX, ReduceOp::max},
            {MPI_PROD, ReduceOp::prod},      {MPI_BAND, ReduceOp::band},     {MPI_BOR, ReduceOp::bor},
            {MPI_BXOR, ReduceOp::bxor},      {MPI_LAND, ReduceOp::land},     {MPI_LOR, ReduceOp::lor},
            {MPI_LXOR, ReduceOp::lxor},      {MPI_MINLOC, ReduceOp::minloc}, {MPI_MAXLOC, ReduceOp::maxloc},
            {MPI_REPLACE, ReduceOp::replace}};

int rank, size;
long checks = 0;
std::string situation;

[[noreturn]] void fail(const char* what, long a, long b) {
  std::fprintf(stderr, "rank %d: %s: %s (%ld, %ld)\n", rank, situation.c_str(), what, a, b);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

using Bytes = std::vector<char>;
using Input = Bytes (*)(size_t count, unsigned seed);

Input input_of(Basic basic) {
  switch (basic) {
#define WEFT_X(name, type, group) \
  case Basic::name:               \
    return weft::test::numbers<type>;
    WEFT_BASIC_TYPES(WEFT_X)
#undef WEFT_X
  }
  return nullptr;
}

Buffer::Kind kind_here() {
  const char* memory = std::getenv("TEST_MEMORY");
  if (memory == nullptr || std::string(memory) != "mixed") return Buffer::Kind::device;
  constexpr Buffer::Kind kKinds[] = {Buffer::Kind::device, Buffer::Kind::host, Buffer::Kind::managed};
  return kKinds[static_cast<size_t>(rank) % std::size(kKinds)];
}

/// One operation on one type.
struct Case {
  MPI_Op op;
  MPI_Datatype type;
  ReduceFn function;
  Basic basic;
  int64_t extent;

  [[nodiscard]] Bytes input(int of, int count) const {
    return input_of(basic)(static_cast<size_t>(count), static_cast<unsigned>(of * 1000 + count));
  }
  /// The terms of ranks [0, last], combined in order.
  [[nodiscard]] Bytes folded(int last, int count) const {
    Bytes sum = input(0, count);
    for (int i = 1; i <= last; ++i) {
      Bytes next = input(i, count);
      function(sum.data(), next.data(), next.data(), static_cast<size_t>(count));
      sum = next;
    }
    return sum;
  }
};

/// True if byte `i` of an array is padding, as in an 80-bit long double of 16 bytes.
bool is_padding(Basic basic, size_t i) {
  if (std::numeric_limits<long double>::digits != 64) return false;
  if (basic == Basic::long_double || basic == Basic::complex_long_double) return i % 16 >= 10;
  return basic == Basic::long_double_int && (i % 32 >= 20 || (i % 32 >= 10 && i % 32 < 16));
}

/// A buffer with guard bytes at the end.
struct TestBuffer {
  Buffer buffer;
  explicit TestBuffer(const Bytes& bytes)
      : buffer(kind_here(), bytes.size() + 16, rank % weft::test::cuda().devices) {
    buffer.write(Bytes(bytes.size() + 16, '\x33'));
    buffer.write(bytes);
  }
  /// Checks that elements [0, n) equal those of `wanted` from `first` on, except padding, and that the rest
  /// equals `before`.
  void expect(const Case& c, const Bytes& wanted, int first, int n, Bytes before) const {
    ++checks;
    before.resize(buffer.size(), '\x33');
    weft::datatype::reduce_function(ReduceOp::replace, c.basic)(
        wanted.data() + first * c.extent, before.data(), before.data(), static_cast<size_t>(n));
    const Bytes got = buffer.read();
    const size_t elements = static_cast<size_t>(n * c.extent);
    for (size_t i = 0; i < got.size(); ++i)
      if (got[i] != before[i] && !(i < elements && is_padding(c.basic, i)))
        fail("wrong byte", static_cast<long>(i), got[i]);
  }
};

void complete(int code, MPI_Request& request) {
  if (code != MPI_SUCCESS) fail("error code", code, 0);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void allreduce(const Case& c, int count, bool in_place) {
  const Bytes mine = c.input(rank, count), before(mine.size(), '\x44');
  const TestBuffer send(mine), recv(in_place ? mine : before);
  MPI_Request request;
  complete(MPI_Iallreduce(in_place ? MPI_IN_PLACE : send.buffer.data(), recv.buffer.data(), count, c.type,
                          c.op, MPI_COMM_WORLD, &request),
           request);
  recv.expect(c, c.folded(size - 1, count), 0, count, in_place ? mine : before);
  send.expect(c, mine, 0, count, mine);
}

void reduce(const Case& c, int count, bool in_place) {
  const int root = size - 1;
  const Bytes mine = c.input(rank, count), before(mine.size(), '\x44');
  const bool here = in_place && rank == root;
  const TestBuffer send(mine), recv(here ? mine : before);
  MPI_Request request;
  complete(MPI_Ireduce(here ? MPI_IN_PLACE : send.buffer.data(), rank == root ? recv.buffer.data() : nullptr,
                       count, c.type, c.op, root, MPI_COMM_WORLD, &request),
           request);
  recv.expect(c, c.folded(size - 1, count), 0, rank == root ? count : 0, here ? mine : before);
}

void reduce_scatter(const Case& c, int count, bool in_place) {
  const Bytes mine = c.input(rank, count * size), before(mine.size(), '\x44');
  const TestBuffer send(mine), recv(in_place ? mine : before);
  MPI_Request request;
  complete(MPI_Ireduce_scatter_block(in_place ? MPI_IN_PLACE : send.buffer.data(), recv.buffer.data(), count,
                                     c.type, c.op, MPI_COMM_WORLD, &request),
           request);
  const Bytes all = c.folded(size - 1, count * size);
  if (!in_place) return recv.expect(c, all, rank * count, count, before);
  // In place the rest of the buffer is undefined.
  Bytes got = recv.buffer.read(), wanted = got;
  weft::datatype::reduce_function(ReduceOp::replace, c.basic)(
      all.data() + rank * count * c.extent, wanted.data(), wanted.data(), static_cast<size_t>(count));
  ++checks;
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i] != wanted[i] && !is_padding(c.basic, i)) fail("wrong block", static_cast<long>(i), got[i]);
}

void scan(const Case& c, int count, bool in_place) {
  const Bytes mine = c.input(rank, count), before(mine.size(), '\x44');
  const TestBuffer send(mine), recv(in_place ? mine : before);
  MPI_Request request;
  const void* from = in_place ? MPI_IN_PLACE : send.buffer.data();
  complete(MPI_Iscan(from, recv.buffer.data(), count, c.type, c.op, MPI_COMM_WORLD, &request), request);
  recv.expect(c, c.folded(rank, count), 0, count, in_place ? mine : before);
}

void exscan(const Case& c, int count, bool in_place) {
  const Bytes mine = c.input(rank, count), before(mine.size(), '\x44');
  const TestBuffer send(mine), recv(in_place ? mine : before);
  MPI_Request request;
  const void* from = in_place ? MPI_IN_PLACE : send.buffer.data();
  complete(MPI_Iexscan(from, recv.buffer.data(), count, c.type, c.op, MPI_COMM_WORLD, &request), request);
  recv.expect(c, c.folded(std::max(0, rank - 1), count), 0, rank > 0 ? count : 0, in_place ? mine : before);
}

void local(const Case& c, int count, bool) {
  const Bytes mine = c.input(rank, count), other = c.input(rank + 1, count);
  const TestBuffer in(mine), inout(other);
  if (MPI_Reduce_local(in.buffer.data(), inout.buffer.data(), count, c.type, c.op) != MPI_SUCCESS)
    fail("error code", 0, 0);
  Bytes wanted = other;
  c.function(mine.data(), wanted.data(), wanted.data(), static_cast<size_t>(count));
  inout.expect(c, wanted, 0, count, other);
}

constexpr struct {
  const char* name;
  void (*run)(const Case& c, int count, bool in_place);
} kForms[] = {{"allreduce", allreduce}, {"reduce", reduce}, {"reduce_scatter_block", reduce_scatter},
              {"scan", scan},           {"exscan", exscan}, {"reduce_local", local}};

void check(uintptr_t handle, const char* type_name, Basic basic, const std::vector<int>& counts) {
  for (const auto& [op, kind] : kOps) {
    const ReduceFn function = weft::datatype::reduce_function(kind, basic);
    if (function == nullptr) continue;
    const Case c{op, reinterpret_cast<MPI_Datatype>(handle), function, basic,
                 weft::datatype::traits_of(basic).extent};
    for (const auto& form : kForms)
      for (const int count : counts)
        for (const bool in_place : {false, true}) {
          if (op == MPI_REPLACE && form.run != local) continue;
          situation = std::string(form.name) + ' ' + weft::datatype::name(kind) + ' ' + type_name + ", " +
                      std::to_string(count) + (in_place ? ", in place" : "");
          form.run(c, count, in_place);
        }
  }
}

}  // namespace

int main(int argc, char** argv) {
  (void)weft::test::own_device();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<int> counts;
  for (int i = 1; i < argc; ++i) counts.push_back(std::atoi(argv[i]));
#define WEFT_X(handle, name, basic) check(handle, name, Basic::basic, counts);
  WEFT_PREDEFINED_TYPES(WEFT_X)
#undef WEFT_X
  if (rank == 0) std::printf("%ld checks\n", checks);
  MPI_Finalize();
  return checks == 0;
}
