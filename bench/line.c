// SPDX-License-Identifier: BSD-3-Clause
// Time that a cache line takes from one core to another, in ns: two threads, bound to the first two
// processors that the process may use, pass a line to and fro for about 10 ms. Prints the median of the parts
// of that time.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kParts = 21, kTurns = 1000 };

static alignas(128) atomic_int ball;

static void bind_to(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    perror("sched_setaffinity");
    exit(1);
  }
}

static double now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static void pass(int from, int to) {
  while (atomic_load_explicit(&ball, memory_order_acquire) != from) {
  }
  atomic_store_explicit(&ball, to, memory_order_release);
}

static void* partner(void* processor) {
  bind_to((int)(intptr_t)processor);
  for (int i = 0; i < kParts * kTurns; ++i) pass(1, 0);
  return NULL;
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(void) {
  cpu_set_t allowed;
  int processors[2], count = 0;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  for (int i = 0; i < CPU_SETSIZE && count < 2; ++i)
    if (CPU_ISSET(i, &allowed)) processors[count++] = i;
  if (count < 2) {
    fprintf(stderr, "line: needs two processors\n");
    return 1;
  }
  bind_to(processors[0]);
  pthread_t thread;
  if (pthread_create(&thread, NULL, partner, (void*)(intptr_t)processors[1]) != 0) return 1;
  double parts[kParts];
  for (int part = 0; part < kParts; ++part) {
    const double begin = now_ns();
    for (int i = 0; i < kTurns; ++i) pass(0, 1);
    parts[part] = (now_ns() - begin) / (2.0 * kTurns);
  }
  pthread_join(thread, NULL);
  qsort(parts, kParts, sizeof parts[0], compare);
  printf("%.1f\n", parts[kParts / 2]);
  return 0;
}
