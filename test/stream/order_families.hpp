// SPDX-License-Identifier: BSD-3-Clause
// Communicators of random programs in stream order: pairs of a communicator and a ring of its ranks, whose
// stream changes, and the same pair without stream, on which the host repeats all calls.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reference/draw.hpp"
#include "stream/gate.hpp"
#include "stream/order_comm.hpp"
#include "stream/ordered_calls.hpp"

namespace weft::test::ordered {

using namespace weft::test::enqueued;
using randomized::Draw;

/// Error classes that the handler of communicators and windows has seen since the last look.
inline std::vector<int> raised;
inline MPI_Errhandler comm_handler = MPI_ERRHANDLER_NULL, window_handler = MPI_ERRHANDLER_NULL;

inline void note(int code) {
  int error_class = code;
  MPI_Error_class(code, &error_class);
  raised.push_back(error_class);
}

inline void note_comm(MPI_Comm* /*comm*/, int* code, ...) { note(*code); }
inline void note_window(MPI_Win* /*win*/, int* code, ...) { note(*code); }

/// A stream of the program, with a gate that lets its work begin late.
struct Lane : OrderedStream {
  Lane() : gate(stream) {}
  Gate gate;
};

/// Communicators without stream, which live until the end of the program.
struct Twin {
  ~Twin() {
    for (MPI_Comm* one : {&comm, &grid})
      if (*one != MPI_COMM_NULL) MPI_Comm_free(one);
  }
  MPI_Comm comm = MPI_COMM_NULL, grid = MPI_COMM_NULL;
};

class Family {
 public:
  /// Collective over `parent`, whose ranks it has in the same order. `kernels`: a stream, whose kernels
  /// execute the calls; null: the host does.
  Family(MPI_Comm parent, const Twin& like, const Lane* kernels)
      : by_kernels(kernels != nullptr), lane(kernels) {
    const int periodic = 1;
    MPI_Comm_dup(like.comm, &twin->comm);
    MPI_Comm_rank(twin->comm, &rank);
    MPI_Comm_size(twin->comm, &ranks);
    MPI_Cart_create(twin->comm, 1, &ranks, &periodic, 0, &twin->grid);
    if (by_kernels) {
      MPIX_Stream_comm_create(parent, kernels->mpi_stream, &comm);
      MPIX_Stream_comm_create(twin->grid, kernels->mpi_stream, &grid);
    } else {
      MPI_Comm_dup(parent, &comm);
      MPI_Cart_create(parent, 1, &ranks, &periodic, 0, &grid);
    }
    for (const MPI_Comm one : {comm, grid}) MPI_Comm_set_errhandler(one, comm_handler);
  }
  ~Family() { free(); }
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;
  /// Once more after an error, which the call returns.
  void free() {
    for (MPI_Comm* one : {&comm, &grid})
      for (int turn = 0; turn < 2 && *one != MPI_COMM_NULL; ++turn) MPI_Comm_free(one);
    expect(comm == MPI_COMM_NULL && grid == MPI_COMM_NULL, "freed communicators");
  }
  /// Null: none. Local.
  void move_to(const Lane* to) {
    for (const MPI_Comm one : {comm, grid})
      expect_class(MPIX_Comm_set_stream(one, to != nullptr ? to->mpi_stream : MPIX_STREAM_NULL), MPI_SUCCESS,
                   "MPIX_Comm_set_stream");
    lane = to;
  }
  [[nodiscard]] int right() const { return (rank + 1) % ranks; }
  [[nodiscard]] int left() const { return (rank + ranks - 1) % ranks; }

  const bool by_kernels;
  MPI_Comm comm = MPI_COMM_NULL, grid = MPI_COMM_NULL;
  int rank = 0, ranks = 0;
  const Lane* lane;     ///< null: none
  bool failed = false;  ///< an error has not been returned yet
  const std::shared_ptr<Twin> twin = std::make_shared<Twin>();
};

/// Copies in the stream of the family; without one they are complete on return.
class Copies {
 public:
  Copies() { driver().cuStreamCreate(&own_, 1); }
  ~Copies() { driver().cuStreamDestroy_v2(own_); }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;
  void copy(const Lane* lane, Buffer& to, const Buffer& from) {
    enqueued::copy(lane != nullptr ? lane->stream : own_, to, from);
    if (lane == nullptr) expect(driver().cuStreamSynchronize(own_) == 0, "cuStreamSynchronize");
  }

 private:
  Stream own_ = nullptr;
};

/// `source` is copied to `in` and `out` before the call, `out` to `result` after it.
struct Memory {
  explicit Memory(size_t bytes)
      : source(Kind::device, bytes, device),
        in(Kind::device, bytes, device),
        out(Kind::device, bytes, device),
        result(Kind::device, bytes, device) {}
  Buffer source, in, out, result;
};

/// Waits for no stream of the program, unlike Buffer::write().
inline void fill(const Buffer& buffer, const std::vector<char>& bytes) {
  expect(driver().cuMemcpyHtoD_v2(address(buffer), bytes.data(), bytes.size()) == 0, "cuMemcpyHtoD");
  expect(driver().cuStreamSynchronize(nullptr) == 0, "cuStreamSynchronize of the default stream");
}

/// Memory of many steps, used again by later programs, since allocation takes most of the time.
class MemoryPool {
 public:
  std::shared_ptr<Memory> take(size_t bytes) {
    auto& unused = unused_[bytes];
    if (unused.empty()) unused.push_back(std::make_unique<Memory>(bytes));
    Memory* const memory = unused.back().release();
    unused.pop_back();
    return {memory, [this, bytes](Memory* used) { unused_[bytes].emplace_back(used); }};
  }

 private:
  std::map<size_t, std::vector<std::unique_ptr<Memory>>> unused_;
};

inline constexpr int kSlots = 64, kWindowInts = 200;

/// The current step, for messages.
inline char where[200];

inline const NamedCall& call_of(const char* name) {
  for (const NamedCall& call : kCalls)
    if (std::string(call.name) == name) return call;
  std::abort();
}

/// A result in GPU memory, and what it is to be.
struct Result {
  std::string what;
  std::shared_ptr<Memory> memory;
  std::function<std::vector<char>()> wanted;  ///< collective
};

/// Nonblocking or persistent operations that are in flight for some steps.
struct Item {
  std::shared_ptr<Family> family;
  std::shared_ptr<Memory> memory;
  std::vector<MPI_Request> requests;
  bool persistent;
  int starts;
  std::string what;
  std::function<std::vector<char>()> wanted;
};

struct Window {
  Window(const std::shared_ptr<Family>& of, int disp) : family(of) {
    fill(memory, std::vector<char>(memory.size(), 0));
    MPI_Win_create(memory.data(), static_cast<MPI_Aint>(memory.size()), disp, MPI_INFO_NULL, of->comm, &win);
    MPI_Win_set_errhandler(win, window_handler);
  }
  ~Window() { expect_class(MPI_Win_free(&win), MPI_SUCCESS, std::string(where) + "MPI_Win_free"); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  std::shared_ptr<Family> family;
  Buffer memory{Kind::device, kSlots* kWindowInts * sizeof(int), device};
  MPI_Win win = MPI_WIN_NULL;
  int slot = 0;
};

/// The result of a call on the host.
inline std::vector<char> repeated(const Family& family, const NamedCall& call, std::vector<char> source,
                                  int n, bool capturing) {
  std::vector<char> in = source, out = std::move(source);
  call.run({family.twin->comm, family.twin->grid, reinterpret_cast<int*>(in.data()),
            reinterpret_cast<int*>(out.data()), n, family.rank, family.ranks, capturing});
  return out;
}

/// Ends a program that takes too long.
inline void report_hang(int) {
  static_cast<void>(!write(2, "no end: ", 8));
  static_cast<void>(!write(2, where, std::strlen(where)));
  static_cast<void>(!write(2, "\n", 1));
  _exit(3);
}

}  // namespace weft::test::ordered
