/* SPDX-License-Identifier: BSD-3-Clause */
/* Parents and children of MPI_Comm_spawn, and jobs that connect. Arguments: the mode and its arguments.
 * spawn.py runs it. The modes of jobs that connect are in connections.c. */
#define _GNU_SOURCE
#include "processes.h"

#include <dirent.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { kLarge = 300000 };

void exchange(MPI_Comm intercomm) {
  int remote;
  MPI_Comm_remote_size(intercomm, &remote);
  const int rank = rank_of(intercomm);
  static char in[kLarge], out[kLarge];
  memset(out, rank, sizeof out);
  const int sizes[] = {1, 2000, kLarge};
  for (int peer = 0; peer < remote; ++peer)
    for (int i = 0; i < 3; ++i) {
      const int size = sizes[i];
      MPI_Request requests[2];
      MPI_Irecv(in, size, MPI_BYTE, peer, 5, intercomm, &requests[0]);
      MPI_Isend(out, size, MPI_BYTE, peer, 5, intercomm, &requests[1]);
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      CHECK(in[0] == (char)peer && in[size - 1] == (char)peer);
    }
}

void merged(MPI_Comm intercomm, int high, const char* file) {
  MPI_Comm all;
  MPI_Intercomm_merge(intercomm, high, &all);
  const int rank = rank_of(all), size = size_of(all);
  for (int round = 0; round < 20; ++round) { /* first by messages, then by shared memory */
    int value = rank + round, sum = 0, least = -1;
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, all);
    CHECK(sum == size * (size - 1) / 2 + size * round);
    MPI_Bcast(&value, 1, MPI_INT, round % size, all);
    CHECK(value == round % size + round);
    int* gathered = malloc(sizeof(int) * (size_t)size);
    MPI_Allgather(&rank, 1, MPI_INT, gathered, 1, MPI_INT, all);
    for (int i = 0; i < size; ++i) CHECK(gathered[i] == i);
    free(gathered);
    MPI_Reduce(&rank, &least, 1, MPI_INT, MPI_MIN, 0, all);
    CHECK(rank != 0 || least == 0);
    MPI_Barrier(all);
  }
  MPI_Comm node, odd;
  MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_split(all, rank % 2, -rank, &odd);
  CHECK(rank_of(odd) == (size - 1 - rank) / 2);
  MPI_Comm_free(&odd);
  MPI_Comm_free(&node);

  int* memory;
  MPI_Win window;
  MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, all, &memory, &window);
  *memory = 0;
  MPI_Win_fence(0, window);
  MPI_Accumulate(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, MPI_SUM, window);
  MPI_Win_fence(0, window);
  CHECK(*memory == (rank + size - 1) % size);
  MPI_Barrier(all);
  MPI_Win_lock_all(0, window);
  int one = 1, before;
  MPI_Fetch_and_op(&one, &before, MPI_INT, 0, 0, MPI_SUM, window);
  MPI_Win_unlock_all(window);
  MPI_Barrier(all);
  if (rank == 0) {
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    CHECK(*memory == size - 1 + size);
    MPI_Win_unlock(0, window);
  }
  MPI_Win_free(&window);

  if (file != NULL) {
    MPI_File handle;
    CHECK(MPI_File_open(all, file, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &handle) == MPI_SUCCESS);
    MPI_File_write_at_all(handle, rank * (MPI_Offset)sizeof(int), &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_sync(handle); /* sync, barrier, sync: MPI 5.0 section 14.6.10 */
    MPI_Barrier(all);
    MPI_File_sync(handle);
    int other = -1;
    MPI_File_read_at_all(handle, (rank + 1) % size * (MPI_Offset)sizeof(int), &other, 1, MPI_INT,
                         MPI_STATUS_IGNORE);
    CHECK(other == (rank + 1) % size);
    MPI_File_close(&handle);
  }
  MPI_Comm_disconnect(&all);
}

/* The two worlds by a communicator of both: its processes belong to two jobs. */
static void create_intercomm(MPI_Comm intercomm, int high) {
  MPI_Comm all, again;
  MPI_Intercomm_merge(intercomm, high, &all);
  MPI_Intercomm_create(MPI_COMM_WORLD, 0, all, high ? 0 : size_of(MPI_COMM_WORLD), 3, &again);
  MPI_Comm_free(&all);
  exchange(again);
  MPI_Comm_disconnect(&again);
}

static int open_descriptors(void) {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != NULL) ++count;
  closedir(folder);
  return count;
}

static long memory_kib(void) {
  char line[256];
  long kib = 0;
  FILE* status = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, status) != NULL) sscanf(line, "VmRSS: %ld", &kib);
  fclose(status);
  return kib;
}

const char* self;

static MPI_Comm spawn(const char* mode, const char* argument, int processes, MPI_Info info) {
  MPI_Comm children;
  char* argv[] = {(char*)mode, (char*)argument, NULL};
  int* codes = malloc(sizeof(int) * (size_t)processes);
  CHECK(MPI_Comm_spawn(self, argv, processes, info, 0, MPI_COMM_WORLD, &children, codes) == MPI_SUCCESS);
  for (int i = 0; i < processes; ++i) CHECK(codes[i] == MPI_SUCCESS);
  free(codes);
  return children;
}

/* parent CHILDREN FILE */
static void parent(char** arguments) {
  MPI_Comm children = spawn("child", arguments[1], atoi(arguments[0]), MPI_INFO_NULL);
  int remote, *universe, found;
  MPI_Comm_remote_size(children, &remote);
  CHECK(remote == atoi(arguments[0]));
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &found);
  CHECK(found && *universe >= size_of(MPI_COMM_WORLD));
  exchange(children);
  merged(children, 0, arguments[1]);
  create_intercomm(children, 0);
  int sum = 0, one = 1;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, children);
  CHECK(sum == remote);
  MPI_Comm_disconnect(&children);
  CHECK(children == MPI_COMM_NULL);
}

static void child(char** arguments) {
  MPI_Comm parents;
  MPI_Comm_get_parent(&parents);
  CHECK(parents != MPI_COMM_NULL);
  exchange(parents);
  merged(parents, 1, arguments[0]);
  create_intercomm(parents, 1);
  int sum = 0, one = 1, remote, *number, found;
  MPI_Comm_remote_size(parents, &remote);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, parents);
  CHECK(sum == remote);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &found);
  CHECK(found && *number == 0);
  MPI_Comm_disconnect(&parents);
  MPI_Comm_get_parent(&parents);
  CHECK(parents == MPI_COMM_NULL);
}

/* many COUNT: spawns and disconnects; nothing grows. */
static void many(char** arguments) {
  const int count = atoi(arguments[0]), settled = count / 4 < 100 ? count / 4 : 100;
  int descriptors = 0;
  long memory = 0;
  for (int i = 0; i < count; ++i) {
    MPI_Comm children = spawn("one", "", 1, MPI_INFO_NULL);
    int value = i, answer;
    MPI_Sendrecv(&value, 1, MPI_INT, 0, 1, &answer, 1, MPI_INT, 0, 1, children, MPI_STATUS_IGNORE);
    CHECK(answer == i + 1);
    MPI_Comm_disconnect(&children);
    if (i == settled) {
      descriptors = open_descriptors();
      memory = memory_kib();
    }
  }
  const int grown = open_descriptors() - descriptors;
  const long more = memory_kib() - memory;
  printf("descriptors grew by %d, memory by %ld KiB\n", grown, more);
  CHECK(grown <= 1 && more < 2048);
}

/* one: a child that answers each parent. */
static void one(void) {
  MPI_Comm parents;
  int value, remote;
  MPI_Comm_get_parent(&parents);
  MPI_Comm_remote_size(parents, &remote);
  for (int parent = 0; parent < remote; ++parent) {
    MPI_Recv(&value, 1, MPI_INT, parent, 1, parents, MPI_STATUS_IGNORE);
    ++value;
    MPI_Send(&value, 1, MPI_INT, parent, 1, parents);
  }
  MPI_Comm_disconnect(&parents);
}

/* report: a child that prints where and how it runs. */
static void report(char** arguments) {
  MPI_Comm parents;
  char folder[4096];
  int *number, found;
  cpu_set_t cpus;
  MPI_Comm_get_parent(&parents);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &found);
  CHECK(getcwd(folder, sizeof folder) != NULL && sched_getaffinity(0, sizeof cpus, &cpus) == 0);
  printf("child %d of %d app %d arguments", rank_of(MPI_COMM_WORLD), size_of(MPI_COMM_WORLD), *number);
  for (; *arguments != NULL; ++arguments) printf(" '%s'", *arguments);
  printf(" folder %s variable %s cpus %d\n", folder, getenv("SPAWN_TEST") ? getenv("SPAWN_TEST") : "-",
         CPU_COUNT(&cpus));
  fflush(stdout);
  MPI_Barrier(parents);
  MPI_Comm_disconnect(&parents);
}

/* info COMMAND MAXPROCS KEY VALUE ...: prints the error codes. */
static void info(char** arguments) {
  MPI_Info keys;
  MPI_Info_create(&keys);
  for (char** key = arguments + 2; *key != NULL; key += 2) MPI_Info_set(keys, key[0], key[1]);
  const int processes = atoi(arguments[1]);
  int codes[16];
  char* argv[] = {"report", "two words", "", "line\nend", NULL};
  MPI_Comm children;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int i = 0; i < 16; ++i) codes[i] = -1;
  const int code = MPI_Comm_spawn(arguments[0], argv, processes, keys, 0, MPI_COMM_WORLD, &children, codes);
  char text[MPI_MAX_ERROR_STRING];
  int length;
  MPI_Error_string(code, text, &length);
  int good = 0, failed = 0;
  for (int i = 0; i < processes; ++i) {
    good += codes[i] == MPI_SUCCESS;
    failed += class_of(codes[i]) == MPI_ERR_SPAWN;
  }
  printf("rank %d: class %d, %d started, %d not: %s\n", rank_of(MPI_COMM_WORLD),
         class_of(code) == MPI_ERR_SPAWN, good, failed, code == MPI_SUCCESS ? "" : text);
  MPI_Info_free(&keys);
  if (code != MPI_SUCCESS) {
    CHECK(children == MPI_COMM_NULL);
    return;
  }
  MPI_Barrier(children);
  MPI_Comm_disconnect(&children);
}

/* multiple: two programs in one job. */
static void multiple(void) {
  char* commands[] = {(char*)self, (char*)self};
  char *first[] = {"report", "a", NULL}, *second[] = {"report", "b", NULL}, **argvs[] = {first, second};
  int processes[] = {1, 2}, codes[3] = {-1, -1, -1};
  MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
  MPI_Comm children;
  MPI_Comm_spawn_multiple(2, commands, argvs, processes, infos, 0, MPI_COMM_WORLD, &children, codes);
  CHECK(codes[0] == MPI_SUCCESS && codes[1] == MPI_SUCCESS && codes[2] == MPI_SUCCESS);
  MPI_Barrier(children);
  MPI_Comm_disconnect(&children);
}

/* dies SIGNAL: the parent waits for a child that ends so. */
static void dies(char** arguments) {
  MPI_Comm children = spawn("victim", arguments[0], 1, MPI_INFO_NULL);
  int value;
  MPI_Recv(&value, 1, MPI_INT, 0, 1, children, MPI_STATUS_IGNORE);
}

static void victim(char** arguments) {
  const int signal = atoi(arguments[0]);
  printf("output before the end\n");
  fflush(stdout);
  if (signal == 0) MPI_Abort(MPI_COMM_WORLD, 42);
  kill(getpid(), signal);
}

/* leaves: the child ends without MPI_Comm_disconnect. Prints the errors of later operations with it. */
static void leaves(void) {
  MPI_Comm children, all;
  MPI_Request requests[2];
  int value = 0, more = 0;
  children = spawn("leaver", "", 1, MPI_INFO_NULL);
  MPI_Intercomm_merge(children, 0, &all);
  MPI_Comm_set_errhandler(children, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
  MPI_Irecv(&more, 1, MPI_INT, 0, 2, children, &requests[0]);
  MPI_Irecv(&more, 1, MPI_INT, MPI_ANY_SOURCE, 3, all, &requests[1]);
  print_error("wait", MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
  print_error("any source", MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
  /* What it sent before is received. */
  CHECK(MPI_Recv(&value, 1, MPI_INT, 0, 1, children, MPI_STATUS_IGNORE) == MPI_SUCCESS && value == 17);
  print_error("receive", MPI_Recv(&more, 1, MPI_INT, 0, 1, children, MPI_STATUS_IGNORE));
  print_error("barrier", MPI_Barrier(all));
  MPI_Cancel(&requests[1]);
  CHECK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE) == MPI_SUCCESS);
  CHECK(MPI_Comm_disconnect(&all) == MPI_SUCCESS && MPI_Comm_disconnect(&children) == MPI_SUCCESS);
}

static void leaver(void) {
  MPI_Comm parents, all;
  const int value = 17;
  MPI_Comm_get_parent(&parents);
  MPI_Intercomm_merge(parents, 1, &all);
  MPI_Send(&value, 1, MPI_INT, 0, 1, parents);
}

int main(int argc, char** argv) {
  self = argv[0];
  const char* mode = argc > 1 ? argv[1] : "";
  char** arguments = argv + 2;
  MPI_Init(&argc, &argv);
  if (strcmp(mode, "parent") == 0) parent(arguments);
  if (strcmp(mode, "child") == 0) child(arguments);
  if (strcmp(mode, "many") == 0) many(arguments);
  if (strcmp(mode, "one") == 0) one();
  if (strcmp(mode, "report") == 0) report(arguments);
  if (strcmp(mode, "info") == 0) info(arguments);
  if (strcmp(mode, "multiple") == 0) multiple();
  if (strcmp(mode, "accept") == 0) accept_job(arguments);
  if (strcmp(mode, "connect") == 0) connect_job(arguments);
  if (strcmp(mode, "halves") == 0) halves();
  if (strcmp(mode, "join") == 0) join(arguments);
  if (strcmp(mode, "wrong") == 0) wrong();
  if (strcmp(mode, "dies") == 0) dies(arguments);
  if (strcmp(mode, "victim") == 0) victim(arguments);
  if (strcmp(mode, "leaves") == 0) leaves();
  if (strcmp(mode, "leaver") == 0) leaver();
  if (strcmp(mode, "names") == 0) names(arguments);
  if (strcmp(mode, "accept_broken") == 0) accept_broken(arguments);
  if (strcmp(mode, "leave_port") == 0) leave_port(arguments);
  if (strcmp(mode, "connect_broken") == 0) connect_broken(arguments);
  MPI_Finalize();
  if (strcmp(mode, "one") != 0) printf("good\n");
  return 0;
}
