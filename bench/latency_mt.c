// SPDX-License-Identifier: BSD-3-Clause
// Ping-pong of many threads (-t [SENDERS:]RECEIVERS): the threads of rank 0 send and wait for a reply, the
// threads of rank 1 receive and reply; any thread may receive any message. Half the round trip, mean over the
// sending threads.
#define _POSIX_C_SOURCE 200809L  // barriers of threads
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

#include "common/pingpong.h"

enum { TAG = 1 };

struct job {
  struct bench_run* run;
  long exchanges;    ///< of this thread
  int thread, team;  ///< index of this thread, number of threads of this rank
  bool replies;      ///< receives first
  pthread_barrier_t* start;
  double seconds;
};

static int team_of(const struct bench_run* run) {
  return run->sender ? run->options.senders : run->options.receivers;
}

/// Returns the bytes of the buffers, of which each thread has its own part.
static size_t capacity(const struct bench_run* run, size_t size) {
  return bench_extent(run, size) * (size_t)team_of(run);
}

static void* work(void* argument) {
  struct job* job = argument;
  struct bench_run* run = job->run;
  const size_t offset = (size_t)job->thread * run->message.extent;
  char *from = run->send.data + offset, *to = run->receive.data + offset;
  const int count = run->message.count, peer = run->peer;
  const MPI_Datatype type = run->message.type;
  pthread_barrier_wait(job->start);
  const double start = MPI_Wtime();
  for (long i = 0; i < job->exchanges; ++i) {
    if (!job->replies) MPI_Send(from, count, type, peer, TAG, bench_comm);
    MPI_Recv(to, count, type, peer, TAG, bench_comm, MPI_STATUS_IGNORE);
    if (job->replies) MPI_Send(from, count, type, peer, TAG, bench_comm);
  }
  job->seconds = MPI_Wtime() - start;
  return NULL;
}

/// Performs `total` exchanges, divided among the threads of each side. Returns half a round trip in us.
static double exchange_all(struct bench_run* run, long total) {
  static struct job jobs[BENCH_MAX_TEAM];
  pthread_t threads[BENCH_MAX_TEAM];
  pthread_barrier_t start;
  const int team = team_of(run);
  double sum = 0;
  pthread_barrier_init(&start, NULL, (unsigned)team);
  for (int i = 0; i < team; ++i) {
    const long mine = total / team + (i < total % team ? 1 : 0);
    jobs[i] = (struct job){run, mine, i, team, !run->sender, &start, 0};
    if (pthread_create(&threads[i], NULL, work, &jobs[i]) != 0) {
      fprintf(stderr, "latency_mt: a thread cannot be started\n");
      MPI_Abort(bench_comm, 3);
    }
  }
  for (int i = 0; i < team; ++i) {
    pthread_join(threads[i], NULL);
    if (jobs[i].exchanges > 0) sum += jobs[i].seconds * 1e6 / (2.0 * (double)jobs[i].exchanges);
  }
  pthread_barrier_destroy(&start);
  return sum / (total < team ? (int)total : team);
}

static double measure(struct bench_run* run, size_t size, long iterations, long warmup) {
  (void)size;
  if (warmup > 0) exchange_all(run, warmup);
  MPI_Barrier(bench_comm);
  return exchange_all(run, iterations);
}

/// The sender of a message is unknown, so every thread sends the same bytes, which every part must contain.
static bool validate(struct bench_run* run, size_t size, long iteration) {
  const int team = team_of(run), most = run->options.senders > run->options.receivers
                                            ? run->options.senders
                                            : run->options.receivers;
  const size_t extent = run->message.extent;
  const uint64_t out = bench_seed(run->rank, run->peer, size, iteration, 0);
  const uint64_t in = bench_seed(run->peer, run->rank, size, iteration, 0);
  for (int i = 0; i < team; ++i) {
    bench_message_fill(run, &run->send, (size_t)i * extent, out);
    bench_message_poison(run, &run->receive, (size_t)i * extent, in);
  }
  bench_buffer_guard(&run->receive, (size_t)team * extent);
  MPI_Barrier(bench_comm);
  exchange_all(run, 4L * most + 1);  // several for every thread
  bool good = true;
  for (int i = 0; good && i < team; ++i)
    good = bench_message_check(run, &run->receive, (size_t)i * extent, in);
  return good && bench_buffer_check_guard(&run->receive, (size_t)team * extent);
}

int main(int argc, char** argv) {
  static const struct bench_program program = {.name = "latency_mt",
                                               .title = "Multi-threaded Latency Test",
                                               .column = "Latency (us)",
                                               .field = "latency_us",
                                               .threads = true,
                                               .defaults = {BENCH_PINGPONG_SIZES, .team = "threads"},
                                               .capacity = capacity,
                                               .measure = measure,
                                               .validate = validate};
  return bench_main(&program, argc, argv);
}
