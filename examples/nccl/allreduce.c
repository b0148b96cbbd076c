// SPDX-License-Identifier: BSD-3-Clause
// NCCL communicator of the ranks of an MPI communicator: the first rank creates an id and broadcasts it by
// MPI. Done for the world and for its halves; compares NCCL's sum with MPI's. Build and run:
//   mpicc -I$CUDA_HOME/include allreduce.c -o allreduce -L$CUDA_HOME/lib64 -lcudart -lnccl
//   mpiexec -n 2 ./allreduce
#include <cuda_runtime.h>
#include <mpi.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1 << 20 };

static void check(int failed, const char* what, const char* why) {
  if (!failed) return;
  fprintf(stderr, "%s: %s\n", what, why);
  MPI_Abort(MPI_COMM_WORLD, 1);
}
#define NCCL(call)                                                   \
  do {                                                               \
    ncclResult_t result = (call);                                    \
    check(result != ncclSuccess, #call, ncclGetErrorString(result)); \
  } while (0)
#define CUDA(call)                                                   \
  do {                                                               \
    cudaError_t result = (call);                                     \
    check(result != cudaSuccess, #call, cudaGetErrorString(result)); \
  } while (0)

/// Returns an NCCL communicator of the same ranks in the same order. Collective; the rank's device must be
/// current.
static ncclComm_t nccl_comm_of(MPI_Comm comm) {
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  ncclUniqueId id;
  if (rank == 0) NCCL(ncclGetUniqueId(&id));
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, comm);
  ncclComm_t made;
  NCCL(ncclCommInitRank(&made, size, id, rank));
  return made;
}

/// Sums by NCCL and by MPI; returns the number of different elements. Sums of small integers are exact.
static int differences(MPI_Comm comm, cudaStream_t stream) {
  int rank, wrong = 0;
  MPI_Comm_rank(comm, &rank);
  float *in, *by_nccl, *by_mpi, *host = malloc(2 * COUNT * sizeof *host);
  CUDA(cudaMalloc((void**)&in, COUNT * sizeof *in));
  CUDA(cudaMalloc((void**)&by_nccl, COUNT * sizeof *by_nccl));
  CUDA(cudaMalloc((void**)&by_mpi, COUNT * sizeof *by_mpi));
  for (int i = 0; i < COUNT; ++i) host[i] = (float)(i % 1000 + rank);
  CUDA(cudaMemcpy(in, host, COUNT * sizeof *in, cudaMemcpyHostToDevice));
  ncclComm_t nccl = nccl_comm_of(comm);
  NCCL(ncclAllReduce(in, by_nccl, COUNT, ncclFloat, ncclSum, nccl, stream));
  CUDA(cudaStreamSynchronize(stream));  // MPI does not synchronise with streams
  MPI_Allreduce(in, by_mpi, COUNT, MPI_FLOAT, MPI_SUM, comm);
  CUDA(cudaMemcpy(host, by_nccl, COUNT * sizeof *host, cudaMemcpyDeviceToHost));
  CUDA(cudaMemcpy(host + COUNT, by_mpi, COUNT * sizeof *host, cudaMemcpyDeviceToHost));
  for (int i = 0; i < COUNT; ++i) wrong += host[i] != host[COUNT + i];
  NCCL(ncclCommDestroy(nccl));
  CUDA(cudaFree(in));
  CUDA(cudaFree(by_nccl));
  CUDA(cudaFree(by_mpi));
  free(host);
  return wrong;
}

int main(int argc, char** argv) {
  const char* local = getenv("LOCAL_RANK");
  CUDA(cudaSetDevice(local ? atoi(local) : 0));
  CUDA(cudaFree(0));  // creates the context before MPI_Init
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm halves;
  MPI_Comm_split(MPI_COMM_WORLD, rank < (size + 1) / 2, rank, &halves);
  cudaStream_t stream;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int wrong = differences(MPI_COMM_WORLD, stream) + differences(halves, stream);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks: NCCL and MPI differ in %d elements\n", size, wrong);
  CUDA(cudaStreamDestroy(stream));
  MPI_Comm_free(&halves);
  MPI_Finalize();
  return wrong != 0;
}
