// SPDX-License-Identifier: BSD-3-Clause
#include "common/layout.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
  const char* word;
  size_t bytes;
} kTypes[BENCH_TYPES] = {[BENCH_CHAR] = {"mpi_char", sizeof(char)},
                         [BENCH_INT] = {"mpi_int", sizeof(int)},
                         [BENCH_FLOAT] = {"mpi_float", sizeof(float)}};

size_t bench_type_bytes(enum bench_type type) { return kTypes[type].bytes; }
const char* bench_type_word(enum bench_type type) { return kTypes[type].word; }

static void set_block(struct bench_layout* layout, enum bench_form form, int length, int period) {
  layout->form = form;
  layout->data = length;
  layout->period = period;
  layout->blocks[0] = (struct bench_block){0, length};
  layout->block_count = 1;
}

void bench_layout_plain(struct bench_layout* layout) {
  set_block(layout, BENCH_PLAIN, 1, 1);
  layout->text = NULL;
}

static bool parse_vector(struct bench_layout* layout, const char* text, char* error, size_t size) {
  int stride = 0, length = 0, end = 0;
  const bool good = sscanf(text, "vect:%d:%d%n", &stride, &length, &end) == 2 && !text[end];
  if (!good || length < 1 || length > stride || stride > BENCH_MAX_STRIDE) {
    snprintf(error, size,
             "-D %s: expected vect:STRIDE:BLOCKLENGTH in elements, such as vect:8:2, the stride at least the "
             "length of a block and at most %d",
             text, BENCH_MAX_STRIDE);
    return false;
  }
  set_block(layout, BENCH_VECTOR, length, stride);
  return true;
}

static bool overlaps(const struct bench_layout* layout, struct bench_block block) {
  for (int i = 0; i < layout->block_count; ++i) {
    const struct bench_block other = layout->blocks[i];
    if (block.at < other.at + other.length && other.at < block.at + block.length) return true;
  }
  return false;
}

/// Parses one line of the file: DISPLACEMENT,LENGTH, a comment, or an empty line.
static bool parse_block(struct bench_layout* layout, const char* line) {
  struct bench_block block;
  int end = 0;
  line += strspn(line, " \t\r\n");
  if (*line == '\0' || *line == '#') return true;
  if (sscanf(line, "%d%*[ ,\t]%d%n", &block.at, &block.length, &end) != 2) return false;
  if (line[end + (int)strspn(line + end, " \t\r\n")]) return false;
  if (block.at < 0 || block.length < 1 || block.at > BENCH_MAX_STRIDE || block.length > BENCH_MAX_STRIDE)
    return false;
  if (layout->block_count == BENCH_MAX_BLOCKS || overlaps(layout, block)) return false;
  layout->blocks[layout->block_count++] = block;
  layout->data += block.length;
  if (block.at + block.length > layout->period) layout->period = block.at + block.length;
  return true;
}

static bool parse_indexed(struct bench_layout* layout, const char* text, char* error, size_t size) {
  char line[256];
  FILE* file = fopen(text + strlen("indx:"), "r");
  if (!file) {
    snprintf(error, size, "-D %s: the file cannot be read (%s)", text, strerror(errno));
    return false;
  }
  layout->form = BENCH_INDEXED;
  layout->data = layout->period = layout->block_count = 0;
  int number = 1;
  bool good = true;
  while (good && fgets(line, sizeof line, file)) good = parse_block(layout, line) && ++number;
  fclose(file);
  if (good && layout->block_count > 0) return true;
  if (good) {
    snprintf(error, size, "-D %s: the file lists no block; expected lines of DISPLACEMENT,LENGTH", text);
  } else {
    snprintf(error, size,
             "-D %s: line %d: expected DISPLACEMENT,LENGTH in elements, no overlapping blocks, at most %d",
             text, number, BENCH_MAX_BLOCKS);
  }
  return false;
}

bool bench_layout_parse(struct bench_layout* layout, const char* text, char* error, size_t size) {
  layout->text = text;
  if (strcmp(text, "cont") == 0) {
    set_block(layout, BENCH_CONTIGUOUS, 1, 1);
    return true;
  }
  if (strncmp(text, "vect", 4) == 0) return parse_vector(layout, text, error, size);
  if (strncmp(text, "indx:", 5) == 0) return parse_indexed(layout, text, error, size);
  snprintf(error, size, "-D %s: expected cont, vect:STRIDE:BLOCKLENGTH or indx:FILE", text);
  return false;
}

/// Returns the elements up to the end of the last block.
static int end_of(const struct bench_layout* layout) {
  return layout->form == BENCH_VECTOR ? layout->data : layout->period;
}

size_t bench_layout_extent(const struct bench_layout* layout, size_t element, size_t bytes) {
  const size_t periods = bytes / (element * (size_t)layout->data);
  if (layout->period == layout->data) return bytes;
  return periods ? ((periods - 1) * (size_t)layout->period + (size_t)end_of(layout)) * element : 0;
}

static void invert(char* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) bytes[i] = (char)~bytes[i];
}

void bench_layout_invert_gaps(const struct bench_layout* layout, size_t element, char* image, size_t extent) {
  if (layout->period == layout->data) return;
  invert(image, extent);
  for (size_t at = 0; at < extent; at += (size_t)layout->period * element)
    for (int i = 0; i < layout->block_count; ++i)
      invert(image + at + (size_t)layout->blocks[i].at * element, (size_t)layout->blocks[i].length * element);
}

bool bench_layout_holds(const struct bench_layout* layout, size_t element, size_t byte) {
  const int at = (int)(byte / element % (size_t)layout->period);
  for (int i = 0; i < layout->block_count; ++i)
    if (at >= layout->blocks[i].at && at < layout->blocks[i].at + layout->blocks[i].length) return true;
  return false;
}
