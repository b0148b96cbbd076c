// SPDX-License-Identifier: BSD-3-Clause
// Windows of two fake hosts in kernels on real GPUs: rings at every scope, atomic operations, many threads;
// with the argument `figures` also the time of a put with notification and the bandwidth of 64 blocks beside
// those of the host, as one JSON object.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "stream/stream_comm.hpp"

extern "C" const unsigned char weft_fatbin_hosts_kernels[];

namespace {

using namespace weft::test::enqueued;

constexpr size_t kBytes = size_t{64} * (64 << 10);
constexpr int kWarmUp = 3;

struct HostsWindow {
  /// Without `kernels`: without a handle, as a program of the host has it.
  explicit HostsWindow(bool kernels = true)
      : memory(Kind::device, kBytes, device),
        buffer(Kind::device, kBytes, device),
        result(Kind::device, 64, device) {
    memory.write(std::vector<char>(kBytes));
    buffer.write(pattern(kBytes, rank, 1));
    MPI_Win_create(memory.data(), kBytes, sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    expect_class(MPIX_Win_create_notify(win, 2), MPI_SUCCESS, "create_notify");
    if (kernels) expect_class(MPIX_Win_device_handle(win, &handle), MPI_SUCCESS, "device_handle");
    MPI_Win_lock_all(0, win);
  }
  ~HostsWindow() {
    MPI_Win_unlock_all(win);
    expect_class(MPI_Win_free(&win), MPI_SUCCESS, "free");
  }
  /// Runs a kernel on all ranks; returns its ns.
  double run(const char* name, unsigned blocks, unsigned threads, long long bytes, int rounds) {
    static void* module = nullptr;
    auto& cuda = driver();
    if (module == nullptr)
      expect(cuda.cuModuleLoadData(&module, weft_fatbin_hosts_kernels) == 0, "cuModuleLoadData");
    void* function = nullptr;
    expect(cuda.cuModuleGetFunction(&function, module, name) == 0, name);
    result.write(std::vector<char>(64));
    void *from = buffer.data(), *at = result.data();
    void* parameters[] = {&handle, &bytes, &rounds, &from, &at};
    MPI_Barrier(MPI_COMM_WORLD);
    expect(
        driver().cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, nullptr, parameters, nullptr) == 0,
        "launch");
    expect(cuda.cuCtxSynchronize() == 0, "cuCtxSynchronize");
    long long values[3];
    std::memcpy(values, result.read(0, sizeof values).data(), sizeof values);
    expect(values[0] == 0 && values[1] == static_cast<long long>(blocks),
           std::string(name) + ": " + std::to_string(values[0]) + " errors, " + std::to_string(values[1]) +
               " ended");
    if (values[0] != 0) {
      int code = 0, of = 0, notification = 0;
      MPIX_Win_device_status(win, &code, &of, &notification);
      std::fprintf(stderr, "rank %d: %s: error class %d of rank %d, notification %d\n", rank, name, code, of,
                   notification);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return static_cast<double>(values[2]);
  }
  Buffer memory, buffer, result;
  MPI_Win win = MPI_WIN_NULL;
  void* handle = nullptr;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Half a round trip of MPIX_Put_notify and MPIX_Win_wait_notify, in us.
double host_ping_pong(const HostsWindow& window, int rounds) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < rounds; ++i) {
    if (rank == 0) MPIX_Put_notify(window.buffer.data(), 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, window.win, 0);
    MPIX_Win_wait_notify(window.win, 0, 1);
    if (rank == 1) MPIX_Put_notify(window.buffer.data(), 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, window.win, 0);
  }
  return (MPI_Wtime() - begin) * 1e6 / (2.0 * rounds);
}

/// us of 64 puts of 64 KiB by the host and a flush.
double host_puts(const HostsWindow& window) {
  constexpr int kPart = 64 << 10, kWords = kPart / 8;
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  if (rank == 0) {
    for (int i = 0; i < 64; ++i)
      MPI_Put(static_cast<const char*>(window.buffer.data()) + static_cast<size_t>(i) * kPart, kWords,
              MPI_INT64_T, 1, static_cast<MPI_Aint>(i) * kWords, kWords, MPI_INT64_T, window.win);
    MPI_Win_flush(1, window.win);
  }
  const double us = (MPI_Wtime() - begin) * 1e6;
  MPI_Barrier(MPI_COMM_WORLD);
  return us;
}

void figures() {
  std::vector<double> by_kernel, by_host, beside, blocks, puts;
  const auto repeat = [](auto&& measure) {
    for (int i = 0; i < kWarmUp + 5; ++i) measure(i < kWarmUp);
  };
  {
    const HostsWindow window(false);
    repeat([&](bool warm_up) {
      const double ping_pong_us = host_ping_pong(window, 200), puts_us = host_puts(window);
      if (warm_up) return;
      by_host.push_back(ping_pong_us);
      puts.push_back(puts_us);
    });
  }
  HostsWindow window;
  repeat([&](bool warm_up) {
    const double kernel_us = window.run("hosts_ping_pong", 1, 32, 8, 200) / (2.0 * 200) / 1e3;
    const double blocks_us = window.run("hosts_put_blocks", 64, 256, 64 << 10, 1) / 1e3;
    const double host_us = host_ping_pong(window, 200);
    if (warm_up) return;
    by_kernel.push_back(kernel_us);
    blocks.push_back(blocks_us);
    beside.push_back(host_us);
  });
  if (rank != 0) return;
  std::printf(
      "{\"put_notify_8B_us\": {\"kernel\": %.2f, \"host\": %.2f, \"more\": %.2f, \"host_with_a_handle\": "
      "%.2f},\n"
      " \"put_64KiB_64_blocks_GBps\": {\"kernel\": %.3f, \"host\": %.3f, \"ratio\": %.3f}}\n",
      median(by_kernel), median(by_host), median(by_kernel) - median(by_host), median(beside),
      kBytes / median(blocks) / 1e3, kBytes / median(puts) / 1e3, median(puts) / median(blocks));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  weft::test::start(argc, argv, rank, ranks);
  device = rank % weft::test::cuda().devices;  // the local rank of each fake host is 0
  {
    HostsWindow window;
    for (const long long bytes : {8, 24, 4096, 8000, 65536, 131072}) {
      window.run("hosts_ring_thread", 1, 1, bytes, 3);
      window.run("hosts_ring_warp", 1, 32, bytes, 10);
      window.run("hosts_ring_block", 1, 256, bytes, 10);
    }
    window.run("hosts_many_threads", 16, 64, 0, 5);
  }
  {
    HostsWindow window;
    window.run("hosts_atomics", 1, 1, 0, 50);
    if (rank == 0) {
      int64_t words[5];
      std::memcpy(words, window.memory.read(0, sizeof words).data(), sizeof words);
      double sum;
      std::memcpy(&sum, &words[2], sizeof sum);
      const int each = 50 * ranks;
      expect(words[0] == each && words[1] == 2 * each && sum == 0.5 * each && words[4] == each,
             "sums of atomic operations");
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (argc > 1 && std::strcmp(argv[1], "figures") == 0) figures();
  return weft::test::finish(failures);
}
