// SPDX-License-Identifier: BSD-3-Clause
// Times of single iterations, for percentiles. Nothing is recorded, and no clock read, unless they were asked
// for. Programs of two ranks: rank 0's. Pairs: those of all senders together. Collectives: of each iteration,
// the slowest rank's.
#ifndef BENCH_COMMON_SAMPLES_H
#define BENCH_COMMON_SAMPLES_H

struct bench_run;

struct bench_samples {
  double* us;  ///< microseconds, in the order of the iterations; NULL: not wanted
  long count, room;
  double last;  ///< when the current iteration began, us
};

/// Microseconds that one reading of the clock takes, measured once (median of several hundred).
double bench_clock_cost(void);

/// Sorts the values. The one below which `percent` of them lie, rounded down.
double bench_percentile(double* values, int count, double percent);

/// Makes room for `iterations` samples, if percentiles were asked for.
void bench_samples_begin(struct bench_run* run, long iterations);

/// Starts the first timed iteration.
void bench_lap_start(struct bench_run* run);

/// Ends one iteration and starts the next; records its time over `parts`. Costs one reading of the clock.
void bench_lap(struct bench_run* run, double parts);

/// Records one iteration that the caller has timed.
void bench_sample(struct bench_run* run, double us);

/// Collective. Rank 0's `percentiles` receive what the options ask for: nearest rank, no interpolation.
void bench_samples_end(struct bench_run* run, double* percentiles);
void bench_samples_free(struct bench_run* run);

#endif
