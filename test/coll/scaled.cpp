// SPDX-License-Identifier: BSD-3-Clause
// MPIX_AVG and MPIX_Op_create_premul_sum on every predefined type of numbers in the memory that TEST_MEMORY
// names (host, device; mixed: different kinds on different ranks), in every form of the reductions that have
// them, compared with exact numbers; roundings and overflows; refusals.
#include <mpi.h>
#include <weft.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/element/convert.hpp"
#include "check.hpp"
#include "device/cuda_test_support.hpp"

namespace {

namespace element = weft::element;
using weft::test::Buffer;

int rank, size;

template <class T>
struct Make {
  static T of(double x) { return element::narrow<T>(static_cast<element::Wide<T>>(x)); }
};
template <class T>
struct Make<element::Complex<T>> {
  static element::Complex<T> of(double x) { return {Make<T>::of(x), Make<T>::of(x)}; }
};
/// A factor without an imaginary part.
template <class T>
T factor_of(double x) {
  return Make<T>::of(x);
}
template <class T>
element::Complex<T> complex_factor(double x) {
  return {Make<T>::of(x), Make<T>::of(0)};
}
template <>
element::Complex<element::Half> factor_of(double x) {
  return complex_factor<element::Half>(x);
}
template <>
element::Complex<float> factor_of(double x) {
  return complex_factor<float>(x);
}
template <>
element::Complex<double> factor_of(double x) {
  return complex_factor<double>(x);
}

Buffer::Kind kind_here() {
  const char* name = std::getenv("TEST_MEMORY");
  const std::string memory = name == nullptr ? "host" : name;
  if (memory == "host") return Buffer::Kind::host;
  if (memory == "device") return Buffer::Kind::device;
  constexpr Buffer::Kind kKinds[] = {Buffer::Kind::device, Buffer::Kind::host, Buffer::Kind::managed};
  return kKinds[static_cast<size_t>(rank) % std::size(kKinds)];
}

int device_here() { return kind_here() == Buffer::Kind::host ? 0 : rank % weft::test::cuda().devices; }

template <class T>
struct Vector {
  Buffer buffer;
  explicit Vector(const std::vector<T>& values)
      : buffer(kind_here(), values.size() * sizeof(T) + 16, device_here()) {
    buffer.write(std::vector<char>(buffer.size(), '\x33'));
    write(values);
  }
  void write(const std::vector<T>& values) {
    const char* bytes = reinterpret_cast<const char*>(values.data());
    buffer.write(std::vector<char>(bytes, bytes + values.size() * sizeof(T)));
  }
  [[nodiscard]] void* data() const { return buffer.data(); }
  /// Checks the first elements, and that the bytes behind the buffer are unchanged.
  void expect(const std::vector<T>& wanted, const std::string& what) const {
    const std::vector<char> got = buffer.read();
    if (!wanted.empty() && std::memcmp(got.data(), wanted.data(), wanted.size() * sizeof(T)) != 0) {
      std::fprintf(stderr, "rank %d: %s: wrong result\n", rank, what.c_str());
      std::abort();
    }
    for (size_t i = got.size() - 16; i < got.size(); ++i) CHECK(got[i] == '\x33');
  }
};

/// The terms of a rank, and their results, as exact numbers: `round` changes them from start to start.
struct Numbers {
  bool average;
  int round;
  [[nodiscard]] double term(int of, int i) const {
    return static_cast<double>((average ? size : 1) * ((i + of + round) % 3));
  }
  [[nodiscard]] double result(int i) const {
    double sum = 0;
    for (int of = 0; of < size; ++of) sum += (average ? 1.0 / size : of + 1.0) * term(of, i);
    return static_cast<double>(static_cast<int>(sum + 0.5));
  }
  template <class T>
  [[nodiscard]] std::vector<T> terms(int count) const {
    std::vector<T> made;
    for (int i = 0; i < count; ++i) made.push_back(Make<T>::of(term(rank, i)));
    return made;
  }
  template <class T>
  [[nodiscard]] std::vector<T> results(int first, int count) const {
    std::vector<T> made;
    for (int i = first; i < first + count; ++i) made.push_back(Make<T>::of(result(i)));
    return made;
  }
};

enum class Form { blocking, nonblocking, persistent };

void complete(MPI_Request& request) { CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS); }

/// Runs a collective in one form, a persistent one three times; begin(round) writes the terms, end(round)
/// checks.
template <class Run, class Start, class Init, class Begin, class End>
void in_form(Form form, Run run, Start start, Init init, Begin begin, End end) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (form == Form::persistent) {
    CHECK(init(&request) == MPI_SUCCESS);
    for (int round = 0; round < 3; ++round) {
      begin(round);
      CHECK(MPI_Start(&request) == MPI_SUCCESS);
      complete(request);
      end(round);
    }
    CHECK(MPI_Request_free(&request) == MPI_SUCCESS);
    return;
  }
  begin(0);
  if (form == Form::blocking)
    CHECK(run() == MPI_SUCCESS);
  else
    CHECK(start(&request) == MPI_SUCCESS);
  if (form == Form::nonblocking) complete(request);
  end(0);
}

template <class T>
void check_type(const char* name, MPI_Datatype type, MPI_Op op, bool average, int count, Form form,
                bool in_place) {
  const std::string what = std::string(name) + (average ? ", average, " : ", premultiplied, ") +
                           std::to_string(count) + ", form " + std::to_string(static_cast<int>(form)) +
                           (in_place ? ", in place" : "");
  const std::vector<T> empty(static_cast<size_t>(count * size), Make<T>::of(5));
  const MPI_Comm comm = MPI_COMM_WORLD;
  Vector<T> send(empty), recv(empty);
  void* const from = in_place ? MPI_IN_PLACE : send.data();
  void* const to = recv.data();
  Vector<T>& terms = in_place ? recv : send;
  const auto numbers = [&](int round) { return Numbers{average, round}; };
  const auto begin = [&](int round) {
    recv.write(empty);
    terms.write(numbers(round).template terms<T>(count * size));
  };
  const auto end = [&](int first, int n) {
    return [&, first, n](int round) {
      recv.expect(numbers(round).template results<T>(first, n), what);
      if (!in_place) send.expect(numbers(round).template terms<T>(count * size), what + ", send buffer");
    };
  };
  in_form(
      form, [&] { return MPI_Allreduce(from, to, count, type, op, comm); },
      [&](MPI_Request* r) { return MPI_Iallreduce(from, to, count, type, op, comm, r); },
      [&](MPI_Request* r) { return MPI_Allreduce_init(from, to, count, type, op, comm, MPI_INFO_NULL, r); },
      begin, end(0, count));
  const int root = size - 1;
  void* const own = rank == root ? from : terms.data();
  in_form(
      form, [&] { return MPI_Reduce(own, to, count, type, op, root, comm); },
      [&](MPI_Request* r) { return MPI_Ireduce(own, to, count, type, op, root, comm, r); },
      [&](MPI_Request* r) { return MPI_Reduce_init(own, to, count, type, op, root, comm, MPI_INFO_NULL, r); },
      begin,
      [&](int round) {
        if (rank == root)
          end(0, count)(round);
        else
          terms.expect(numbers(round).template terms<T>(count * size), what + ", terms of reduce");
      });
  in_form(
      form, [&] { return MPI_Reduce_scatter_block(from, to, count, type, op, comm); },
      [&](MPI_Request* r) { return MPI_Ireduce_scatter_block(from, to, count, type, op, comm, r); },
      [&](MPI_Request* r) {
        return MPI_Reduce_scatter_block_init(from, to, count, type, op, comm, MPI_INFO_NULL, r);
      },
      begin, end(rank * count, count));
  std::vector<int> counts(static_cast<size_t>(size), 0);
  counts[static_cast<size_t>(root)] = count * size;  // all results on one rank
  in_form(
      form, [&] { return MPI_Reduce_scatter(from, to, counts.data(), type, op, comm); },
      [&](MPI_Request* r) { return MPI_Ireduce_scatter(from, to, counts.data(), type, op, comm, r); },
      [&](MPI_Request* r) {
        return MPI_Reduce_scatter_init(from, to, counts.data(), type, op, comm, MPI_INFO_NULL, r);
      },
      begin, end(0, rank == root ? count * size : 0));
}

template <class T>
void check_forms(const char* name, MPI_Datatype type, int count) {
  const T factor = factor_of<T>(rank + 1);
  const Vector<T> on_device({factor});
  MPI_Op ops[2];
  CHECK(MPIX_Op_create_premul_sum(&factor, type, &ops[0]) == MPI_SUCCESS);
  CHECK(MPIX_Op_create_premul_sum(on_device.data(), type, &ops[1]) == MPI_SUCCESS);
  for (const Form form : {Form::blocking, Form::nonblocking, Form::persistent})
    for (const bool in_place : {false, true}) {
      check_type<T>(name, type, MPIX_AVG, true, count, form, in_place);
      for (const MPI_Op op : ops) check_type<T>(name, type, op, false, count, form, in_place);
    }
  for (MPI_Op& op : ops) CHECK(MPI_Op_free(&op) == MPI_SUCCESS && op == MPI_OP_NULL);
}

template <class T>
T mean_of(T mine, MPI_Datatype type) {
  Vector<T> buffer({mine});
  CHECK(MPI_Allreduce(MPI_IN_PLACE, buffer.data(), 1, type, MPIX_AVG, MPI_COMM_WORLD) == MPI_SUCCESS);
  T found;
  std::memcpy(&found, buffer.buffer.read().data(), sizeof found);
  return found;
}

void check_values() {
  // Integers are rounded towards zero, and small ones are divided by more processes than they can count.
  CHECK(mean_of<int32_t>(rank == 0 ? -1 : 0, MPI_INT32_T) == (size == 1 ? -1 : 0));
  CHECK(mean_of<uint64_t>(~uint64_t{0} / static_cast<uint64_t>(size), MPI_UINT64_T) <=
        ~uint64_t{0} / static_cast<uint64_t>(size));
  CHECK(mean_of<int8_t>(-20, MPI_INT8_T) == -20);
  // The sum of these exceeds the largest number of the type; their mean does not.
  const auto half = mean_of(element::narrow<element::Half>(60000), MPIX_C_FLOAT16);
  CHECK(element::widen(half) > 59800 && element::widen(half) < 60200);
  const auto small = mean_of(element::narrow<element::Float8E5M2>(49152), MPIX_FLOAT8_E5M2);
  CHECK(element::widen(small) >= 40960 && element::widen(small) <= 57344);
  CHECK(mean_of<double>(rank, MPI_DOUBLE) == (size - 1) / 2.0);
}

void expect_error(int code, int wanted) {
  int found = MPI_SUCCESS;
  MPI_Error_class(code, &found);
  if (found == wanted) return;
  char text[512];
  MPIX_Last_error_message(text, sizeof text, nullptr);
  std::fprintf(stderr, "rank %d: class %d, not %d: %s\n", rank, found, wanted, text);
  std::abort();
}

void check_refusals() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Datatype pair;
  MPI_Type_contiguous(2, MPI_FLOAT, &pair);
  MPI_Type_commit(&pair);
  char a[64] = {}, b[64] = {};
  for (const MPI_Datatype type : {MPI_BYTE, MPI_C_BOOL, MPI_FLOAT_INT, MPI_PACKED, pair}) {
    MPI_Op op;
    expect_error(MPI_Allreduce(a, b, 1, type, MPIX_AVG, MPI_COMM_WORLD), MPI_ERR_OP);
    expect_error(MPIX_Op_create_premul_sum(a, type, &op), MPI_ERR_TYPE);
  }
  MPI_Op twice, average = MPIX_AVG;
  const float two = 2;
  CHECK(MPIX_Op_create_premul_sum(&two, MPI_FLOAT, &twice) == MPI_SUCCESS);
  int commutes = 0;
  CHECK(MPI_Op_commutative(twice, &commutes) == MPI_SUCCESS && commutes == 1);
  expect_error(MPI_Allreduce(a, b, 1, MPI_DOUBLE, twice, MPI_COMM_WORLD), MPI_ERR_OP);
  expect_error(MPIX_Op_create_premul_sum(nullptr, MPI_FLOAT, &twice), MPI_ERR_ARG);
  expect_error(MPIX_Op_create_premul_sum(&two, MPI_FLOAT, nullptr), MPI_ERR_ARG);
  MPI_Win win;
  CHECK(MPI_Win_create(a, sizeof a, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win) == MPI_SUCCESS);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  MPI_Win_fence(0, win);
  for (const MPI_Op op : {MPIX_AVG, twice}) {
    expect_error(MPI_Scan(a, b, 1, MPI_FLOAT, op, MPI_COMM_WORLD), MPI_ERR_OP);
    expect_error(MPI_Exscan(a, b, 1, MPI_FLOAT, op, MPI_COMM_WORLD), MPI_ERR_OP);
    expect_error(MPI_Reduce_local(a, b, 1, MPI_FLOAT, op), MPI_ERR_OP);
    expect_error(MPI_Accumulate(b, 1, MPI_FLOAT, 0, 0, 1, MPI_FLOAT, op, win), MPI_ERR_OP);
  }
  MPI_Win_fence(0, win);
  MPI_Win_free(&win);
  expect_error(MPI_Op_free(&average), MPI_ERR_OP);
  // An operation lives until the last call with it has ended.
  MPI_Request request;
  float mine = 1, sum = 0;
  CHECK(MPI_Iallreduce(&mine, &sum, 1, MPI_FLOAT, twice, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
  CHECK(MPI_Op_free(&twice) == MPI_SUCCESS);
  complete(request);
  CHECK(sum == 2.0f * static_cast<float>(size));
  MPI_Type_free(&pair);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 1; i < argc; ++i) {
    const int count = std::atoi(argv[i]);
#define CHECK_TYPE(type, T) check_forms<T>(#type, type, count);
    CHECK_TYPE(MPI_INT8_T, int8_t)
    CHECK_TYPE(MPI_INT16_T, int16_t)
    CHECK_TYPE(MPI_INT32_T, int32_t)
    CHECK_TYPE(MPI_INT64_T, int64_t)
    CHECK_TYPE(MPI_UINT8_T, uint8_t)
    CHECK_TYPE(MPI_UINT16_T, uint16_t)
    CHECK_TYPE(MPI_UINT32_T, uint32_t)
    CHECK_TYPE(MPI_UINT64_T, uint64_t)
    CHECK_TYPE(MPI_COUNT, int64_t)
    CHECK_TYPE(MPI_INTEGER16, element::Int128)
    CHECK_TYPE(MPIX_FLOAT8_E4M3, element::Float8E4M3)
    CHECK_TYPE(MPIX_FLOAT8_E5M2, element::Float8E5M2)
    CHECK_TYPE(MPIX_C_FLOAT16, element::Half)
    CHECK_TYPE(MPIX_BFLOAT16, element::BFloat16)
    CHECK_TYPE(MPI_FLOAT, float)
    CHECK_TYPE(MPI_DOUBLE, double)
    CHECK_TYPE(MPI_REAL16, element::Float128)
    CHECK_TYPE(MPI_COMPLEX4, element::Complex<element::Half>)
    CHECK_TYPE(MPI_C_FLOAT_COMPLEX, element::Complex<float>)
    CHECK_TYPE(MPI_C_DOUBLE_COMPLEX, element::Complex<double>)
#undef CHECK_TYPE
  }
  check_values();
  check_refusals();
  MPI_Finalize();
  return 0;
}
