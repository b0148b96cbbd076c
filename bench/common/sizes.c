// SPDX-License-Identifier: BSD-3-Clause
// Message sizes: the syntax of -m, and the multiples that datatypes, layouts and partitions need.
#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/options.h"

bool bench_parse_bytes(const char* text, const char** end, size_t* value) {
  if (!isdigit((unsigned char)*text)) return false;
  errno = 0;
  char* rest = NULL;
  unsigned long long number = strtoull(text, &rest, 10);
  if (errno) return false;
  int shift = 0;
  switch (toupper((unsigned char)*rest)) {
    case 'K':
      shift = 10;
      break;
    case 'M':
      shift = 20;
      break;
    case 'G':
      shift = 30;
      break;
  }
  if (number > (SIZE_MAX >> 1) >> shift) return false;
  *value = (size_t)number << shift;
  *end = rest + (shift != 0);
  return true;
}

// Parses ascending sizes separated by commas.
static bool parse_sizes(struct bench_options* options, const char* text) {
  const char* end = text;
  for (options->size_count = 0; options->size_count < BENCH_MAX_SIZES; text = end + 1) {
    size_t* size = &options->sizes[options->size_count];
    if (!bench_parse_bytes(text, &end, size) || (options->size_count && size[0] <= size[-1])) return false;
    ++options->size_count;
    options->min_size = options->sizes[0];
    options->max_size = *size;
    if (*end == '\0') return true;
    if (*end != ',') return false;
  }
  return false;
}

static void double_sizes(struct bench_options* options) {
  if (options->size_count) return;
  for (size_t size = options->min_size; size <= options->max_size; size = size ? 2 * size : 1)
    options->sizes[options->size_count++] = size;
}

void bench_sizes_parse(struct bench_options* options, const char* text) {
  const char* colon = strchr(text, ':');
  const char* end = text;
  bool good = true;
  options->size_count = 0;
  if (strchr(text, ',')) {
    good = parse_sizes(options, text);
  } else if (colon) {
    good = bench_parse_bytes(text, &end, &options->min_size) && end == colon;
    if (good && colon[1]) good = bench_parse_bytes(colon + 1, &end, &options->max_size) && *end == '\0';
  } else {
    good = bench_parse_bytes(text, &end, &options->max_size) && *end == '\0';
  }
  if (!good)
    bench_options_fail(
        options,
        "-m %s: expected [MIN:]MAX or a rising list in bytes (suffix K, M or G allowed), such as 8:64M",
        text);
}

size_t bench_unit(const struct bench_options* options, enum bench_type type) {
  const size_t parts = options->partitions ? (size_t)options->partitions : 1;
  return parts * bench_type_bytes(type) * (size_t)options->layout.data;
}

static void check_sizes(struct bench_options* options) {
  size_t unit = bench_unit(options, options->types[0]);  // of the smallest type; larger types skip sizes
  for (int i = 1; i < options->type_count; ++i)
    if (bench_unit(options, options->types[i]) < unit) unit = bench_unit(options, options->types[i]);
  if (unit > 1 && options->min_size < unit) options->min_size = unit;
  if (options->min_size % unit != 0)
    bench_options_fail(options, "-m: the smallest size, %zu, is not a multiple of %zu", options->min_size,
                       unit);
  if (options->max_size < options->min_size)
    bench_options_fail(options, "-m: the largest size, %zu, is below the smallest, %zu", options->max_size,
                       options->min_size);
  if (options->max_size > INT32_MAX)
    bench_options_fail(options, "-m: the largest size, %zu, is above 2147483647", options->max_size);
  for (int i = 0; i < options->size_count; ++i)
    if (options->sizes[i] % unit != 0)
      bench_options_fail(options, "-m: %zu is not a multiple of %zu", options->sizes[i], unit);
}

// Checks that each type divides some size.
static void check_types(struct bench_options* options) {
  for (int i = 0; i < options->type_count; ++i) {
    const size_t unit = bench_unit(options, options->types[i]);
    int fitting = 0;
    for (int at = 0; at < options->size_count; ++at) fitting += options->sizes[at] % unit == 0;
    if (!fitting)
      bench_options_fail(options, "-m: no size is a multiple of %zu, as %s needs", unit,
                         bench_type_word(options->types[i]));
  }
}

void bench_sizes_finish(struct bench_options* options, const struct bench_defaults* defaults) {
  check_sizes(options);
  if (defaults->one_size &&
      (options->min_size != defaults->min_size || options->max_size != defaults->max_size))
    bench_options_fail(options, "-m: this program has only the size %zu", defaults->min_size);
  if (!options->error[0]) double_sizes(options);
  check_types(options);
}
