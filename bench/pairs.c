// SPDX-License-Identifier: BSD-3-Clause
// Tests every ordered pair of ranks, for `weft doctor`: maps the other rank's GPU memory by CUDA IPC,
// compares and times a copy, and times MPI messages between the same buffers. Usage: pairs cuda|host BYTES.
// One JSON object per line: first the devices of the ranks, then one line per pair.
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/device.h"

enum { ROUNDS = 5, PINGPONGS = 200, TAG = 1, MAX_ERROR = 256 };

struct state {
  int rank, ranks;
  bool cuda;
  size_t bytes;
  struct bench_buffer mine, other;  // exported by this rank; destination of copies
  struct bench_device_info device;
};

struct finding {
  char error[MAX_ERROR];  // empty: the bytes are correct
  double ipc_gb_s, message_gb_s, latency_us;
};

static uint64_t seed_of(const struct state* state, int rank) {
  return bench_seed(rank, rank, state->bytes, 0, 0);
}

/// Returns the best rate of several copies from `from` in GB/s; on failure `error` contains the reason.
static double copy_from(struct state* state, void* from, int owner, char* error) {
  double best = 0;
  bench_buffer_poison(&state->other, 0, state->bytes, seed_of(state, owner));
  for (int i = 0; i < ROUNDS; ++i) {
    const double start = MPI_Wtime();
    if (!bench_device_copy(state->other.data, from, state->bytes, error, MAX_ERROR)) return 0;
    const double rate = (double)state->bytes / 1e9 / (MPI_Wtime() - start);
    if (rate > best) best = rate;
  }
  if (!bench_buffer_check(&state->other, 0, state->bytes, seed_of(state, owner)))
    snprintf(error, MAX_ERROR, "the copy finished without an error, but wrong bytes arrived");
  return best;
}

/// Rank `to` maps and copies the buffer that rank `from` exports.
static void try_ipc(struct state* state, int from, int to, struct finding* finding) {
  struct {
    char handle[BENCH_HANDLE_BYTES], error[MAX_ERROR];
  } parcel;
  memset(&parcel, 0, sizeof parcel);
  if (state->rank == from) {
    bench_device_export(state->mine.data, parcel.handle, parcel.error, sizeof parcel.error);
    MPI_Send(&parcel, sizeof parcel, MPI_CHAR, to, TAG, MPI_COMM_WORLD);
  } else if (state->rank == to) {
    MPI_Recv(&parcel, sizeof parcel, MPI_CHAR, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    memcpy(finding->error, parcel.error, MAX_ERROR);
    if (finding->error[0]) return;
    void* mapped = bench_device_import(parcel.handle, finding->error, MAX_ERROR);
    if (!mapped) return;
    finding->ipc_gb_s = copy_from(state, mapped, from, finding->error);
    bench_device_unimport(mapped);
  }
}

static double pingpong(struct state* state, int peer, bool first, int bytes, int count) {
  double start = 0;
  for (int i = -10; i < count; ++i) {
    if (i == 0) start = MPI_Wtime();
    if (first) MPI_Send(state->mine.data, bytes, MPI_CHAR, peer, TAG, MPI_COMM_WORLD);
    MPI_Recv(state->other.data, bytes, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!first) MPI_Send(state->mine.data, bytes, MPI_CHAR, peer, TAG, MPI_COMM_WORLD);
  }
  return (MPI_Wtime() - start) / (2.0 * count);
}

static void try_messages(struct state* state, int from, int to, struct finding* finding) {
  if (state->rank != from && state->rank != to) return;
  const bool first = state->rank == from;
  const int peer = first ? to : from;
  finding->latency_us = pingpong(state, peer, first, 8, PINGPONGS) * 1e6;
  finding->message_gb_s =
      (double)state->bytes / 1e9 / pingpong(state, peer, first, (int)state->bytes, ROUNDS);
  if (!first && !bench_buffer_check(&state->other, 0, state->bytes, seed_of(state, from)))
    snprintf(finding->error, MAX_ERROR, "wrong bytes arrived in an MPI message");
}

static void put_text(const char* text) {
  for (; *text; ++text)
    if (*text != '"' && *text != '\\' && (unsigned char)*text >= 0x20) putchar(*text);
}

static void report(const struct state* state, int from, int to, const struct finding* finding) {
  printf("{\"from\": %d, \"to\": %d, \"latency_us\": %.3f, \"message_gb_s\": %.3f", from, to,
         finding->latency_us, finding->message_gb_s);
  if (state->cuda) printf(", \"ipc_gb_s\": %.3f", finding->ipc_gb_s);
  printf(", \"error\": \"");
  put_text(finding->error);
  printf("\"}\n");
  fflush(stdout);
}

static void collect(const struct state* state, int from, int to, struct finding* finding) {
  if (to != 0 && state->rank == to) MPI_Send(finding, sizeof *finding, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
  if (state->rank != 0) return;
  if (to != 0) MPI_Recv(finding, sizeof *finding, MPI_CHAR, to, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  report(state, from, to, finding);
}

/// IPC before messages: a process can open an allocation only once, and MPI keeps its mappings open.
static void all_pairs(struct state* state) {
  struct finding* findings = calloc((size_t)state->ranks * (size_t)state->ranks, sizeof *findings);
  if (!findings) MPI_Abort(MPI_COMM_WORLD, 3);
  for (int messages = state->cuda ? 0 : 1; messages < 2; ++messages) {
    for (int from = 0; from < state->ranks; ++from) {
      for (int to = 0; to < state->ranks; ++to) {
        if (from == to) continue;
        struct finding* finding = &findings[from * state->ranks + to];
        (messages ? try_messages : try_ipc)(state, from, to, finding);
        if (messages) collect(state, from, to, finding);
        MPI_Barrier(MPI_COMM_WORLD);
      }
    }
  }
  free(findings);
}

static void report_devices(const struct state* state) {
  for (int rank = 0; rank < state->ranks; ++rank) {
    int ordinal = state->device.ordinal;
    MPI_Bcast(&ordinal, 1, MPI_INT, rank, MPI_COMM_WORLD);
    if (state->rank == 0) printf("%s%d", rank ? ", " : "{\"ranks\": [", state->cuda ? ordinal : -1);
  }
  if (state->rank == 0) printf("], \"bytes\": %zu}\n", state->bytes);
}

int main(int argc, char** argv) {
  struct state state = {.bytes = argc == 3 ? (size_t)atol(argv[2]) : 0};
  char error[MAX_ERROR] = "";
  if (state.bytes == 0 || state.bytes > (size_t)1 << 30 ||
      (strcmp(argv[1], "cuda") != 0 && strcmp(argv[1], "host") != 0)) {
    fprintf(stderr, "usage: pairs cuda|host BYTES (1 to 1073741824)\n");
    return 2;
  }
  state.cuda = argv[1][0] == 'c';
  const int local = bench_local_rank();
  const bool opened =
      !state.cuda || bench_device_open(local < 0 ? 0 : local, &state.device, error, sizeof error);
  if (MPI_Init(&argc, &argv) != MPI_SUCCESS) return 3;
  MPI_Comm_rank(MPI_COMM_WORLD, &state.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &state.ranks);
  if (!opened) {
    fprintf(stderr, "pairs: rank %d: %s\n", state.rank, error);
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  const enum bench_kind kind = state.cuda ? BENCH_DEVICE : BENCH_HOST;
  bench_buffer_create(&state.mine, kind, state.bytes, 0);
  bench_buffer_create(&state.other, kind, state.bytes, 0);
  bench_buffer_fill(&state.mine, 0, state.bytes, seed_of(&state, state.rank));
  report_devices(&state);
  all_pairs(&state);
  MPI_Barrier(MPI_COMM_WORLD);
  bench_buffer_destroy(&state.mine);
  bench_buffer_destroy(&state.other);
  MPI_Finalize();
  bench_device_close();
  return 0;
}
