// SPDX-License-Identifier: BSD-3-Clause
// Preloaded into a benchmark by programs.py: corrupts one byte of each received message, in host memory.
// CORRUPT selects the "last" byte of the message, the byte "behind" it, or a "gap" of a derived datatype;
// "late" corrupts nothing, but delays the 10th receive by 30 ms.
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char* posted;
static int posted_bytes;

static void spoil(void* buffer, long bytes) {
  const char* where = getenv("CORRUPT");
  if (where && (strcmp(where, "late") == 0 || strcmp(where, "gap") == 0)) return;
  char* at = (char*)buffer + bytes - (where && strcmp(where, "behind") == 0 ? 0 : 1);
  if (bytes >= 64) *at ^= 1;
}

/// Returns the extent of a message of elements or of one derived datatype, whose byte behind the first int is
/// in a gap.
static void spoil_message(void* buffer, int count, MPI_Datatype type) {
  const char* where = getenv("CORRUPT");
  MPI_Aint low, extent;
  int size;
  PMPI_Type_get_extent(type, &low, &extent);
  PMPI_Type_size(type, &size);
  if (extent == size) {
    spoil(buffer, (long)count * size);
  } else if (where && strcmp(where, "gap") == 0 && extent >= 64) {
    ((char*)buffer)[sizeof(int)] ^= 1;
  }
}

static void dawdle(void) {
  static int receives;
  const char* how = getenv("CORRUPT");
  const struct timespec time = {.tv_nsec = 30000000};
  if (how && strcmp(how, "late") == 0 && ++receives == 10) nanosleep(&time, NULL);
}

int MPI_Recv(void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status* status) {
  int code = PMPI_Recv(buffer, count, type, source, tag, comm, status);
  spoil_message(buffer, count, type);
  dawdle();
  return code;
}

int MPI_Irecv(void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request* request) {
  posted = buffer;
  posted_bytes = count;
  return PMPI_Irecv(buffer, count, type, source, tag, comm, request);
}

static MPI_Request receive = MPI_REQUEST_NULL;

int MPI_Recv_init(void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                  MPI_Request* request) {
  int code = PMPI_Recv_init(buffer, count, type, source, tag, comm, request);
  posted = buffer;
  posted_bytes = count;
  receive = *request;
  return code;
}

static void await_sum(void* to, int count, MPI_Request request) {
  posted = to;
  posted_bytes = count * (int)sizeof(float);
  receive = request;
}

int MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  int code = PMPI_Iallreduce(from, to, count, type, op, comm, request);
  await_sum(to, count, *request);
  return code;
}

int MPI_Allreduce_init(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                       MPI_Info info, MPI_Request* request) {
  int code = PMPI_Allreduce_init(from, to, count, type, op, comm, info, request);
  await_sum(to, count, *request);
  return code;
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  const int received = receive != MPI_REQUEST_NULL && *request == receive;
  int code = PMPI_Wait(request, status);
  if (received) spoil(posted, posted_bytes);
  return code;
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  int code = PMPI_Waitall(count, requests, statuses);
  if (posted) spoil(posted, posted_bytes);
  return code;
}

int MPI_Alltoall(const void* from, int count, MPI_Datatype type, void* to, int to_count, MPI_Datatype to_type,
                 MPI_Comm comm) {
  int ranks = 0, code = PMPI_Alltoall(from, count, type, to, to_count, to_type, comm);
  PMPI_Comm_size(comm, &ranks);
  if (to_count >= 64) spoil(to, (long)to_count * ranks);
  return code;
}

int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  int code = PMPI_Allreduce(from, to, count, type, op, comm);
  spoil_message(to, count, type);
  return code;
}

int MPI_Allgather(const void* from, int count, MPI_Datatype type, void* to, int to_count,
                  MPI_Datatype to_type, MPI_Comm comm) {
  int ranks = 0, code = PMPI_Allgather(from, count, type, to, to_count, to_type, comm);
  PMPI_Comm_size(comm, &ranks);
  if (to_count >= 64) spoil(to, (long)to_count * ranks);
  return code;
}

int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  int code = PMPI_Bcast(buffer, count, type, root, comm);
  if (type == MPI_CHAR) spoil(buffer, count);
  return code;
}

int MPI_Reduce_scatter_block(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm) {
  int code = PMPI_Reduce_scatter_block(from, to, count, type, op, comm);
  if (type == MPI_FLOAT) spoil(to, (long)count * (long)sizeof(float));
  return code;
}
