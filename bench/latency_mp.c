// SPDX-License-Identifier: BSD-3-Clause
// The ping-pong of `latency` between two ranks with forked children that sleep for two seconds: the cost of
// pages shared with a child. `-t [SENDERS:]RECEIVERS`: number of children.
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/pingpong.h"

enum { SECONDS = 2 };

static void fork_children(const struct bench_run* run) {
  const int children = run->sender ? run->options.senders : run->options.receivers;
  fflush(NULL);  // or the children would print buffered output again
  for (int i = 0; i < children; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      sleep(SECONDS);
      _exit(0);
    }
    if (child < 0) perror("latency_mp: fork");
  }
}

static double measure(struct bench_run* run, size_t size, long iterations, long warmup) {
  fork_children(run);
  const double figure = bench_pingpong_measure(run, size, iterations, warmup);
  while (waitpid(-1, NULL, WNOHANG) > 0) {  // reaps ended children
  }
  return figure;
}

static bool validate(struct bench_run* run, size_t size, long iteration) {
  if (iteration == 0) fork_children(run);
  return bench_pingpong_validate(run, size, iteration);
}

int main(int argc, char** argv) {
  static const struct bench_program program = {.name = "latency_mp",
                                               .title = "Multi-process Latency Test",
                                               .column = "Latency (us)",
                                               .field = "latency_us",
                                               .defaults = {BENCH_PINGPONG_DEFAULTS, .team = "processes"},
                                               .capacity = bench_pingpong_capacity,
                                               .measure = measure,
                                               .validate = validate};
  return bench_main(&program, argc, argv);
}
