/* SPDX-License-Identifier: BSD-3-Clause */
/* A minimal NVTX profiler library: counts ranges per name. Built three times: without domain functions, with
   them, and with the payload extension too. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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
static void add_mark(const char* text, uint64_t bytes) {
  if (mark_count == NAMES) return;
  snprintf(marks[mark_count].text, sizeof marks[0].text, "%s", text);
  marks[mark_count++].bytes = bytes;
}

#ifdef WITH_PAYLOADS
/* The payload extension: a program declares the layout of its payloads, and has names for their fields. */
enum { SCHEMA = 1 << 24, UINT64 = 18, INT32 = 15, FIELDS = 4 };
struct entry {
  uint64_t flags, type;
  const char *name, *description;
  uint64_t array_length, offset;
  const void *semantics, *reserved;
};
struct schema {
  uint64_t valid_fields;
  const char* name;
  uint64_t type, flags;
  const struct entry* entries;
  size_t count, size, alignment;
  uint64_t id;
};
struct module {
  uint16_t version, size, module, compatibility;
  size_t segment_count;
  struct {
    size_t id, slot_count;
    intptr_t* slots;
  } * segments;
  intptr_t (*get_export)(uint32_t);
  const uint16_t (*types)[2];
};
static struct entry fields[FIELDS];
static size_t payload_size;

static uint64_t register_schema(void* in, const struct schema* schema) {
  const uint64_t needed =
      1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 6; /* name, type, entries, their number, size */
  if (in != &domain || (schema->valid_fields & needed) != needed || schema->type != 1 ||
      schema->count != FIELDS)
    ++errors;
  for (size_t i = 0; i < schema->count && i < FIELDS; ++i) fields[i] = schema->entries[i];
  payload_size = schema->size;
  return SCHEMA;
}

static int64_t field(const char* data, const char* name) {
  for (int i = 0; i < FIELDS; ++i) {
    if (fields[i].name == NULL || strcmp(fields[i].name, name) != 0) continue;
    int64_t wide = 0;
    int32_t narrow = 0;
    memcpy(&wide, data + fields[i].offset, sizeof wide);
    memcpy(&narrow, data + fields[i].offset, sizeof narrow);
    return fields[i].type == UINT64 ? wide : narrow;
  }
  ++errors;
  return 0;
}

static void mark(void* in, const struct attributes* attributes) {
  const struct {
    uint64_t schema;
    size_t size;
    const char* data;
  }* payload = (const void*)(uintptr_t)attributes->payload;
  char text[96] = "bytes; ";
  if (in != &domain || attributes->payload_type != (int32_t)0xDFBD0009u || attributes->reserved != 1 ||
      payload->schema != SCHEMA || payload->size != payload_size) {
    ++errors;
    return;
  }
  /* The text of a mark says the same as its fields. */
  const int64_t peer = field(payload->data, "peer"), tag = field(payload->data, "tag");
  if (peer >= 0) snprintf(text + strlen(text), sizeof text - strlen(text), "peer %d, ", (int)peer);
  if (tag >= 0) snprintf(text + strlen(text), sizeof text - strlen(text), "tag %d, ", (int)tag);
  snprintf(text + strlen(text), sizeof text - strlen(text), "communicator %llu",
           (unsigned long long)field(payload->data, "communicator"));
  if (strcmp(text, attributes->message) != 0) ++errors;
  add_mark(text, (uint64_t)field(payload->data, "bytes"));
}

__attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(struct module* module) {
  if (module->version != 3 || module->size != sizeof *module || module->module != 2 ||
      module->segment_count != 1 || module->segments->slot_count < 2 || module->types[0][0] != 28 ||
      module->types[UINT64][0] != 8 || module->types[INT32][1] != 4)
    ++errors;
  module->segments->slots[0] = (intptr_t)register_schema;
  return 1;
}
#else
static void mark(void* in, const struct attributes* attributes) {
  if (in != &domain || attributes->version != 3 || attributes->payload_type != 1) ++errors;
  add_mark(attributes->message, attributes->payload);
}
#endif

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
