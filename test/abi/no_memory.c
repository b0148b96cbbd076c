/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that need more memory than there is return MPI_ERR_NO_MEM, and the library works afterwards. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "expect.h"

/* 2 GiB of data in memory that takes none, and an address space with room for 64 MiB more. */
static const MPI_Count ints = (MPI_Count)1 << 29;
static void *data, *other;

static void* reserve(void) {
  return mmap(NULL, (size_t)ints * sizeof(int), PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void limit_memory(void) {
  unsigned long pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%lu", &pages) != 1) exit(77);
  fclose(file);
  const rlim_t bytes = (rlim_t)pages * 4096 + ((rlim_t)64 << 20);
  const struct rlimit limit = {bytes, bytes};
  if (setrlimit(RLIMIT_AS, &limit) != 0) exit(77);
}

static void expect_self_message(void) {
  int in = 5, out = 0;
  EXPECT(MPI_Sendrecv(&in, 1, MPI_INT, 0, 3, &out, 1, MPI_INT, 0, 3, MPI_COMM_SELF, MPI_STATUS_IGNORE) ==
             MPI_SUCCESS &&
         out == 5);
}

static void messages(void) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status;
  EXPECT_ERROR(MPI_Sendrecv_replace_c(data, ints, MPI_INT, 0, 0, 0, 0, MPI_COMM_SELF, &status),
               MPI_ERR_NO_MEM, "no memory for a copy of 2147483648 bytes");
  EXPECT_ERROR(MPI_Isendrecv_replace_c(data, ints, MPI_INT, 0, 0, 0, 0, MPI_COMM_SELF, &request),
               MPI_ERR_NO_MEM, "no memory for a copy of 2147483648 bytes");
  EXPECT(request == MPI_REQUEST_NULL);
  MPI_Comm_attach_buffer(MPI_COMM_SELF, MPI_BUFFER_AUTOMATIC, 0);
  EXPECT_ERROR(MPI_Bsend_c(data, ints, MPI_INT, 0, 0, MPI_COMM_SELF), MPI_ERR_NO_MEM, "no memory for a copy");
  EXPECT(MPI_Ibsend_c(data, ints, MPI_INT, 0, 0, MPI_COMM_SELF, &request) == MPI_SUCCESS);
  EXPECT_ERROR(MPI_Wait(&request, &status), MPI_ERR_NO_MEM, "no memory for a copy");
  MPI_Comm_detach_buffer(MPI_COMM_SELF, &other, &(int){0});
  expect_self_message();
}

static void partitions(void) {
  MPI_Request request = MPI_REQUEST_NULL;
  for (int i = 0; i < 3; ++i)
    EXPECT_ERROR(MPI_Psend_init(data, INT32_MAX, 0, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &request),
                 MPI_ERR_NO_MEM, "no memory for 2147483647 partitions");
  EXPECT(request == MPI_REQUEST_NULL);
  /* The failed calls have sent nothing: the next pair is matched. */
  int in = 4, out = 0;
  MPI_Request pair[2];
  MPI_Psend_init(&in, 1, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &pair[0]);
  MPI_Precv_init(&out, 1, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &pair[1]);
  MPI_Startall(2, pair);
  MPI_Pready(0, pair[0]);
  EXPECT(MPI_Waitall(2, pair, MPI_STATUSES_IGNORE) == MPI_SUCCESS && out == 4);
  MPI_Request_free(&pair[0]), MPI_Request_free(&pair[1]);
}

/* Allocations without a check of their own: the entry point returns the error to the handler of the call. */
static int handled;
static void count_errors(MPI_Comm* comm, int* code, ...) {
  (void)code;
  handled += *comm == MPI_COMM_SELF;
}

static void safety_net(void) {
  const MPI_Count many = (MPI_Count)1 << 25;
  MPI_Datatype type = MPI_INT;
  MPI_Errhandler counter;
  MPI_Comm_create_errhandler(count_errors, &counter);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, counter);
  EXPECT_ERROR(MPI_Type_create_hindexed_block_c(many, 1, data, MPI_INT, &type), MPI_ERR_NO_MEM,
               "out of memory");
  EXPECT(handled == 1 && type == MPI_DATATYPE_NULL);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Errhandler_free(&counter);
  expect_self_message();
}

int main(int argc, char** argv) {
  int level;
  MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  expect_self_message();
  data = reserve();
  if (data == MAP_FAILED) return 77;
  limit_memory();
  messages();
  partitions();
  safety_net();
  MPI_Finalize();
  return finish();
}
