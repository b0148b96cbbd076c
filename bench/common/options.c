// SPDX-License-Identifier: BSD-3-Clause
#define _GNU_SOURCE
#include "common/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/start.h"

static const char kind_letters[] = "HPDM";

const char* const bench_flavor_names[] = {"create", "allocate", "dynamic", NULL};
const char* const bench_sync_names[] = {"lock", "flush", "flush_local", "lock_all", "pscw", "fence", NULL};

// Keeps the first error, since later errors are usually consequences.
void bench_options_fail(struct bench_options* options, const char* format, ...) {
  if (options->error[0]) return;
  va_list args;
  va_start(args, format);
  vsnprintf(options->error, sizeof options->error, format, args);
  va_end(args);
}

static long parse_count(struct bench_options* options, char option, const char* text, long low, long high) {
  char* end = NULL;
  errno = 0;
  long value = strtol(text, &end, 10);
  if (errno || end == text || *end || value < low || value > high) {
    bench_options_fail(options, "-%c %s: expected a whole number from %ld to %ld", option, text, low, high);
    return low;
  }
  return value;
}

static bool parse_kind(char letter, enum bench_kind* kind) {
  char upper = (char)toupper((unsigned char)letter);
  if (!upper || !strchr(kind_letters, upper)) return false;
  *kind = (enum bench_kind)upper;
  return true;
}

static void add_kinds(struct bench_options* options, enum bench_kind first, enum bench_kind second) {
  if (options->kind_count == BENCH_MAX_KINDS) {
    bench_options_fail(options, "too many buffer kinds: at most %d combinations", BENCH_MAX_KINDS);
    return;
  }
  options->kinds[options->kind_count++] = (struct bench_kinds){first, second};
}

// Parses "all", or pairs of letters separated by commas: DD,HD,PM.
static void parse_kind_list(struct bench_options* options, const char* text) {
  options->kind_count = 0;
  if (strcmp(text, "all") == 0) {
    for (const char* a = kind_letters; *a; ++a)
      for (const char* b = kind_letters; *b; ++b)
        add_kinds(options, (enum bench_kind) * a, (enum bench_kind) * b);
    return;
  }
  for (const char* at = text;;) {
    enum bench_kind first, second;
    if (!parse_kind(at[0], &first) || !parse_kind(at[1], &second) || (at[2] && at[2] != ',')) break;
    add_kinds(options, first, second);
    if (!at[2]) return;
    at += 3;
  }
  bench_options_fail(options, "-s %s: expected 'all' or pairs of the letters H, P, D, M such as DD,HD", text);
}

static void parse_letters(struct bench_options* options, int count, char** words) {
  enum bench_kind kinds[2];
  if (count > 2) {
    bench_options_fail(options, "%s: unexpected argument; expected at most two buffer kinds (H, P, D or M)",
                       words[2]);
    return;
  }
  for (int i = 0; i < count; ++i) {
    if (words[i][0] == '\0' || words[i][1] != '\0' || !parse_kind(words[i][0], &kinds[i])) {
      bench_options_fail(
          options, "%s: expected a buffer kind: H (host), P (pinned), D (device) or M (managed)", words[i]);
      return;
    }
  }
  if (count == 1) {
    bench_options_fail(options, "%s: two buffer kinds are needed, such as D D", words[0]);
  } else if (count == 2) {
    options->kind_count = 0;
    add_kinds(options, kinds[0], kinds[1]);
  }
}

static void parse_accelerator(struct bench_options* options, const char* text) {
  enum bench_kind kind = BENCH_DEVICE;
  if (strcmp(text, "managed") == 0) {
    kind = BENCH_MANAGED;
  } else if (strcmp(text, "cuda") != 0) {
    bench_options_fail(options, "-d %s: expected cuda or managed", text);
    return;
  }
  options->cuda = true;
  if (options->kind_count == 0) add_kinds(options, kind, kind);
}

// Parses percentages above 0 and up to 100, separated by commas: 50,90,99.9.
static void parse_percentiles(struct bench_options* options, char option, const char* text) {
  options->percentile_count = 0;
  for (const char* at = text;;) {
    char* end = NULL;
    double value = strtod(at, &end);
    bool good = end != at && (*end == ',' || *end == '\0') && value > 0 && value <= 100;
    if (!good || options->percentile_count == BENCH_MAX_PERCENTILES) break;
    options->percentiles[options->percentile_count++] = value;
    if (*end == '\0') return;
    at = end + 1;
  }
  bench_options_fail(options, "-%c %s: expected at most %d percentages above 0 such as 50,90,99", option,
                     text, BENCH_MAX_PERCENTILES);
}

// Parses SENDERS:RECEIVERS, or RECEIVERS alone with one sender; for nonblocking collectives a number of
// calls.
static void parse_team(struct bench_options* options, const struct bench_defaults* defaults,
                       const char* text) {
  char* end = NULL;
  long first = strtol(text, &end, 10), second = 0;
  if (defaults->tests) {
    options->tests = (int)parse_count(options, 't', text, 1, 1000000);
    return;
  }
  if (!defaults->team) {
    bench_options_fail(options, "-t: this program has neither threads nor processes nor calls of MPI_Test");
    return;
  }
  const bool both = end != text && *end == ':';
  if (both) second = strtol(text = end + 1, &end, 10);
  const bool good = end != text && *end == '\0' && first >= 1 && first <= BENCH_MAX_TEAM;
  if (!good || (both && (second < 1 || second > BENCH_MAX_TEAM))) {
    bench_options_fail(options, "-t: expected [SENDERS:]RECEIVERS, %s from 1 to %d", defaults->team,
                       BENCH_MAX_TEAM);
    return;
  }
  options->senders = both ? (int)first : 1;
  options->receivers = both ? (int)second : (int)first;
}

// Parses fixed:RANK or rotate.
static void parse_root(struct bench_options* options, const struct bench_defaults* defaults,
                       const char* text) {
  static const char fixed[] = "fixed:";
  if (!defaults->root) {
    bench_options_fail(options, "-k: this program has no root to choose");
  } else if (strcmp(text, "rotate") == 0) {
    options->root = -1;
  } else if (strncmp(text, fixed, sizeof fixed - 1) == 0) {
    options->root = (int)parse_count(options, 'k', text + sizeof fixed - 1, 0, INT32_MAX);
  } else {
    bench_options_fail(options, "-k %s: expected fixed:RANK or rotate", text);
  }
}

// Returns the index of `text` in `names`, which ends with NULL.
static int parse_name(struct bench_options* options, char option, const char* text,
                      const char* const* names) {
  char list[80] = "";
  for (int i = 0; names[i]; ++i) {
    if (strcmp(text, names[i]) == 0) return i;
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", names[i]);
  }
  bench_options_fail(options, "-%c %s: expected one of %s", option, text, list);
  return 0;
}

// Parses cart:DIMENSIONS:RADIUS.
static void parse_neighbors(struct bench_options* options, const struct bench_defaults* defaults,
                            const char* text) {
  int dimensions = 0, radius = 0, length = 0;
  if (!defaults->neighbors) {
    bench_options_fail(options, "-N: this program has no neighborhood");
    return;
  }
  const bool good = sscanf(text, "cart:%d:%d%n", &dimensions, &radius, &length) == 2 && !text[length];
  if (!good || dimensions < 1 || dimensions > BENCH_MAX_DIMENSIONS || radius < 1 || radius > 1024) {
    bench_options_fail(options, "-N %s: expected cart:DIMENSIONS:RADIUS, up to %d and 1024, such as cart:2:1",
                       text, BENCH_MAX_DIMENSIONS);
    return;
  }
  options->dimensions = dimensions;
  options->radius = radius;
}

// Parses all, or some of mpi_char, mpi_int and mpi_float separated by commas.
static void parse_types(struct bench_options* options, const struct bench_defaults* defaults,
                        const char* text) {
  if (defaults->data == BENCH_NOTHING) bench_options_fail(options, "-T: this program has no data");
  options->typed = true;
  options->type_count = 0;
  if (strcmp(text, "all") == 0) text = "mpi_char,mpi_int,mpi_float";
  for (const char* at = text; options->type_count < BENCH_TYPES; ++at) {
    const size_t length = strcspn(at, ",");
    enum bench_type type = BENCH_CHAR;
    while (type < BENCH_TYPES && strncmp(at, bench_type_word(type), length)) ++type;
    if (type == BENCH_TYPES || strlen(bench_type_word(type)) != length) break;
    options->types[options->type_count++] = type;
    at += length;
    if (*at == '\0') return;
  }
  bench_options_fail(options, "-T %s: expected all or some of mpi_char,mpi_int,mpi_float", text);
}

static void parse_layout(struct bench_options* options, const struct bench_defaults* defaults,
                         const char* text) {
  char error[sizeof options->error];
  if (defaults->data != BENCH_MOVED) {
    bench_options_fail(options, "-D: only programs that move data have derived datatypes");
    return;
  }
  options->typed = true;
  if (!bench_layout_parse(&options->layout, text, error, sizeof error))
    bench_options_fail(options, "%s", error);
}

static const struct option long_options[] = {{"accelerator", required_argument, NULL, 'd'},
                                             {"buffer-kinds", required_argument, NULL, 'B'},
                                             {"sync-option", required_argument, NULL, 's'},
                                             {"win-options", required_argument, NULL, 'w'},
                                             {"message-size", required_argument, NULL, 'm'},
                                             {"mem-limit", required_argument, NULL, 'M'},
                                             {"iterations", required_argument, NULL, 'i'},
                                             {"warmup", required_argument, NULL, 'x'},
                                             {"window-size", required_argument, NULL, 'W'},
                                             {"full", no_argument, NULL, 'f'},
                                             {"validation", no_argument, NULL, 'c'},
                                             {"percentiles", required_argument, NULL, 'P'},
                                             {"tail-lat", optional_argument, NULL, 'z'},
                                             {"json", required_argument, NULL, 'j'},
                                             {"type", required_argument, NULL, 'T'},
                                             {"ddt", required_argument, NULL, 'D'},
                                             {"session", no_argument, NULL, 'I'},
                                             {"in-place", no_argument, NULL, 'l'},
                                             {"help", no_argument, NULL, 'h'},
                                             {"version", no_argument, NULL, 'v'},
                                             {NULL, 0, NULL, 0}};

static void apply(struct bench_options* options, const struct bench_defaults* defaults,
                  enum bench_shape shape, int letter, char** argv) {
  const char* end = NULL;
  switch (letter) {
    case 'd':
      parse_accelerator(options, optarg);
      break;
    case 's':  // as in the Ohio State programs
      if (defaults->one_sided) {
        options->sync = (enum bench_sync)parse_name(options, 's', optarg, bench_sync_names);
        break;
      }
      parse_kind_list(options, optarg);
      break;
    case 'B':
      parse_kind_list(options, optarg);
      break;
    case 'w':
      if (!defaults->one_sided) bench_options_fail(options, "-w: this program has no MPI window");
      options->flavor = (enum bench_flavor)parse_name(options, 'w', optarg, bench_flavor_names);
      break;
    case 'm':
      bench_sizes_parse(options, optarg);
      break;
    case 'M':
      if (!bench_parse_bytes(optarg, &end, &options->memory_limit) || *end || options->memory_limit == 0)
        bench_options_fail(options, "-M %s: expected a number of bytes above 0 (suffix K, M or G allowed)",
                           optarg);
      break;
    case 'i':
      options->iterations = options->iterations_large = parse_count(options, 'i', optarg, 1, 1000000000);
      break;
    case 'x':
      options->warmup = options->warmup_large = parse_count(options, 'x', optarg, 0, 1000000000);
      break;
    case 'W':
      if (defaults->window == 0) bench_options_fail(options, "-W: this program has no window");
      options->window = (int)parse_count(options, 'W', optarg, 1, 65536);
      break;
    case 'f':
      if (shape == BENCH_TWO)
        bench_options_fail(options, "-f: only the programs of more than two ranks have it");
      options->full = true;
      break;
    case 'c':
      options->validate = true;
      break;
    case 'P':
    case 'z':
      if (!defaults->samples) bench_options_fail(options, "-%c: this program has no percentiles", letter);
      parse_percentiles(options, (char)letter, optarg ? optarg : "50,90,99");
      break;
    case 't':
      parse_team(options, defaults, optarg);
      break;
    case 'k':
      parse_root(options, defaults, optarg);
      break;
    case 'q':
      if (defaults->partitions == 0) bench_options_fail(options, "-q: this program has no partitions");
      options->partitions = (int)parse_count(options, 'q', optarg, 1, 4096);
      break;
    case 'N':
      parse_neighbors(options, defaults, optarg);
      break;
    case 'T':
      parse_types(options, defaults, optarg);
      break;
    case 'D':
      parse_layout(options, defaults, optarg);
      break;
    case 'I':
      if (!bench_has_sessions())
        bench_options_fail(options, "-I: this MPI library has no sessions, which came with MPI 4");
      options->session = bench_has_sessions();
      break;
    case 'l':
      if (!defaults->in_place) bench_options_fail(options, "-l: this program has no call with MPI_IN_PLACE");
      options->in_place = true;
      break;
    case 'j':
      options->json = optarg;
      break;
    case 'h':
      options->help = true;
      break;
    case 'v':
      options->version = true;
      break;
    case ':':
      bench_options_fail(options, "%s: its value is missing; see --help", argv[optind - 1]);
      break;
    default:
      if (optopt && optopt < 128) {
        bench_options_fail(options, "-%c: unknown option, or an option without value; see --help", optopt);
      } else {
        bench_options_fail(options, "%s: unknown option; see --help", argv[optind - 1]);
      }
  }
}

void bench_options_parse(struct bench_options* options, const struct bench_defaults* defaults,
                         enum bench_shape shape, int argc, char** argv) {
  *options = (struct bench_options){.min_size = defaults->min_size,
                                    .max_size = defaults->max_size,
                                    .memory_limit = (size_t)1 << 30,
                                    .iterations = defaults->iterations,
                                    .warmup = defaults->warmup,
                                    .iterations_large = defaults->iterations_large,
                                    .warmup_large = defaults->warmup_large,
                                    .window = defaults->window,
                                    .flavor = BENCH_WIN_ALLOCATE,
                                    .sync = BENCH_FLUSH,
                                    .senders = 1,
                                    .receivers = defaults->team ? 2 : 1,
                                    .partitions = defaults->partitions,
                                    .dimensions = 1,
                                    .radius = 1,
                                    .types = {defaults->data == BENCH_REDUCED ? BENCH_FLOAT : BENCH_CHAR},
                                    .type_count = 1};
  bench_layout_plain(&options->layout);
  opterr = 0;
  optind = 1;
  int letter;
  while ((letter = getopt_long(argc, argv, ":d:s:w:m:M:i:x:W:t:k:N:q:T:D:IlfcP:z::j:hv", long_options,
                               NULL)) != -1)
    apply(options, defaults, shape, letter, argv);
  parse_letters(options, argc - optind, argv + optind);
  if (options->kind_count == 0) add_kinds(options, BENCH_HOST, BENCH_HOST);
  for (int i = 0; i < options->kind_count; ++i)
    if (options->kinds[i].first != BENCH_HOST || options->kinds[i].second != BENCH_HOST) options->cuda = true;
  bench_sizes_finish(options, defaults);
}
