// SPDX-License-Identifier: BSD-3-Clause
// Windows of several hosts in kernels, on the emulated driver: host threads execute the kernels
// (emulated_kernel.hpp). Rings, atomic operations, gets, flushes, refusals, time limits, many threads.
#include <cstring>
#include <vector>

#include "rma/host_window.hpp"

namespace {

using namespace weft::test::enqueued;
using weft::device::Error;
using weft::device::Target;
using weft::device::Thread;

void rings() {
  const HostWindow window;
  for (const int words : {1, 3, 512, 513, 5000, programs::kHalf}) {
    window.run(1, [&](KernelWindow in_kernel, int) {
      expect(programs::ring(in_kernel, Thread(), words, 10) == 0, "ring of " + std::to_string(words));
    });
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

/// Sums of all ranks at rank 0, and tickets by atomic_cas and atomic_exchange.
void atomics() {
  constexpr int kRounds = 40;
  const HostWindow window;
  window.run(2, [&](KernelWindow in_kernel, int) {
    const Target first = in_kernel.target(0);
    for (int i = 0; i < kRounds; ++i) {
      first.atomic_add<int64_t>(0, 1);
      first.atomic_add<uint32_t>(1, 2u);
      first.atomic_add<double>(2, 0.5);
      first.atomic_add<float>(3, 0.25f);
      for (uint64_t seen = 0, before = 0;; seen = before) {  // adds 3
        before = first.atomic_cas<uint64_t>(4, seen, seen + 3);
        if (before == seen) break;
      }
    }
    int64_t found = 0;
    expect(first.get(Thread(), 0, &found, sizeof found) == Error::none, "get");
    expect(found >= kRounds, "own sums are there");
  });
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    const int64_t* const words = window.words();
    double sum = 0;
    float small = 0;
    std::memcpy(&sum, &words[2], sizeof sum);
    std::memcpy(&small, &words[3], sizeof small);
    const int each = 2 * kRounds * ranks;
    expect(words[0] == each && words[1] == 2 * each && sum == 0.5 * each && small == 0.25f * each &&
               words[4] == 3 * each,
           "sums of atomic operations: " + std::to_string(words[0]) + ", " + std::to_string(words[4]));
  }
  int64_t before = -1;
  window.run(1, [&](KernelWindow in_kernel, int) {
    before = in_kernel.target(0).atomic_exchange<int64_t>(10 + static_cast<uint64_t>(rank), rank + 1);
    in_kernel.barrier(Thread());
    expect(in_kernel.target(0).atomic_exchange<int64_t>(10 + static_cast<uint64_t>(rank), 0) == rank + 1,
           "exchange");
  });
  expect(before == 0, "the element before an exchange");
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Many threads put to all ranks at once, more records than the ring has; then flush, barrier, compare.
void many_threads() {
  constexpr int kThreads = 8, kPuts = 80;
  const HostWindow window;
  window.run(kThreads, [&](KernelWindow in_kernel, int thread) {
    for (int i = 0; i < kPuts; ++i) {
      const int64_t value = programs::value(rank, i, thread);
      for (int to = 0; to < ranks; ++to) {
        const auto slot = static_cast<uint64_t>((rank * kThreads + thread) * 8 + i % 8);
        expect(in_kernel.put(Thread(), to, slot, &value, sizeof value) == Error::none, "put");
        if (i == kPuts - 1) expect(in_kernel.notify(Thread(), to, 2) == Error::none, "notify");
      }
    }
    expect(in_kernel.flush(Thread()) == Error::none, "flush");
  });
  window.run(1, [&](KernelWindow in_kernel, int) {
    expect(in_kernel.wait_notify(Thread(), 2, static_cast<uint64_t>(ranks) * kThreads) == Error::none,
           "wait");
    for (int from = 0; from < ranks; ++from)
      for (int thread = 0; thread < kThreads; ++thread)
        for (int i = kPuts - 8; i < kPuts; ++i)
          expect(window.words()[(from * kThreads + thread) * 8 + i % 8] == programs::value(from, i, thread),
                 "values of many threads");
    expect(in_kernel.notifications(2) == 0, "all notifications are taken");
  });
  MPI_Barrier(MPI_COMM_WORLD);
}

/// More large puts than a network takes at once, from threads that reuse their buffer, beside signals to
/// another rank; then a flush without a barrier.
void large_puts() {
  constexpr int kThreads = 4, kPuts = 40;
  constexpr size_t kPart = kWords / kThreads;
  const HostWindow window;
  window.run(kThreads, [&](KernelWindow in_kernel, int thread) {
    std::vector<int64_t> data(kPart);
    for (int i = 0; i < kPuts; ++i) {
      for (size_t k = 0; k < kPart; ++k)
        data[k] = programs::value(rank, i * kThreads + thread, static_cast<int>(k));
      expect(in_kernel.put_notify(Thread(), right(), static_cast<uint64_t>(thread) * kPart, data.data(),
                                  kPart * sizeof(int64_t), 0) == Error::none,
             "put_notify");
      expect(in_kernel.notify(Thread(), left(), 1) == Error::none, "notify");
    }
    expect(in_kernel.flush(Thread()) == Error::none, "flush");
    std::vector<int64_t> there(kPart);
    expect(in_kernel.get(Thread(), right(), static_cast<uint64_t>(thread) * kPart, there.data(),
                         kPart * sizeof(int64_t)) == Error::none,
           "get");
    expect(there == data, "the last of large puts, after a flush");
  });
  window.run(1, [&](KernelWindow in_kernel, int) {
    for (const uint32_t notification : {0u, 1u})
      expect(in_kernel.wait_notify(Thread(), notification, uint64_t{kThreads} * kPuts) == Error::none,
             "the notifications of large puts");
    for (int thread = 0; thread < kThreads; ++thread)
      for (size_t k = 0; k < kPart; ++k)
        if (window.words()[static_cast<size_t>(thread) * kPart + k] !=
            programs::value(left(), (kPuts - 1) * kThreads + thread, static_cast<int>(k)))
          return expect(false, "values of large puts");
  });
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Puts and gets of sizes around the limit of a record.
void sizes() {
  const HostWindow window;
  const int to = right();
  for (const size_t bytes : {size_t{8}, size_t{24}, size_t{4096}, size_t{4104}, size_t{65536}, kBytes / 2}) {
    window.run(1, [&](KernelWindow in_kernel, int) {
      int64_t* const own = window.words();
      const size_t n = bytes / sizeof(int64_t);
      std::vector<int64_t> out(n), in(n);
      for (size_t i = 0; i < n; ++i)
        out[i] = programs::value(rank, static_cast<int>(bytes), static_cast<int>(i));
      const Target target = in_kernel.target(to);
      expect(target.put(Thread(), programs::kHalf, out.data(), bytes) == Error::none, "put");
      expect(target.flush(Thread()) == Error::none, "flush");
      expect(target.get(Thread(), programs::kHalf, in.data(), bytes) == Error::none, "get");
      expect(in == out, "what is got is what was put and flushed, " + std::to_string(bytes));
      expect(in_kernel.barrier(Thread()) == Error::none, "barrier");
      for (size_t i = 0; i < n; ++i)
        if (own[programs::kHalf + i] != programs::value(left(), static_cast<int>(bytes), static_cast<int>(i)))
          return expect(false, "values after a barrier, " + std::to_string(bytes));
      expect(in_kernel.barrier(Thread()) == Error::none, "barrier");
    });
  }
}

/// Notifications of the host and of kernels count alike, in both directions.
void with_the_host() {
  const HostWindow window;
  const int64_t value = rank + 7;
  MPI_Win_lock_all(0, window.win);
  expect_class(MPIX_Put_notify(&value, 1, MPI_INT64_T, right(), 5, 1, MPI_INT64_T, window.win, 1),
               MPI_SUCCESS, "put_notify");
  window.run(1, [&](KernelWindow in_kernel, int) {
    expect(in_kernel.wait_notify(Thread(), 1) == Error::none, "a notification of a host");
    expect(window.words()[5] == left() + 7, "its data");
    for (int i = 0; i < 3; ++i) expect(in_kernel.notify(Thread(), right(), 0) == Error::none, "notify");
  });
  expect_class(MPIX_Win_wait_notify(window.win, 0, 3), MPI_SUCCESS, "notifications of kernels");
  MPI_Count left_over = -1;
  expect_class(MPIX_Win_get_notify(window.win, 0, &left_over), MPI_SUCCESS, "get_notify");
  expect(left_over == 0, "all notifications are taken by the host");
  // The host completes what a kernel has put without a flush.
  window.run(1, [&](KernelWindow in_kernel, int) {
    const int64_t late = rank + 70;
    expect(in_kernel.put(Thread(), right(), 6, &late, sizeof late) == Error::none, "put");
  });
  expect_class(MPI_Win_flush_all(window.win), MPI_SUCCESS, "flush_all");
  MPI_Barrier(MPI_COMM_WORLD);
  expect(window.words()[6] == left() + 70, "a put before the host's flush");
  MPI_Win_unlock_all(window.win);
  MPI_Barrier(MPI_COMM_WORLD);
}

/// The host finds a notification by a kernel of its own host also if it tests several in turn.
void tests_in_turn() {
  const HostWindow window;
  window.run(1, [&](KernelWindow in_kernel, int) {
    expect(in_kernel.notify(Thread(), rank, 1) == Error::none, "notify");
  });
  constexpr int kTests = 100;
  int found = 0, other = 0;
  for (int i = 0; i < kTests && found == 0; ++i) {
    MPIX_Win_test_notify(window.win, 0, 1, &other);
    MPIX_Win_test_notify(window.win, 1, 1, &found);
  }
  expect(found == 1 && other == 0, "a notification that is tested in turn with another one");
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Counters that are freed take all that kernels have put with them.
void counters_again() {
  HostWindow window;
  window.run(2, [&](KernelWindow in_kernel, int thread) {
    const int64_t late = rank + 700;
    for (uint64_t i = 0; i < 50; ++i)
      expect(in_kernel.put(Thread(), right(), 100 * static_cast<uint64_t>(thread) + i, &late, sizeof late) ==
                 Error::none,
             "put");
  });
  expect_class(MPIX_Win_free_notify(window.win), MPI_SUCCESS, "free_notify");
  for (size_t i = 0; i < 50; ++i)
    expect(window.words()[i] == left() + 700 && window.words()[100 + i] == left() + 700, "late puts");
  expect_class(MPIX_Win_create_notify(window.win, 4), MPI_SUCCESS, "create_notify");
  expect_class(MPIX_Win_device_handle(window.win, &window.handle), MPI_SUCCESS, "device_handle");
  MPI_Barrier(MPI_COMM_WORLD);
  window.run(1, [&](KernelWindow in_kernel, int) {
    expect(in_kernel.barrier(Thread()) == Error::none, "a barrier of the new counters");
  });
}

/// A large message from each rank to the rank `distance` behind it: the next messages of the pair come late.
class BusyConnections {
 public:
  explicit BusyConnections(int distance) {
    static const std::vector<char> out(kLarge);
    static std::vector<char> in(kLarge);
    MPI_Irecv(in.data(), kLarge, MPI_CHAR, (rank + ranks - distance) % ranks, 0, MPI_COMM_WORLD, &large_[0]);
    MPI_Isend(out.data(), kLarge, MPI_CHAR, (rank + distance) % ranks, 0, MPI_COMM_WORLD, &large_[1]);
  }
  ~BusyConnections() { MPI_Waitall(2, large_, MPI_STATUSES_IGNORE); }
  BusyConnections(const BusyConnections&) = delete;
  BusyConnections& operator=(const BusyConnections&) = delete;

 private:
  static constexpr int kLarge = 8 << 20;
  MPI_Request large_[2];
};

/// Kernels put as soon as their rank has a handle, when others still create their notifications.
void puts_at_once() {
  constexpr int kRounds = 20;
  HostWindow window;
  const auto others = static_cast<uint64_t>(ranks - 1);
  for (int i = 0; i < kRounds && ranks > 1; ++i) {
    expect_class(MPIX_Win_free_notify(window.win), MPI_SUCCESS, "free_notify");
    const BusyConnections busy(1 + i % (ranks - 1));
    expect_class(MPIX_Win_create_notify(window.win, 1), MPI_SUCCESS, "create_notify");
    expect_class(MPIX_Win_device_handle(window.win, &window.handle), MPI_SUCCESS, "device_handle");
    const int64_t value = programs::value(rank, i, 0);
    window.run(1, [&](KernelWindow in_kernel, int) {
      for (int to = 0; to < ranks; ++to)
        if (to != rank)
          expect(in_kernel.put_notify(Thread(), to, static_cast<uint64_t>(rank), &value, sizeof value, 0) ==
                     Error::none,
                 "put_notify at once");
      expect(in_kernel.wait_notify(Thread(), 0, others) == Error::none, "all puts have come");
    });
    for (int from = 0; from < ranks; ++from)
      expect(from == rank || window.words()[from] == programs::value(from, i, 0), "a put at once");
  }
}

/// The same with barriers, for which windows on communicators with a stream have counters from the start.
void barriers_at_once() {
  constexpr int kRounds = 20;
  const StreamComm stream;
  const Buffer memory(Kind::device, kBytes, device);
  for (int i = 0; i < kRounds && ranks > 1; ++i) {
    const BusyConnections busy(1 + i % (ranks - 1));
    MPI_Win win;
    void* handle = nullptr;
    MPI_Win_create(memory.data(), kBytes, sizeof(int64_t), MPI_INFO_NULL, stream.comm, &win);
    expect_class(MPIX_Win_device_handle(win, &handle), MPI_SUCCESS, "device_handle");
    run_kernel(handle, 1, [](KernelWindow in_kernel, int) {
      expect(in_kernel.barrier(Thread()) == Error::none, "a barrier at once");
    });
    MPI_Win_free(&win);
  }
}

/// Rank 0 alone has memory: the others put into it, and it notifies them.
void one_memory() {
  const HostWindow window(4, rank == 0);
  window.run(1, [&](KernelWindow in_kernel, int) {
    const int64_t value = rank + 100;
    const auto others = static_cast<uint64_t>(ranks - 1);
    if (rank == 0) {
      if (others != 0) expect(in_kernel.wait_notify(Thread(), 1, others) == Error::none, "all have put");
      for (int to = 1; to < ranks; ++to)
        expect(in_kernel.notify(Thread(), to, 2) == Error::none, "notify a rank without memory");
    } else {
      const auto at = static_cast<uint64_t>(rank);
      expect(in_kernel.put_notify(Thread(), 0, at, &value, sizeof value, 1) == Error::none, "put_notify");
      expect(in_kernel.wait_notify(Thread(), 2) == Error::none, "notified");
      expect(in_kernel.put(Thread(), rank, 0, &value, sizeof value) == Error::range,
             "a put into a rank without memory");
    }
  });
  MPI_Barrier(MPI_COMM_WORLD);
  for (int from = 1; rank == 0 && from < ranks; ++from)
    expect(window.words()[from] == from + 100, "a put of a rank without memory");
}

void refusals() {
  const HostWindow window;
  const int other = right();
  window.run(1, [&](KernelWindow in_kernel, int) {
    int64_t values[2] = {};
    const Target target = in_kernel.target(other);
    expect(target.put(Thread(), kWords, values, sizeof values[0]) == Error::range, "put behind the end");
    expect(target.get(Thread(), kWords - 1, values, sizeof values) == Error::range, "get behind the end");
    expect(target.notify(Thread(), 4) == Error::range, "no such notification");
    expect(target.remote() == (target.pointer() == nullptr), "other hosts have no pointer");
  });
  int code = 0, of = -2, notification = -1;
  MPIX_Win_device_status(window.win, &code, &of, &notification);
  expect(code == MPI_ERR_RMA_RANGE && of == other, "status of a range error");
  MPI_Barrier(MPI_COMM_WORLD);
}

/// The limit is WEFT_RMA_KERNEL_TIMEOUT_MS.
void time_limit() {
  const HostWindow window;
  window.run(1, [&](KernelWindow in_kernel, int) {
    expect(in_kernel.wait_notify(Thread(), 3) == Error::timeout, "a wait that nobody ends");
  });
  int code = 0, of = 0, notification = -1;
  MPIX_Win_device_status(window.win, &code, &of, &notification);
  expect(code == MPI_ERR_PENDING && of == -1 && notification == 3, "status of a time-out");
  if (rank == 0 && ranks > 1) {
    window.run(1, [&](KernelWindow in_kernel, int) {
      expect(in_kernel.barrier(Thread()) == Error::timeout, "a barrier of one rank");
    });
    MPIX_Win_device_status(window.win, &code, &of, &notification);
    expect(code == MPI_ERR_PENDING && of == 1, "the time limit of a barrier names the rank");
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  if (argc > 1 && std::strcmp(argv[1], "limit") == 0) {
    time_limit();
    return weft::test::finish(failures);
  }
  rings();
  atomics();
  many_threads();
  large_puts();
  sizes();
  with_the_host();
  tests_in_turn();
  counters_again();
  puts_at_once();
  barriers_at_once();
  one_memory();
  refusals();
  return weft::test::finish(failures);
}
