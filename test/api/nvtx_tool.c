/* SPDX-License-Identifier: BSD-3-Clause */
/* A minimal NVTX profiler library: counts ranges per name. Built twice: with domain functions and without. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef void (*function)(void);

struct callbacks {
  size_t size;
  int (*table)(int module, function*** table, unsigned* size);
};

struct attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const char* message;
};

enum { NAMES = 256 };
static struct {
  char name[64];
  long count;
} ranges[NAMES];
static long pushed, popped, errors;
static int domain;

static int count(const char* name) {
  int i = 0;
  while (i < NAMES - 1 && ranges[i].count != 0 && strcmp(ranges[i].name, name) != 0) ++i;
  strncpy(ranges[i].name, name, sizeof ranges[i].name - 1);
  ++ranges[i].count;
  return (int)pushed++;
}

static void* create(const char* name) {
  if (strcmp(name, "Weft") != 0) ++errors;
  return &domain;
}
static int push(void* in, const struct attributes* attributes) {
  if (in != &domain || attributes->version != 3 || attributes->size != 48 || attributes->message_type != 1)
    ++errors;
  return count(attributes->message);
}
/* Messages of the program: text and payload. */
static struct {
  char text[96];
  uint64_t bytes;
} marks[NAMES];
static int mark_count;
static void mark(void* in, const struct attributes* attributes) {
  if (in != &domain || attributes->version != 3 || attributes->payload_type != 1) ++errors;
  if (mark_count == NAMES) return;
  strncpy(marks[mark_count].text, attributes->message, sizeof marks[0].text - 1);
  marks[mark_count++].bytes = attributes->payload;
}
static int pop(void* in) {
  if (in != &domain || popped >= pushed) ++errors;
  return (int)++popped;
}
static int plain_pop(void) {
  if (popped >= pushed) ++errors;
  return (int)++popped;
}

static void install(function** table, unsigned size, unsigned number, function call) {
  if (number >= size)
    ++errors;
  else
    *table[number] = call;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(const void* (*export_table)(uint32_t)) {
  const struct callbacks* callbacks = export_table(1);
  const uint32_t* version = (const uint32_t*)((const char*)export_table(3) + sizeof(size_t));
  function** table;
  unsigned size;
  if (callbacks == NULL || *version < 2 || export_table(7) != NULL) return 0;
#ifdef WITH_DOMAINS
  if (!callbacks->table(5, &table, &size)) return 0;
  install(table, size, 12, (function)create);
  install(table, size, 1, (function)mark);
  install(table, size, 4, (function)push);
  install(table, size, 5, (function)pop);
  (void)plain_pop;
#else
  if (!callbacks->table(1, &table, &size)) return 0;
  install(table, size, 9, (function)count);
  install(table, size, 11, (function)plain_pop);
  (void)create, (void)push, (void)pop, (void)mark;
#endif
  return 1;
}

/* For the test: number of ranges per name ("": all), of open ranges, and of protocol errors. */
__attribute__((visibility("default"))) long tool_count(const char* name) {
  for (int i = 0; i < NAMES; ++i)
    if (strcmp(ranges[i].name, name) == 0) return ranges[i].count;
  return strcmp(name, "") == 0 ? pushed : 0;
}
/* Number of marks with this text and payload; -1: marks are not supported. */
__attribute__((visibility("default"))) long tool_marks(const char* text, uint64_t bytes) {
  long found = 0;
  for (int i = 0; i < mark_count; ++i) found += marks[i].bytes == bytes && strcmp(marks[i].text, text) == 0;
#ifdef WITH_DOMAINS
  return found;
#else
  return -1;
#endif
}
__attribute__((visibility("default"))) long tool_open(void) { return pushed - popped; }
__attribute__((visibility("default"))) long tool_errors(void) { return errors; }
