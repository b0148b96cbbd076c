/* SPDX-License-Identifier: BSD-3-Clause */
/* Costs of fault tolerance (ULFM), with any MPI that has it: agree and shrink, the time until a killed
   process is noticed, then agree and shrink again without it. Run by fault_tolerance.py, which continues
   after a failure. Arguments: the numbers of calls of agree and shrink (100 20). Prints one JSON object;
   times in us, medians over the calls of the slowest rank of each call. */
#define _GNU_SOURCE
/* Open MPI's mpi-ext.h needs mpi.h before it. */
/* clang-format off */
#include <mpi.h>
#include <mpi-ext.h>
/* clang-format on */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kMostCalls = 100 };

static int agrees = 100, shrinks = 20; /* calls of which the median is taken */

static double now_us(void) { /* the same clock in all processes of the host */
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

static void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  fprintf(stderr, "%s failed with code %d\n", what, code);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Median over calls of the time of the slowest rank of `all`. */
static double median_of_slowest(double* samples, int count, MPI_Comm all) {
  double slowest[kMostCalls];
  check(MPI_Allreduce(samples, slowest, count, MPI_DOUBLE, MPI_MAX, all), "MPI_Allreduce");
  qsort(slowest, (size_t)count, sizeof *slowest, compare);
  return slowest[count / 2];
}

/* `comm`: may contain failed processes; `all`: the live ones. */
static double time_agree(MPI_Comm comm, MPI_Comm all) {
  double samples[kMostCalls];
  for (int i = 0; i < agrees; ++i) {
    int flag = 1;
    check(MPI_Barrier(all), "MPI_Barrier");
    const double begin = now_us();
    check(MPIX_Comm_agree(comm, &flag), "MPIX_Comm_agree");
    samples[i] = now_us() - begin;
  }
  return median_of_slowest(samples, agrees, all);
}

static double time_shrink(MPI_Comm comm, MPI_Comm all) {
  double samples[kMostCalls];
  for (int i = 0; i < shrinks; ++i) {
    MPI_Comm made;
    check(MPI_Barrier(all), "MPI_Barrier");
    const double begin = now_us();
    check(MPIX_Comm_shrink(comm, &made), "MPIX_Comm_shrink");
    samples[i] = now_us() - begin;
    MPI_Comm_free(&made);
  }
  return median_of_slowest(samples, shrinks, all);
}

int main(int argc, char** argv) {
  int rank, size, byte = 0;
  MPI_Init(&argc, &argv);
  if (argc > 2) {
    agrees = atoi(argv[1]);
    shrinks = atoi(argv[2]);
  }
  if (agrees < 1 || agrees > kMostCalls || shrinks < 1 || shrinks > kMostCalls) return 2;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm comm, survivors;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  const double agree = time_agree(comm, MPI_COMM_WORLD), shrink = time_shrink(comm, MPI_COMM_WORLD);
  const int victim = size / 2;
  /* All others have the time by then, however many share the cores. */
  double death = rank == victim ? now_us() + 50e3 + 10e3 * size : 0;
  check(MPI_Bcast(&death, 1, MPI_DOUBLE, victim, comm), "MPI_Bcast");
  if (rank == victim) {
    while (now_us() < death) sched_yield();
    kill(getpid(), SIGKILL);
  }
  const int code = MPI_Recv(&byte, 1, MPI_BYTE, victim, 1, comm, MPI_STATUS_IGNORE);
  double noticed = now_us() - death;
  if (code == MPI_SUCCESS) return 2;
  MPIX_Comm_failure_ack(comm);
  const double begin = now_us();
  check(MPIX_Comm_shrink(comm, &survivors), "MPIX_Comm_shrink");
  double first_shrink = now_us() - begin;
  MPI_Comm_set_errhandler(survivors, MPI_ERRORS_RETURN);
  int left;
  MPI_Comm_size(survivors, &left);
  noticed = median_of_slowest(&noticed, 1, survivors);
  first_shrink = median_of_slowest(&first_shrink, 1, survivors);
  MPIX_Comm_failure_ack(comm);
  const double agree_after = time_agree(comm, survivors), shrink_after = time_shrink(comm, survivors);
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length;
  MPI_Get_library_version(version, &length);
  version[strcspn(version, ",\n")] = '\0';
  if (rank == 0) {
    printf("{\"library\": \"%s\", \"ranks\": %d, \"left\": %d, \"agree\": %.2f, \"shrink\": %.2f, ", version,
           size, left, agree, shrink);
    printf(
        "\"detection\": %.2f, \"first shrink\": %.2f, \"agree after a failure\": %.2f, \"shrink after a "
        "failure\": %.2f}\n",
        noticed, first_shrink, agree_after, shrink_after);
    fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
