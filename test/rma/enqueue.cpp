// SPDX-License-Identifier: BSD-3-Clause
// Windows with a GPU stream: put, get and accumulate in the stream, fences and notifications in streams and
// from the host, replayed graphs, errors. On the emulated driver, and unchanged on GPUs.
#include <cstring>
#include <numeric>

#include "stream/stream_comm.hpp"

namespace {

using namespace weft::test::enqueued;

constexpr int kWords = 5000;
constexpr size_t kBytes = kWords * sizeof(int64_t);

std::vector<int64_t> read(const Buffer& buffer) {
  const std::vector<char> bytes = buffer.read();
  std::vector<int64_t> words(bytes.size() / sizeof(int64_t));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}
void write(Buffer& buffer, const std::vector<int64_t>& words) {
  std::vector<char> bytes(words.size() * sizeof(int64_t));
  std::memcpy(bytes.data(), words.data(), bytes.size());
  buffer.write(bytes);
}
std::vector<int64_t> filled(int64_t from, int64_t step = 1) {
  std::vector<int64_t> words(kWords);
  for (int i = 0; i < kWords; ++i) words[static_cast<size_t>(i)] = from + i * step;
  return words;
}
void good(int code, const char* what) { expect_class(code, MPI_SUCCESS, what); }

/// A window on GPU memory with the stream of a communicator.
struct StreamWindow {
  explicit StreamWindow(const StreamComm& in) : memory(Kind::device, kBytes, device) {
    write(memory, filled(0, 0));
    good(MPI_Win_create(memory.data(), kBytes, sizeof(int64_t), MPI_INFO_NULL, in.comm, &win), "create");
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  }
  ~StreamWindow() { good(MPI_Win_free(&win), "free"); }
  Buffer memory;
  MPI_Win win = MPI_WIN_NULL;
};

/// Ring of puts, gets and accumulates between fences in the stream, without waiting on the host.
void fences(const StreamComm& in, Kind kind) {
  StreamWindow window(in);
  Buffer origin(kind, kBytes, device), result(kind, kBytes, device);
  for (int round = 0; round < 5; ++round) {
    write(origin, filled(rank * 100000 + round));
    good(MPIX_Win_fence_enqueue(0, window.win), "fence");
    good(MPIX_Put_enqueue(origin.data(), kWords, MPI_INT64_T, right(), 0, kWords, MPI_INT64_T, window.win),
         "put");
    good(MPIX_Win_fence_enqueue(0, window.win), "fence");
    for (int i = 0; i < ranks; ++i)
      good(MPIX_Accumulate_enqueue(origin.data(), kWords, MPI_INT64_T, i, 0, kWords, MPI_INT64_T, MPI_SUM,
                                   window.win),
           "accumulate");
    good(MPIX_Win_fence_enqueue(0, window.win), "fence");
    good(MPIX_Get_enqueue(result.data(), kWords, MPI_INT64_T, right(), 0, kWords, MPI_INT64_T, window.win),
         "get");
    good(MPIX_Win_fence_enqueue(MPI_MODE_NOSUCCEED, window.win), "fence");
    in.synchronize();
    std::vector<int64_t> own(kWords), next(kWords);
    for (int i = 0; i < kWords; ++i) {
      int64_t sum = 0;
      for (int r = 0; r < ranks; ++r) sum += r * 100000 + round + i;
      own[static_cast<size_t>(i)] = left() * 100000 + round + i + sum;
      next[static_cast<size_t>(i)] = rank * 100000 + round + i + sum;
    }
    expect(read(window.memory) == own, "window after round " + std::to_string(round));
    expect(read(result) == next, "get in round " + std::to_string(round));
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

/// Elements of every size and several operations, by streams of all ranks at the same time.
template <class T>
void accumulates(const StreamComm& in, MPI_Datatype type, MPI_Op op, T start, T (*combined)(T, int)) {
  StreamWindow window(in);
  constexpr int n = 1000;
  Buffer origin(Kind::device, n * sizeof(T), device);
  std::vector<char> bytes(kBytes);
  for (int i = 0; i < n; ++i)
    std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(T), &start, sizeof(T));
  window.memory.write(bytes);
  const T mine = static_cast<T>(rank + 1);
  bytes.resize(n * sizeof(T));
  for (int i = 0; i < n; ++i)
    std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(T), &mine, sizeof(T));
  origin.write(bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, window.win);
  good(MPIX_Accumulate_enqueue(origin.data(), n, type, 0, 0, n, type, op, window.win), "accumulate");
  good(MPIX_Win_flush_enqueue(0, window.win), "flush");
  in.synchronize();
  // From the host at the same time: the operations are atomic with those of the streams.
  good(MPI_Accumulate(origin.data(), n, type, 0, 0, n, type, op, window.win), "accumulate");
  MPI_Win_unlock_all(window.win);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 0) return;
  const std::vector<char> found = window.memory.read(0, n * sizeof(T));
  const T right_value = combined(start, ranks);
  for (int i = 0; i < n; ++i) {
    T value;
    std::memcpy(&value, found.data() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
    if (std::memcmp(&value, &right_value, sizeof(T)) != 0)
      return expect(false, "accumulate of " + std::to_string(sizeof(T)) + " bytes");
  }
}
template <class T>
T sum_twice(T start, int n) {
  for (int r = 0; r < n; ++r) start = static_cast<T>(start + 2 * (r + 1));
  return start;
}
template <class T>
T largest(T start, int n) {
  return std::max(start, static_cast<T>(n));
}

/// A message with data, sent around the ring by notified puts: in streams, from the host, and mixed.
void notifications(const StreamComm& in, bool from_host, bool waits_on_host) {
  StreamWindow window(in);
  good(MPIX_Win_create_notify(window.win, rank + 2), "create_notify");
  MPI_Win_lock_all(0, window.win);
  Buffer origin(Kind::device, kBytes, device);
  for (int round = 1; round <= 4; ++round) {
    write(origin, filled(rank * 1000 + round));
    for (int part = 0; part < 2; ++part) {
      const char* const from =
          static_cast<const char*>(origin.data()) + static_cast<size_t>(part) * kBytes / 2;
      if (from_host)
        good(MPIX_Put_notify(from, kWords / 2, MPI_INT64_T, right(), part * kWords / 2, kWords / 2,
                             MPI_INT64_T, window.win, 1),
             "put_notify");
      else
        good(MPIX_Put_notify_enqueue(from, kWords / 2, MPI_INT64_T, right(), part * kWords / 2, kWords / 2,
                                     MPI_INT64_T, window.win, 1),
             "put_notify_enqueue");
    }
    if (waits_on_host)
      in.synchronize();  // the emulator may execute a stream only while the host waits for it
    if (waits_on_host)
      good(MPIX_Win_wait_notify(window.win, 1, 2), "wait_notify");
    else
      good(MPIX_Win_wait_notify_enqueue(window.win, 1, 2), "wait_notify_enqueue");
    in.synchronize();
    expect(read(window.memory) == filled(left() * 1000 + round), "data of notified puts");
    MPI_Count value = -1;
    good(MPIX_Win_get_notify(window.win, 1, &value), "get_notify");
    expect(value == 0, "counter after the wait: " + std::to_string(value));
    MPI_Barrier(MPI_COMM_WORLD);
  }
  int flag = -1;
  good(MPIX_Win_test_notify(window.win, 0, 1, &flag), "test_notify");
  expect(flag == 0, "test of a counter that nobody has changed");
  good(MPIX_Win_set_notify(window.win, 0, 7), "set_notify");
  good(MPIX_Win_test_notify(window.win, 0, 5, &flag), "test_notify");
  MPI_Count value = 0;
  good(MPIX_Win_get_notify(window.win, 0, &value), "get_notify");
  expect(flag == 1 && value == 2, "test subtracts the value");
  MPI_Win_unlock_all(window.win);
  expect_class(MPIX_Win_create_notify(window.win, 1), MPI_ERR_WIN, "a second create_notify");
  good(MPIX_Win_free_notify(window.win), "free_notify");
}

/// A captured ring step with notification, replayed.
void graph(const StreamComm& in) {
  StreamWindow window(in);
  good(MPIX_Win_create_notify(window.win, 1), "create_notify");
  Buffer origin(Kind::device, kBytes, device), sum(Kind::device, kBytes, device);
  write(origin, filled(rank));
  write(sum, filled(0, 0));
  MPI_Win_lock_all(0, window.win);
  {
    Graph graph(in.stream);
    good(MPIX_Put_notify_enqueue(origin.data(), kWords, MPI_INT64_T, right(), 0, kWords, MPI_INT64_T,
                                 window.win, 0),
         "captured put");
    good(MPIX_Win_wait_notify_enqueue(window.win, 0, 1), "captured wait");
    good(MPIX_Accumulate_enqueue(window.memory.data(), kWords, MPI_INT64_T, rank, 0, 0, MPI_INT64_T, MPI_SUM,
                                 window.win) == MPI_SUCCESS
             ? MPI_ERR_OTHER
             : MPI_SUCCESS,
         "sizes that differ");
    good(MPIX_Win_fence_enqueue(0, MPI_WIN_NULL) == MPI_SUCCESS ? MPI_ERR_OTHER : MPI_SUCCESS, "no window");
    graph.end();
    for (int i = 0; i < 20; ++i) graph.launch();
    in.synchronize();
  }
  expect(read(window.memory) == filled(left()), "replayed graph");
  MPI_Win_unlock_all(window.win);
}

void errors(const StreamComm& in) {
  StreamWindow window(in);
  Buffer origin(Kind::device, kBytes, device);
  std::vector<int64_t> pageable(kWords);
  const auto put = [&](const void* from, MPI_Aint disp, MPI_Datatype type, int count = 1) {
    return MPIX_Put_enqueue(from, count, type, right(), disp, count, type, window.win);
  };
  expect_class(put(origin.data(), 0, MPI_INT64_T), MPI_ERR_RMA_SYNC, "no epoch");
  MPI_Win_lock_all(0, window.win);
  expect_class(put(pageable.data(), 0, MPI_INT64_T), MPI_ERR_BUFFER, "pageable memory");
  expect_class(put(origin.data(), kWords, MPI_INT64_T), MPI_ERR_RMA_RANGE, "outside of the window");
  expect_class(MPIX_Win_wait_notify_enqueue(window.win, 0, 1), MPI_ERR_ARG, "no notifications");
  MPI_Datatype vector;
  MPI_Type_vector(2, 1, 2, MPI_INT64_T, &vector);
  MPI_Type_commit(&vector);
  expect_class(put(origin.data(), 0, vector), MPI_ERR_UNSUPPORTED_OPERATION, "not contiguous");
  MPI_Type_free(&vector);
  expect_class(MPIX_Accumulate_enqueue(origin.data(), 1, MPI_C_DOUBLE_COMPLEX, 0, 0, 1, MPI_C_DOUBLE_COMPLEX,
                                       MPI_SUM, window.win),
               MPI_ERR_UNSUPPORTED_OPERATION, "16-byte elements");
  int code = 0, of = 0, notification = 0;
  good(MPIX_Win_device_status(window.win, &code, &of, &notification), "device_status");
  expect(code == MPI_SUCCESS, "no error of kernels");
  MPI_Win_unlock_all(window.win);
  MPI_Win plain;
  good(MPI_Win_create(origin.data(), kBytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &plain), "create");
  MPI_Win_set_errhandler(plain, MPI_ERRORS_RETURN);
  expect_class(MPIX_Win_fence_enqueue(0, plain), MPI_ERR_WIN, "no stream");
  void* handle = nullptr;
  expect_class(MPIX_Win_device_handle(plain, &handle), MPI_ERR_WIN, "no notifications");
  good(MPIX_Win_create_notify(plain, 1), "create_notify");
  good(MPIX_Win_device_handle(plain, &handle), "device_handle");
  expect(handle != nullptr, "handle");
  good(MPI_Win_free(&plain), "free with notifications");
  good(MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, static_cast<void*>(&handle), &plain),
       "allocate");
  MPI_Win_set_errhandler(plain, MPI_ERRORS_RETURN);
  good(MPIX_Win_create_notify(plain, 1), "create_notify of host memory");
  expect_class(MPIX_Win_device_handle(plain, &handle), MPI_ERR_UNSUPPORTED_OPERATION, "host memory");
  MPI_Win_lock_all(0, plain);
  const int64_t word = rank;
  good(MPIX_Put_notify(&word, 1, MPI_INT64_T, right(), 0, 1, MPI_INT64_T, plain, 0),
       "put_notify to host memory");
  good(MPIX_Win_wait_notify(plain, 0, 1), "wait_notify in host memory");
  MPI_Win_unlock_all(plain);
  good(MPI_Win_free(&plain), "free");
}

/// An error of one process before its counters are made: all return one, and none waits for it.
void fails_alone(const StreamComm& in) {
  if (ranks == 1 || driver().fail == nullptr) return;
  const StreamWindow window(in);
  for (const bool frees : {false, true}) {
    if (frees) good(MPIX_Win_create_notify(window.win, 1), "create_notify");
    if (rank == 0) driver().fail("cuStreamQuery:1:700");
    const int code = frees ? MPIX_Win_free_notify(window.win) : MPIX_Win_create_notify(window.win, 1);
    expect(code != MPI_SUCCESS, "an error of one process");
    if (rank == 0) driver().fail("");
    MPI_Barrier(MPI_COMM_WORLD);
  }
  good(MPIX_Win_create_notify(window.win, 1), "create_notify after an error");
  good(MPIX_Win_free_notify(window.win), "free_notify");
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  {
    const StreamComm in;
    for (const Kind kind : {Kind::device, Kind::pinned, Kind::managed}) fences(in, kind);
    accumulates<int8_t>(in, MPI_INT8_T, MPI_SUM, 3, sum_twice);
    accumulates<int16_t>(in, MPI_INT16_T, MPI_SUM, 4, sum_twice);
    accumulates<int32_t>(in, MPI_INT32_T, MPI_SUM, 5, sum_twice);
    accumulates<int64_t>(in, MPI_INT64_T, MPI_SUM, 6, sum_twice);
    accumulates<float>(in, MPI_FLOAT, MPI_SUM, 0.5F, sum_twice);
    accumulates<double>(in, MPI_DOUBLE, MPI_SUM, 0.25, sum_twice);
    accumulates<double>(in, MPI_DOUBLE, MPI_MAX, 0.25, largest);
    accumulates<uint16_t>(in, MPI_UINT16_T, MPI_MAX, 0, largest);
    for (const bool from_host : {false, true})
      for (const bool waits_on_host : {false, true}) notifications(in, from_host, waits_on_host);
    graph(in);
    errors(in);
    fails_alone(in);
  }
  return weft::test::finish(failures);
}
