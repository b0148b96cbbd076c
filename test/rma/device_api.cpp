// SPDX-License-Identifier: BSD-3-Clause
// weft_device.cuh in kernels on real GPUs: rings of notified puts at every scope, atomic operations,
// time-outs, and the time of a notification beside a plain store with a flag. With the argument `small` few
// rounds and no kernels that need a host thread at the same time, for compute-sanitizer.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "stream/stream_comm.hpp"

extern "C" const unsigned char weft_fatbin_device_kernels[];

namespace {

using namespace weft::test::enqueued;

constexpr size_t kBytes = (2 << 14) * sizeof(int64_t);

struct Window {
  Window() : memory(Kind::device, kBytes, device), result(Kind::device, 64, device) {
    memory.write(std::vector<char>(kBytes));
    MPI_Win_create(memory.data(), kBytes, sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    expect_class(MPIX_Win_create_notify(win, 2), MPI_SUCCESS, "create_notify");
    expect_class(MPIX_Win_device_handle(win, &handle), MPI_SUCCESS, "device_handle");
  }
  ~Window() { expect_class(MPI_Win_free(&win), MPI_SUCCESS, "free"); }
  /// Runs a kernel on all ranks; returns result[0].
  int64_t run(const char* name, unsigned threads, int words, int rounds) {
    static void* module = nullptr;
    auto& cuda = driver();
    if (module == nullptr)
      expect(cuda.cuModuleLoadData(&module, weft_fatbin_device_kernels) == 0, "cuModuleLoadData");
    void* function = nullptr;
    expect(cuda.cuModuleGetFunction(&function, module, name) == 0, name);
    result.write(std::vector<char>(64));
    void* at = result.data();
    void* parameters[] = {&handle, &words, &rounds, &at};
    MPI_Barrier(MPI_COMM_WORLD);
    // result.write() leaves the context of GPU 0 current.
    expect(driver().cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, nullptr, parameters, nullptr) == 0,
           "launch");
    expect(cuda.cuCtxSynchronize() == 0, "cuCtxSynchronize");
    long long values[2];
    std::memcpy(values, result.read(0, sizeof values).data(), sizeof values);
    expect(values[1] != 0, std::string(name) + " did not end");
    MPI_Barrier(MPI_COMM_WORLD);
    return values[0];
  }
  Buffer memory, result;
  MPI_Win win = MPI_WIN_NULL;
  void* handle = nullptr;
};

/// A kernel marks the partitions of a send ready and waits for those of a receive, while the host waits in
/// MPI.
void partitioned() {
  constexpr int kPartitions = 6, kWords = 5000;
  constexpr size_t kSize = kPartitions * kWords * sizeof(int64_t);
  Buffer out(Kind::device, kSize, device), in(Kind::device, kSize, device), result(Kind::device, 64, device);
  MPI_Request requests[2];
  void* handles[2] = {};
  MPI_Psend_init(out.data(), kPartitions, kWords, MPI_INT64_T, right(), 3, MPI_COMM_WORLD, MPI_INFO_NULL,
                 &requests[0]);
  MPI_Precv_init(in.data(), kPartitions, kWords, MPI_INT64_T, left(), 3, MPI_COMM_WORLD, MPI_INFO_NULL,
                 &requests[1]);
  for (int i = 0; i < 2; ++i)
    expect_class(MPIX_Prequest_device_handle(requests[i], &handles[i]), MPI_SUCCESS, "partitioned handle");
  MPI_Startall(2, requests);  // mappings are made without a running kernel
  MPI_Pready_range(0, kPartitions - 1, requests[0]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  void *module = nullptr, *function = nullptr;
  auto& cuda = driver();
  expect(cuda.cuModuleLoadData(&module, weft_fatbin_device_kernels) == 0, "cuModuleLoadData");
  expect(cuda.cuModuleGetFunction(&function, module, "test_partitioned") == 0, "test_partitioned");
  for (int round = 0; round < 20; ++round) {
    out.write(std::vector<char>(kSize));
    in.write(std::vector<char>(kSize));
    result.write(std::vector<char>(64));
    MPI_Barrier(MPI_COMM_WORLD);
    void *to = out.data(), *from = in.data(), *at = result.data();
    int words = kWords, of = left();
    void* parameters[] = {&handles[0], &handles[1], &to, &from, &words, &rank, &of, &at};
    MPI_Startall(2, requests);
    expect(driver().cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr) == 0,
           "launch");
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect(driver().cuCtxSynchronize() == 0, "cuCtxSynchronize");
    long long values[2];
    std::memcpy(values, result.read(0, sizeof values).data(), sizeof values);
    expect(values[0] == 0 && values[1] == 1, "partitioned round: " + std::to_string(values[0]));
  }
  for (MPI_Request& request : requests) MPI_Request_free(&request);
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  const bool small = argc > 1 && std::strcmp(argv[1], "small") == 0;
  const int atomic_rounds = small ? 20 : 2000;
  {
    Window window;
    const int many = small ? 2 : weft::test::mps() ? 300 : 10;
    for (const int words : small ? std::vector{1, 3, 300} : std::vector{1, 3, 1000, 1 << 14}) {
      expect(window.run("test_ring_thread", 1, words, many / 6 + 1) == 0, "ring of threads");
      expect(window.run("test_ring_warp", 32, words, many) == 0, "ring of warps");
      expect(window.run("test_ring_block", 256, words, many) == 0, "ring of blocks");
    }
    window.memory.write(std::vector<char>(kBytes));
    expect(window.run("test_atomics", 1, 0, atomic_rounds) == 0, "atomic operations");
    if (rank == 0) {
      int64_t words[5];
      std::memcpy(words, window.memory.read(0, sizeof words).data(), sizeof words);
      double sum;
      std::memcpy(&sum, &words[2], sizeof sum);
      const int each = atomic_rounds * ranks;
      expect(words[0] == each && words[1] == 2 * each && sum == 0.5 * each && words[4] == each,
             "sums of atomic operations");
    }
    if (ranks == 2 && !small) {
      // Without MPS each step takes a time slice.
      const int rounds = weft::test::mps() ? 5000 : 20;
      double notified = 0, raw = 0;
      for (int i = 0; i < 3; ++i) {  // the last of three counts: clocks and caches are warm
        notified = static_cast<double>(window.run("test_ping_pong", 1, 1, rounds)) / (2.0 * rounds);
        window.memory.write(std::vector<char>(kBytes));
        raw = static_cast<double>(window.run("test_raw_ping_pong", 1, 1, rounds)) / (2.0 * rounds);
        window.memory.write(std::vector<char>(kBytes));
      }
      if (rank == 0)
        std::printf(
            "put_notify to wait_notify, 8 bytes: %.0f ns one way; plain store and flag: %.0f ns; ratio "
            "%.2f\n",
            notified, raw, notified / raw);
    }
  }
  {
    Window window;
    const auto outcome = window.run("test_timeout", 64, 0, 0);
    expect(outcome == 2, "a wait that nobody ends: " + std::to_string(outcome));
    int code = 0, of = 0, notification = -1;
    MPIX_Win_device_status(window.win, &code, &of, &notification);
    expect(code == MPI_ERR_PENDING && of == -1 && notification == 0, "status of a time-out");
    MPIX_Win_device_status(window.win, &code, &of, &notification);
    expect(code == MPI_SUCCESS, "the status is reset");
  }
  if (!small) partitioned();
  return weft::test::finish(failures);
}
