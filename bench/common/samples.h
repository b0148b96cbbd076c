// SPDX-License-Identifier: BSD-3-Clause
// Times of single iterations, for percentiles; without percentiles nothing is recorded and no clock is read.
// Programs of two ranks: times of rank 0. Pairs: times of all senders. Collectives: the slowest rank of each
// iteration.
#ifndef BENCH_COMMON_SAMPLES_H
#define BENCH_COMMON_SAMPLES_H

struct bench_run;

struct bench_samples {
  double* us;  ///< microseconds, in the order of the iterations; NULL: no percentiles
  long count, capacity;
  double last;  ///< start of the current iteration in us
};

/// Returns the microseconds of one reading of the clock, measured once (median of several hundred).
double bench_clock_cost(void);

/// Sorts the values. Returns the percentile, with its index rounded down.
double bench_percentile(double* values, int count, double percent);

/// Reserves capacity for `iterations` samples, if percentiles are requested.
void bench_samples_begin(struct bench_run* run, long iterations);

/// Starts the first timed iteration.
void bench_lap_start(struct bench_run* run);

/// Ends one iteration and starts the next; records its time over `parts`. Costs one reading of the clock.
void bench_lap(struct bench_run* run, double parts);

/// Records one iteration that the caller has timed.
void bench_sample(struct bench_run* run, double us);

/// Collective. Stores the requested percentiles in `percentiles` of rank 0: nearest rank, no interpolation.
void bench_samples_end(struct bench_run* run, double* percentiles);
void bench_samples_free(struct bench_run* run);

#endif
