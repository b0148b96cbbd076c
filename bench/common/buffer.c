// SPDX-License-Identifier: BSD-3-Clause
#define _POSIX_C_SOURCE 200112L
#include "common/buffer.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/device.h"
#include "common/start.h"

enum { PAGE = 4096, GUARD_BYTE = 0xC5 };

static void die(const char* reason) {
  int rank = 0;
  MPI_Comm_rank(bench_comm, &rank);
  fprintf(stderr, "rank %d: %s\n", rank, reason);
  MPI_Abort(bench_comm, 3);
  abort();
}

static void* host_allocate(size_t bytes) {
  void* pointer = NULL;
  if (posix_memalign(&pointer, PAGE, bytes) != 0) {
    char reason[96];
    snprintf(reason, sizeof reason, "cannot allocate %zu bytes of host memory", bytes);
    die(reason);
  }
  return pointer;
}

// Staging memory for buffers that the CPU cannot access; grows, and is kept until the program ends.
static char* scratch(int which, size_t bytes) {
  static struct {
    char* data;
    size_t bytes;
  } pool[3];
  if (pool[which].bytes < bytes) {
    free(pool[which].data);
    pool[which].data = host_allocate(bytes);
    pool[which].bytes = bytes;
  }
  return pool[which].data;
}

static bool on_host(enum bench_kind kind) { return kind == BENCH_HOST || kind == BENCH_PINNED; }

static enum bench_device_memory device_memory(enum bench_kind kind) {
  if (kind == BENCH_PINNED) return BENCH_DEVICE_HOST;
  return kind == BENCH_MANAGED ? BENCH_DEVICE_MANAGED : BENCH_DEVICE_PLAIN;
}

void bench_buffer_create(struct bench_buffer* buffer, enum bench_kind kind, size_t capacity, int value) {
  size_t bytes = capacity + BENCH_GUARD;
  buffer->kind = kind;
  buffer->capacity = capacity;
  if (kind == BENCH_HOST) {
    buffer->data = host_allocate(bytes);
  } else {
    char error[256] = "";
    buffer->data = bench_device_allocate(device_memory(kind), bytes, error, sizeof error);
    if (!buffer->data) die(error);
  }
  char* image = on_host(kind) ? buffer->data : scratch(0, bytes);
  memset(image, value, bytes);
  if (image != buffer->data) bench_buffer_write(buffer, 0, image, bytes);
}

void bench_buffer_destroy(struct bench_buffer* buffer) {
  if (buffer->kind == BENCH_HOST) {
    free(buffer->data);
  } else {
    bench_device_free(device_memory(buffer->kind), buffer->data);
  }
  buffer->data = NULL;
}

void bench_buffer_write(struct bench_buffer* buffer, size_t offset, const void* from, size_t bytes) {
  char error[256] = "";
  if (bytes == 0) return;
  if (on_host(buffer->kind)) {
    memcpy(buffer->data + offset, from, bytes);
  } else if (!bench_device_write(buffer->data + offset, from, bytes, error, sizeof error)) {
    die(error);
  }
}

void bench_buffer_read(const struct bench_buffer* buffer, size_t offset, void* to, size_t bytes) {
  char error[256] = "";
  if (bytes == 0) return;
  if (on_host(buffer->kind)) {
    memcpy(to, buffer->data + offset, bytes);
  } else if (!bench_device_read(to, buffer->data + offset, bytes, error, sizeof error)) {
    die(error);
  }
}

static uint64_t mix(uint64_t x) {  // the finaliser of splitmix64 (Steele, Lea, Flood, OOPSLA 2014)
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

uint64_t bench_seed(int source, int destination, size_t bytes, long iteration, int slot) {
  uint64_t seed = mix((uint64_t)source << 32 | (uint32_t)destination);
  seed = mix(seed + bytes);
  return mix(seed + ((uint64_t)iteration << 20) + (uint64_t)slot);
}

static void pattern(char* to, size_t bytes, uint64_t seed, uint64_t flip) {
  for (size_t at = 0; at < bytes; at += 8) {
    uint64_t word = mix(seed + (at + 8) * 0x9E3779B97F4A7C15u) ^ flip;
    memcpy(to + at, &word, bytes - at < 8 ? bytes - at : 8);
  }
}

void bench_buffer_fill(struct bench_buffer* buffer, size_t offset, size_t bytes, uint64_t seed) {
  char* image = scratch(0, bytes);
  pattern(image, bytes, seed, 0);
  bench_buffer_write(buffer, offset, image, bytes);
}

void bench_buffer_poison(struct bench_buffer* buffer, size_t offset, size_t bytes, uint64_t seed) {
  char* image = scratch(0, bytes);
  pattern(image, bytes, seed, UINT64_MAX);
  bench_buffer_write(buffer, offset, image, bytes);
}

void bench_buffer_stage(struct bench_buffer* buffer, size_t offset, size_t bytes, uint64_t data,
                        uint64_t gaps, const struct bench_layout* layout, size_t element) {
  char *image = scratch(0, bytes), *between = scratch(1, bytes), *mask = scratch(2, bytes);
  pattern(image, bytes, data, 0);
  pattern(between, bytes, gaps, UINT64_MAX);
  memset(mask, 0, bytes);
  bench_layout_invert_gaps(layout, element, mask, bytes);
  for (size_t i = 0; i < bytes; ++i) image[i] = (char)((image[i] & ~mask[i]) | (between[i] & mask[i]));
  bench_buffer_write(buffer, offset, image, bytes);
}

void bench_buffer_guard(struct bench_buffer* buffer, size_t bytes) {
  char image[BENCH_GUARD];
  memset(image, GUARD_BYTE, sizeof image);
  bench_buffer_write(buffer, bytes, image, sizeof image);
}

// Returns the index of the first byte that differs, or `bytes`.
static size_t difference(const char* got, const char* wanted, size_t bytes) {
  size_t at = 0;
  if (bytes == 0 || memcmp(got, wanted, bytes) == 0) return bytes;
  while (got[at] == wanted[at]) ++at;
  return at;
}

static void complain(const char* what, size_t at, char got, char wanted) {
  int rank = 0;
  MPI_Comm_rank(bench_comm, &rank);
  fprintf(stderr, "rank %d: %s: byte %zu is 0x%02x instead of 0x%02x\n", rank, what, at, (unsigned char)got,
          (unsigned char)wanted);
}

bool bench_buffer_check(const struct bench_buffer* buffer, size_t offset, size_t bytes, uint64_t seed) {
  return bench_buffer_check_layout(buffer, offset, bytes, seed, NULL, 1);
}

bool bench_buffer_check_layout(const struct bench_buffer* buffer, size_t offset, size_t bytes, uint64_t seed,
                               const struct bench_layout* layout, size_t element) {
  char* wanted = scratch(0, bytes);
  char* got = scratch(1, bytes);
  pattern(wanted, bytes, seed, 0);
  if (layout) bench_layout_invert_gaps(layout, element, wanted, bytes);
  bench_buffer_read(buffer, offset, got, bytes);
  const size_t at = difference(got, wanted, bytes);
  if (at == bytes) return true;
  const bool gap = layout && !bench_layout_holds(layout, element, at);
  char what[64];
  snprintf(what, sizeof what, "%s of %zu bytes", gap ? "written into a gap of a message" : "message", bytes);
  complain(what, offset + at, got[at], wanted[at]);
  return false;
}

bool bench_buffer_check_guard(const struct bench_buffer* buffer, size_t bytes) {
  char got[BENCH_GUARD], wanted[BENCH_GUARD];
  memset(wanted, GUARD_BYTE, sizeof wanted);
  bench_buffer_read(buffer, bytes, got, sizeof got);
  const size_t at = difference(got, wanted, sizeof got);
  if (at < sizeof got) complain("written behind the message", bytes + at, got[at], wanted[at]);
  return at == sizeof got;
}
