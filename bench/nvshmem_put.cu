// SPDX-License-Identifier: BSD-3-Clause
// The ping-pongs of window_sync.c by NVSHMEM: put with signal and wait for the signal, us one way. Not built
// with Weft; with NVSHMEM of PyPI (nvidia-nvshmem-cu13, N = its folder nvidia/nvshmem):
//   nvcc -std=c++17 -O3 -arch=sm_90 -rdc=true -I$N/include -I<prefix>/include bench/nvshmem_put.cu -o
//   nvshmem_put \
//     -L$N/lib -lnvshmem_device -l:libnvshmem_host.so.3 -L<prefix>/lib -lmpi_abi
// Started by mpiexec -n 2 with a GPU for each rank.
#include <mpi.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include <cstdio>
#include <cstdlib>

namespace {

constexpr int kBlocks = 16, kThreads = 1024, kRepeats = 10;

void check(int code, const char* what) {
  if (code == 0) return;
  std::fprintf(stderr, "nvshmem_put: %s failed (%d)\n", what, code);
  std::exit(1);
}

enum class Scope { thread, block };

template <Scope scope>
__global__ void __launch_bounds__(kThreads) ping_pong(char* to, const char* from, uint64_t* signals,
                                                      size_t bytes, int rounds, unsigned long long* ns) {
  const int self = nvshmem_my_pe(), peer = 1 - self;
  uint64_t* const signal = signals + blockIdx.x;
  const size_t at = blockIdx.x * bytes;
  unsigned long long begin, end;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  const auto put = [&] {
    if constexpr (scope == Scope::block)
      nvshmemx_putmem_signal_block(to + at, from + at, bytes, signal, 1, NVSHMEM_SIGNAL_ADD, peer);
    else
      nvshmem_putmem_signal(to + at, from + at, bytes, signal, 1, NVSHMEM_SIGNAL_ADD, peer);
  };
  for (int i = 1; i <= rounds; ++i) {
    if (self == 0) put();
    if (threadIdx.x == 0) nvshmem_signal_wait_until(signal, NVSHMEM_CMP_GE, i);
    __syncthreads();
    if (self == 1) put();
  }
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(end));
  if (blockIdx.x == 0 && threadIdx.x == 0) ns[0] = end - begin;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int iterations = argc > 1 ? std::atoi(argv[1]) : 2000;
  check(cudaSetDevice(rank), "cudaSetDevice");
  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  if (rank == 0) check(nvshmemx_get_uniqueid(&id), "nvshmemx_get_uniqueid");
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  check(nvshmemx_set_attr_uniqueid_args(rank, ranks, &id, &attributes), "nvshmemx_set_attr_uniqueid_args");
  check(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes), "nvshmemx_init_attr");
  char* const to = static_cast<char*>(nvshmem_malloc(1 << 20));
  char* const from = static_cast<char*>(nvshmem_malloc(1 << 20));
  auto* const signals = static_cast<uint64_t*>(nvshmem_calloc(kBlocks, sizeof(uint64_t)));
  unsigned long long* ns = nullptr;
  check(cudaMallocHost(&ns, sizeof *ns), "cudaMallocHost");
  if (rank == 0) std::printf("# NVSHMEM put with signal, us one way\n");
  const struct {
    const char* what;
    Scope scope;
    int blocks;
    size_t bytes;
  } rows[] = {{"kernel: put_signal to wait, 8 B, a thread", Scope::thread, 1, 8},
              {"kernel: put_signal to wait, 8 KiB, a block", Scope::block, 1, 8 << 10},
              {"kernel: put_signal to wait, 64 KiB, a block", Scope::block, 1, 64 << 10},
              {"kernel: put_signal to wait, 1 MiB, a block", Scope::block, 1, 1 << 20},
              {"kernel: put_signal to wait, 1 MiB, 16 blocks", Scope::block, kBlocks, (1 << 20) / kBlocks}};
  for (const auto& row : rows) {
    const int rounds = row.bytes > 65536 || row.blocks > 1 ? iterations / 10 : iterations;
    double best = -1;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      check(cudaMemset(signals, 0, kBlocks * sizeof *signals), "cudaMemset");
      check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      nvshmem_barrier_all();
      if (row.scope == Scope::thread)
        ping_pong<Scope::thread><<<1, 1>>>(to, from, signals, row.bytes, rounds, ns);
      else
        ping_pong<Scope::block><<<row.blocks, kThreads>>>(to, from, signals, row.bytes, rounds, ns);
      check(cudaGetLastError(), "the launch");
      check(cudaDeviceSynchronize(), "the kernel");
      nvshmem_barrier_all();
      const double one_way = static_cast<double>(*ns) / 2e3 / rounds;
      if (best < 0 || one_way < best) best = one_way;
    }
    if (rank == 0) std::printf("%-52s %9.2f\n", row.what, best);
  }
  std::fflush(stdout);
  nvshmem_finalize();
  MPI_Finalize();
  return 0;
}
