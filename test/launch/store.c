/* SPDX-License-Identifier: BSD-3-Clause */
/* A job by a key-value store, here files of a folder: its processes are children of this program, which has a
   launcher whose variables they inherit and ignore. When one of them dies, the others learn of it. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <weft.h>

enum { PROCESSES = 4, LARGEST = 1 << 16 };

static char folder[] = "/tmp/weft-store-XXXXXX";
static int failures;

static void expect(int good, const char* what, int line) {
  if (good) return;
  ++failures;
  printf("line %d: %s\n", line, what);
}
#define EXPECT(condition) expect((condition), #condition, __LINE__)

static void path_of(char* path, size_t size, const char* key) { snprintf(path, size, "%s/%s", folder, key); }

static int put(void* state, const char* key, const void* value, int bytes) {
  char path[200], temporary[220];
  ++*(int*)state;
  path_of(path, sizeof path, key);
  snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid());
  FILE* file = fopen(temporary, "wb");
  if (file == NULL || fwrite(value, 1, (size_t)bytes, file) != (size_t)bytes || fclose(file) != 0) return 1;
  return rename(temporary, path);
}

static int get(void* state, const char* key, int owner, void* value, int capacity) {
  char path[200];
  static char bytes[LARGEST];
  (void)state;
  if (owner < 0 || owner >= PROCESSES) return -1;
  path_of(path, sizeof path, key);
  FILE* file;
  while ((file = fopen(path, "rb")) == NULL) usleep(1000);
  const int length = (int)fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  memcpy(value, bytes, (size_t)(length < capacity ? length : capacity));
  return length;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int class_of(int code) {
  int error_class;
  MPI_Error_class(code, &error_class);
  return error_class;
}

static int run(int rank) {
  int puts = 0, size, mine, sum = 0, length;
  char name[100];
  EXPECT(MPIX_Job_by_store(PROCESSES, PROCESSES, "a job", put, get, &puts) == MPI_ERR_ARG);
  EXPECT(MPIX_Job_by_store(rank, PROCESSES, "", put, get, &puts) == MPI_ERR_ARG);
  EXPECT(MPIX_Job_by_store(rank, PROCESSES, "a job", put, NULL, &puts) == MPI_ERR_ARG);
  EXPECT(MPIX_Job_name(name, sizeof name, &length) == MPI_SUCCESS && length == 0);
  EXPECT(MPIX_Job_by_store(rank, PROCESSES, "a job", put, get, &puts) == MPI_SUCCESS);
  EXPECT(MPIX_Job_by_store(rank, PROCESSES, "a job", put, get, &puts) == MPI_ERR_OTHER);
  EXPECT(MPI_Init(NULL, NULL) == MPI_SUCCESS && puts > 0);
  EXPECT(MPIX_Job_name(name, sizeof name, &length) == MPI_SUCCESS && strcmp(name, "a job") == 0);
  MPI_Comm_rank(MPI_COMM_WORLD, &mine);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  EXPECT(mine == rank && size == PROCESSES);
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT(sum == PROCESSES * (PROCESSES - 1) / 2);
  EXPECT(MPIX_Job_by_store(rank, PROCESSES, "another", put, get, &puts) == MPI_ERR_OTHER);

  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (rank == 1) _exit(failures == 0 ? 0 : 1);
  const double begin = now();
  const int code = MPI_Recv(&sum, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  EXPECT(class_of(code) == MPIX_ERR_PROC_FAILED);
  EXPECT(now() - begin < 1.5); /* without a store the launcher has 2 s to end the job */
  return failures == 0 ? 0 : 1;
}

int main(void) {
  int good = 1;
  if (mkdtemp(folder) == NULL) return 1;
  for (int rank = 0; rank < PROCESSES; ++rank) {
    fflush(stdout);
    if (fork() == 0) {
      const int status = run(rank);
      fflush(stdout);
      _exit(status);
    }
  }
  for (int i = 0; i < PROCESSES; ++i) {
    int status = 0;
    good &= wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  char command[100];
  snprintf(command, sizeof command, "rm -r %s", folder);
  good &= system(command) == 0;
  puts(good ? "good" : "failed");
  return good ? 0 : 1;
}
