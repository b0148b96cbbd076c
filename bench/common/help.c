// SPDX-License-Identifier: BSD-3-Clause
// The text of --help, and names of memory kinds.
#include <stdio.h>

#include "common/options.h"

const char* bench_kind_name(enum bench_kind kind) {
  switch (kind) {
    case BENCH_HOST:
      return "HOST";
    case BENCH_PINNED:
      return "PINNED";
    case BENCH_DEVICE:
      return "DEVICE";
    case BENCH_MANAGED:
      return "MANAGED";
  }
  return "?";
}

// Help lines of options that only some programs have.
static void special_help(const struct bench_defaults* defaults, char* text, size_t size) {
  char team[160] = "";
  if (defaults->window)
    snprintf(team, sizeof team, "  -W, --window-size N        messages in flight (%d)\n", defaults->window);
  if (defaults->team)
    snprintf(team, sizeof team, "  -t [SENDERS:]RECEIVERS     %s of rank 0 and of rank 1, up to %d (1:2)\n",
             defaults->team, BENCH_MAX_TEAM);
  snprintf(
      text, size, "%s%s%s%s%s%s%s%s", team,
      defaults->one_sided
          ? "  -w, --win-options NAME     MPI window: create, allocate or dynamic (allocate)\n"
            "  -s, --sync-option NAME     lock, flush, flush_local, lock_all, pscw or fence (flush);\n"
            "                             flush: in one epoch of MPI_Win_lock_all\n"
          : "",
      defaults->in_place ? "  -l, --in-place             MPI_IN_PLACE: input in the buffer of the result\n"
                         : "",
      defaults->tests ? "  -t CALLS                   calls of MPI_Test during the computation (0)\n" : "",
      defaults->root ? "  -k fixed:RANK, -k rotate   the root: one rank, or changing with each iteration "
                       "(fixed:0)\n"
                     : "",
      defaults->neighbors ? "  -N cart:DIMENSIONS:RADIUS  neighbors in a periodic grid (cart:1:1)\n" : "",
      defaults->data == BENCH_NOTHING ? ""
      : defaults->data == BENCH_MOVED
          ? "  -T, --type LIST            datatypes: mpi_char,mpi_int,mpi_float or all (mpi_char)\n"
          : "  -T, --type LIST            datatypes: mpi_char,mpi_int,mpi_float or all (mpi_float)\n",
      defaults->data == BENCH_MOVED
          ? "  -D, --ddt LAYOUT           derived datatypes: cont, vect:STRIDE:BLOCKLENGTH in elements, or\n"
            "                             indx:FILE, its lines DISPLACEMENT,LENGTH\n"
          : "");
}

void bench_options_help(const struct bench_defaults* defaults, const char* program, enum bench_shape shape,
                        char* text, size_t size) {
  const bool collective = shape == BENCH_COLLECTIVE;
  char special[1024];
  special_help(defaults, special, sizeof special);
  snprintf(
      text, size,
      "Usage: %s [options] [KIND KIND]\n"
      "  KIND KIND                  memory of %s:\n"
      "                             H host, P pinned host, D device, M managed (H H; with -d cuda: D D)\n"
      "  -d, --accelerator NAME     cuda or managed\n"
      "%s--buffer-kinds LIST    several combinations in one run: DD,HD,... or all\n"
      "  -m, --message-size RANGE   [MIN:]MAX bytes, or a list 8,1K,..., suffix K, M or G allowed (%zu:%zu)\n"
      "%s"
      "  -i, --iterations N         timed iterations per size (%ld; %ld above %d bytes)\n"
      "  -x, --warmup N             untimed iterations before them (%ld; %ld above %d bytes)\n"
      "%s%s%s"
      "  -c, --validation           check every byte; exit code 1 if one is wrong\n"
      "  -I, --session              initialise by a session instead of MPI_Init\n"
      "      --json FILE            write the results to FILE too\n"
      "  -h, --help                 this text\n"
      "  -v, --version              the version\n",
      program,
      collective             ? "the send and the receive buffer"
      : shape == BENCH_PAIRS ? "the senders' and the receivers' buffers"
                             : "rank 0's and rank 1's buffers",
      defaults->one_sided ? "      " : "  -s, ", defaults->min_size, defaults->max_size,
      collective ? "  -M, --mem-limit BYTES      largest size of one buffer (1G)\n" : "",
      defaults->iterations, defaults->iterations_large, BENCH_LARGE, defaults->warmup, defaults->warmup_large,
      BENCH_LARGE, special,
      shape != BENCH_TWO ? "  -f, --full                 minimum, maximum and iterations too\n" : "",
      defaults->samples ? "  -P, --percentiles LIST     percentiles over the iterations, such as 50,90,99.9\n"
                          "  -z[LIST]                   the same; without a list 50,90,99\n"
                        : "");
}
