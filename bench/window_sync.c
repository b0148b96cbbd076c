// SPDX-License-Identifier: BSD-3-Clause
// Synchronisation of a window in GPU memory, us: MPI_Win_fence beside MPI_Barrier on all ranks, and the fence
// of the ranks' streams; between ranks 0 and 1 notified puts of the host, and of kernels by a thread, a block
// and 16 blocks, beside a plain store with a flag. Weft only (weft.h). Usage: window_sync [iterations]
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

#include "common/device.h"
#include "stream/stream.h"

#ifdef WEFT_HAVE_KERNELS
extern const unsigned char weft_fatbin_window_sync[];
#define IMAGE weft_fatbin_window_sync
#else
static const uint64_t IMAGE[1];
#endif

enum { BLOCKS = 16, THREADS = 1024, MEMORY = 4 << 20, HALF = MEMORY / 2, WARM_UP = 20, REPEATS = 10 };

static struct {
  int (*load)(void**, const void*);
  int (*find)(void**, void*, const char*);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                void**);
} cuda;

static struct bench_stream opened;
static MPI_Win win;
static int rank, ranks, iterations = 2000;
static char *memory, *module;
static void* handle;
static uint64_t* result;

static double timed(void (*step)(size_t), size_t size, int count) {
  double start = 0;
  for (int i = -WARM_UP; i < count; ++i) {
    if (i == 0) {
      MPI_Barrier(MPI_COMM_WORLD);
      start = MPI_Wtime();
    }
    step(size);
  }
  return (MPI_Wtime() - start) * 1e6 / count;
}

static void barrier(size_t unused) {
  (void)unused;
  MPI_Barrier(MPI_COMM_WORLD);
}

static void fence(size_t unused) {
  (void)unused;
  MPI_Win_fence(0, win);
}

static void enqueue_fence(int mode, size_t size) {
  (void)mode, (void)size;
  bench_stream_check(MPIX_Win_fence_enqueue(0, win), "MPIX_Win_fence_enqueue");
}

static void notified_round_trip(size_t size) {
  const int count = (int)size;
  for (int turn = 0; turn < 2; ++turn)
    if (rank == turn)
      bench_stream_check(
          MPIX_Put_notify(memory + HALF, count, MPI_CHAR, 1 - rank, 0, count, MPI_CHAR, win, 0),
          "MPIX_Put_notify");
    else if (rank == 1 - turn)
      bench_stream_check(MPIX_Win_wait_notify(win, 0, 1), "MPIX_Win_wait_notify");
}

// Returns half the time of a round trip by a kernel in us; a negative number without the kernels.
static double by_kernel(const char* name, unsigned blocks, unsigned threads, size_t bytes, int rounds) {
  void* kernel = NULL;
  if (module == NULL || cuda.find(&kernel, module, name) != 0) return -1;
  double best = -1;
  for (int repeat = 0; repeat < REPEATS; ++repeat) {  // clocks and caches are warm in the later ones
    char error[256];
    char zeros[256] = "";
    if (!bench_device_write(memory, zeros, sizeof zeros, error, sizeof error)) bench_stream_check(1, error);
    result[0] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank < 2) {
      void* parameters[] = {&handle, &bytes, &rounds, &result};
      bench_stream_check(cuda.launch(kernel, blocks, 1, 1, threads, 1, 1, 0, opened.stream, parameters, NULL),
                         "cuLaunchKernel");
      bench_stream_synchronize(&opened);
      bench_stream_check(result[0] == 0, name);
      const double one_way = (double)result[0] / 2e3 / rounds;
      if (best < 0 || one_way < best) best = one_way;
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return best;
}

static void print(const char* what, double us) {
  if (rank == 0 && us >= 0) printf("%-52s %9.2f\n", what, us);
}

static void measure_kernels(void) {
  const struct {
    const char *what, *name;
    unsigned blocks, threads;
    size_t bytes;
  } rows[] = {
      {"kernel: store and flag, 8 B, a thread", "weft_bench_raw_flag", 1, 1, 8},
      {"kernel: put_notify to wait_notify, 8 B, a thread", "weft_bench_notify_thread", 1, 1, 8},
      {"kernel: put_notify to wait_notify, 8 KiB, a block", "weft_bench_notify_block", 1, THREADS, 8 << 10},
      {"kernel: put_notify to wait_notify, 64 KiB, a block", "weft_bench_notify_block", 1, THREADS, 64 << 10},
      {"kernel: put_notify to wait_notify, 1 MiB, a block", "weft_bench_notify_block", 1, THREADS, 1 << 20},
      {"kernel: put_notify to wait_notify, 1 MiB, 16 blocks", "weft_bench_notify_block", BLOCKS, THREADS,
       (1 << 20) / BLOCKS},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
    print(rows[i].what,
          by_kernel(rows[i].name, rows[i].blocks, rows[i].threads, rows[i].bytes,
                    rows[i].bytes > 65536 || rows[i].blocks > 1 ? iterations / 10 : iterations));
}

static void open_device(void) {
  const struct bench_device_function table[] = {{"cuModuleLoadData", &cuda.load},
                                                {"cuModuleGetFunction", &cuda.find},
                                                {"cuLaunchKernel", &cuda.launch}};
  char error[256];
  bench_stream_check(!bench_device_find(table, sizeof table / sizeof *table, error, sizeof error), error);
  void* loaded = NULL;
  if (cuda.load(&loaded, IMAGE) == 0) module = loaded;
  memory = bench_device_allocate(BENCH_DEVICE_PLAIN, MEMORY, error, sizeof error);
  result = bench_device_allocate(BENCH_DEVICE_HOST, sizeof *result, error, sizeof error);
  bench_stream_check(memory == NULL || result == NULL, error);
}

int main(int argc, char** argv) {
  struct bench_device_info info;
  char error[256];
  if (!bench_device_open(bench_local_rank() < 0 ? 0 : bench_local_rank(), &info, error, sizeof error)) {
    fprintf(stderr, "window_sync: %s\n", error);
    return 3;
  }
  if (argc > 1) iterations = atoi(argv[1]);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks < 2 || iterations < 10) {
    fprintf(stderr, "window_sync: needs 2 ranks or more, and 10 iterations or more\n");
    return 2;
  }
  opened = bench_stream_open();
  open_device();
  bench_stream_check(MPI_Win_create(memory, MEMORY, 1, MPI_INFO_NULL, opened.comm, &win), "MPI_Win_create");
  bench_stream_check(MPIX_Win_create_notify(win, BLOCKS), "MPIX_Win_create_notify");
  bench_stream_check(MPIX_Win_device_handle(win, &handle), "MPIX_Win_device_handle");
  if (rank == 0) printf("# Weft MPI Synchronisation of a window, us (%d ranks, %s)\n", ranks, info.name);
  print("MPI_Barrier", timed(barrier, 0, iterations));
  MPI_Win_fence(0, win);
  print("MPI_Win_fence", timed(fence, 0, iterations));
  MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
  print("MPIX_Win_fence_enqueue", bench_stream_measure(&opened, enqueue_fence, 0, 0, iterations));
  print("MPIX_Win_fence_enqueue, in a graph",
        bench_stream_measure_graph(&opened, enqueue_fence, 0, 0, iterations));
  MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
  MPI_Win_lock_all(0, win);
  print("MPIX_Put_notify to MPIX_Win_wait_notify, 8 B", timed(notified_round_trip, 8, iterations) / 2);
  print("MPIX_Put_notify to MPIX_Win_wait_notify, 64 KiB", timed(notified_round_trip, 65536, iterations) / 2);
  MPI_Win_unlock_all(win);
  measure_kernels();
  MPI_Win_free(&win);
  bench_device_free(BENCH_DEVICE_HOST, result);
  bench_device_free(BENCH_DEVICE_PLAIN, memory);
  bench_stream_close(&opened);
  MPI_Finalize();
  bench_device_close();
  return 0;
}
