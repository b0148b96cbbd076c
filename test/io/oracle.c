// SPDX-License-Identifier: BSD-3-Clause
// Random accesses of all ranks through random views, compared with a serial model of the file. Each rank
// draws the views and accesses of all ranks, so it knows what the file holds after each step. Ranks access
// disjoint bytes when they write. Arguments: "rounds N [SEED [THREADS]]" or "seconds N [SEED [THREADS]]";
// each thread has a file of its own.
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "check.h"

enum { kFile = 1 << 16, kRanks = 16, kLargest = 1 << 14, kThreads = 4 };

static _Thread_local uint64_t state;
static uint32_t draw(uint32_t below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return below == 0 ? 0 : (uint32_t)((state >> 16) % below);
}

static int rank, size;
static int seconds;  ///< the limit is a time
static long limit, seed;
static _Thread_local unsigned char model[kFile * 16];
static _Thread_local int64_t model_size;
static _Thread_local MPI_Comm comm;

/// A view: blocks of the file that belong to one rank. owner[i] of the unit i of each tile.
struct View {
  int unit, tile, disp;  ///< bytes, units, bytes
  unsigned char owner[64];
  MPI_Datatype etype, filetype;
  int64_t per_tile;  ///< bytes of this rank in a tile
};

/// Position in the file of the byte `at` of the stream of `who`.
static int64_t position(const struct View* view, int who, int64_t at) {
  int units[64], n = 0;
  for (int i = 0; i < view->tile; ++i)
    if (view->owner[i] == who) units[n++] = i;
  const int64_t bytes = (int64_t)n * view->unit, tile = at / bytes, in_tile = at % bytes;
  return view->disp + tile * view->tile * view->unit + (int64_t)units[in_tile / view->unit] * view->unit +
         in_tile % view->unit;
}

static void draw_view(struct View* view, int shared) {
  const int kinds[] = {1, 2, 4, 8, 12, 100};
  view->unit = kinds[draw(6)];
  view->disp = (int)draw(3) * (int)draw(200);
  view->tile = size + (int)draw((uint32_t)(64 - size));
  const int runs = draw(2) != 0;
  for (int i = 0; i < view->tile; ++i) {
    view->owner[i] = (unsigned char)draw((uint32_t)size + 1);  // size: nobody, a hole
    if (runs && i > 0 && draw(3) != 0) view->owner[i] = view->owner[i - 1];
  }
  for (int i = 0; i < size; ++i) view->owner[i] = (unsigned char)i;  // each has some
  if (shared)                                                        // all ranks have the same view
    for (int i = 0; i < view->tile; ++i) view->owner[i] = i % 3 == 1 ? 1 : 0;
  const int mine = shared ? 0 : rank;
  int lengths[64], displacements[64], n = 0;
  for (int i = 0; i < view->tile; ++i)
    if (view->owner[i] == mine) {
      lengths[n] = 1;
      displacements[n++] = i;
    }
  view->per_tile = (int64_t)n * view->unit;
  MPI_Type_contiguous(view->unit, MPI_BYTE, &view->etype);
  MPI_Type_commit(&view->etype);
  MPI_Datatype blocks;
  MPI_Type_indexed(n, lengths, displacements, view->etype, &blocks);
  MPI_Type_create_resized(blocks, 0, (MPI_Aint)view->tile * view->unit, &view->filetype);
  MPI_Type_commit(&view->filetype);
  MPI_Type_free(&blocks);
}

/// Memory of `etypes` etypes: contiguous, or each etype in a slot of twice its size.
struct Memory {
  unsigned char* bytes;
  MPI_Datatype type;
  int count, spaced;
};

static unsigned char* slot(const struct Memory* memory, const struct View* view, int64_t at) {
  return memory->bytes + (memory->spaced ? at / view->unit * 2 * view->unit + at % view->unit : at);
}

static void make_memory(struct Memory* memory, const struct View* view, int etypes, int spaced) {
  memory->spaced = spaced;
  memory->count = etypes;
  memory->bytes = malloc((size_t)etypes * (size_t)view->unit * 2 + 16);
  memset(memory->bytes, 0xee, (size_t)etypes * (size_t)view->unit * 2 + 16);
  if (spaced)
    MPI_Type_create_resized(view->etype, 0, 2 * view->unit, &memory->type);
  else
    MPI_Type_dup(view->etype, &memory->type);
  MPI_Type_commit(&memory->type);
}

static void free_memory(struct Memory* memory) {
  MPI_Type_free(&memory->type);
  free(memory->bytes);
}

enum Form { BLOCKING, NONBLOCKING, SPLIT };
enum Pointer { OFFSET, INDIVIDUAL };

static void transfer(MPI_File file, int write, int collective, enum Pointer pointer, enum Form form,
                     MPI_Offset offset, struct Memory* m, MPI_Status* status) {
  MPI_Request request = MPI_REQUEST_NULL;
  unsigned char* b = m->bytes;
  const int n = m->count;
  MPI_Datatype t = m->type;
#define FORMS(name)                                               \
  do {                                                            \
    if (form == BLOCKING) {                                       \
      if (write) OK(MPI_File_write##name(AT b, n, t, status));    \
      if (!write) OK(MPI_File_read##name(AT b, n, t, status));    \
    } else {                                                      \
      if (write) OK(MPI_File_iwrite##name(AT b, n, t, &request)); \
      if (!write) OK(MPI_File_iread##name(AT b, n, t, &request)); \
      OK(MPI_Wait(&request, status));                             \
    }                                                             \
  } while (0)
#define SPLITS(name)                                            \
  do {                                                          \
    if (write) OK(MPI_File_write##name##_begin(AT b, n, t));    \
    if (!write) OK(MPI_File_read##name##_begin(AT b, n, t));    \
    if (write) OK(MPI_File_write##name##_end(file, b, status)); \
    if (!write) OK(MPI_File_read##name##_end(file, b, status)); \
  } while (0)
#define AT file, offset,
  if (pointer == OFFSET && !collective) FORMS(_at);
  if (pointer == OFFSET && collective && form != SPLIT) FORMS(_at_all);
  if (pointer == OFFSET && collective && form == SPLIT) SPLITS(_at_all);
#undef AT
#define AT file,
  if (pointer == INDIVIDUAL && !collective) FORMS();
  if (pointer == INDIVIDUAL && collective && form != SPLIT) FORMS(_all);
  if (pointer == INDIVIDUAL && collective && form == SPLIT) SPLITS(_all);
#undef AT
}

/// One access of each rank with a view of its own, against the model.
static void step(MPI_File file, const struct View* view) {
  const int write = (int)draw(2), collective = (int)draw(3) != 0;
  const enum Pointer pointer = draw(2) ? OFFSET : INDIVIDUAL;
  const enum Form form = collective ? (enum Form)draw(3) : (enum Form)draw(2);
  const uint32_t largest = draw(4) == 0 ? kLargest : 600;
  const uint32_t value = draw(1 << 30);
  int etypes[kRanks], spaced[kRanks];
  int64_t offsets[kRanks];
  for (int i = 0; i < size; ++i) {
    etypes[i] = (int)(draw(largest) / (uint32_t)view->unit / (uint32_t)size);
    if (draw(8) == 0) etypes[i] = 0;
    spaced[i] = (int)draw(2);
    offsets[i] = draw(1500) / (uint32_t)view->unit;
  }
  struct Memory memory;
  make_memory(&memory, view, etypes[rank], spaced[rank]);
  const int64_t first = offsets[rank] * view->unit, bytes = (int64_t)etypes[rank] * view->unit;
  if (write)
    for (int64_t i = 0; i < bytes; ++i)
      *slot(&memory, view, i) =
          (unsigned char)(value + (uint32_t)position(view, rank, first + i) * 7 + (uint32_t)rank);
  if (pointer == INDIVIDUAL) OK(MPI_File_seek(file, offsets[rank], MPI_SEEK_SET));
  MPI_Status status;
  transfer(file, write, collective, pointer, form, offsets[rank], &memory, &status);
  int64_t expected = bytes;
  if (write) {
    for (int who = 0; who < size; ++who)
      for (int64_t i = 0, n = (int64_t)etypes[who] * view->unit; i < n; ++i) {
        const int64_t at = position(view, who, offsets[who] * view->unit + i);
        CHECK(at < (int64_t)sizeof model);
        model[at] = (unsigned char)(value + (uint32_t)at * 7 + (uint32_t)who);
        if (at >= model_size) model_size = at + 1;
      }
  } else {
    expected = 0;
    while (expected < bytes && position(view, rank, first + expected) < model_size) ++expected;
    for (int64_t i = 0; i < expected; ++i)
      CHECK(*slot(&memory, view, i) == model[position(view, rank, first + i)]);
    for (int64_t i = expected; i < bytes; ++i) CHECK(*slot(&memory, view, i) == 0xee);
  }
  if (spaced[rank])  // gaps are untouched
    for (int64_t i = 0; i < bytes; ++i) CHECK(slot(&memory, view, i)[view->unit] == 0xee || write);
  MPI_Count got;
  MPI_Get_elements_c(&status, MPI_BYTE, &got);
  CHECK(got == expected);
  if (pointer == INDIVIDUAL) {
    MPI_Offset now;
    OK(MPI_File_get_position(file, &now));
    CHECK(now == offsets[rank] + etypes[rank]);
  }
  free_memory(&memory);
  MPI_Barrier(comm);
}

/// Ordered and shared accesses with one view of all ranks.
static void shared_step(MPI_File file, const struct View* view) {
  const uint32_t value = draw(1 << 30);
  int etypes[kRanks];
  int64_t start = draw(100), before = start;
  for (int i = 0; i < size; ++i) {
    etypes[i] = (int)draw(50);
    if (i < rank) before += etypes[i];
  }
  const int form = (int)draw(2) * 2, spaced = (int)draw(2);
  OK(MPI_File_seek_shared(file, start, MPI_SEEK_SET));
  struct Memory memory;
  make_memory(&memory, view, etypes[rank], spaced);
  const int64_t bytes = (int64_t)etypes[rank] * view->unit;
  for (int64_t i = 0; i < bytes; ++i)
    *slot(&memory, view, i) =
        (unsigned char)(value + (uint32_t)position(view, 0, before * view->unit + i) * 7);
  MPI_Status status;
  if (form == SPLIT) {
    OK(MPI_File_write_ordered_begin(file, memory.bytes, memory.count, memory.type));
    OK(MPI_File_write_ordered_end(file, memory.bytes, &status));
  } else {
    OK(MPI_File_write_ordered(file, memory.bytes, memory.count, memory.type, &status));
  }
  int64_t end = start;
  for (int who = 0; who < size; ++who) end += etypes[who];
  for (int64_t i = start * view->unit; i < end * view->unit; ++i) {
    const int64_t at = position(view, 0, i);
    model[at] = (unsigned char)(value + (uint32_t)at * 7);
    if (at >= model_size) model_size = at + 1;
  }
  MPI_Barrier(comm);
  MPI_Offset now;
  OK(MPI_File_get_position_shared(file, &now));
  CHECK(now == end);
  OK(MPI_File_seek_shared(file, start, MPI_SEEK_SET));
  memset(memory.bytes, 0xee, (size_t)bytes * 2);
  MPI_Request request;
  OK(MPI_File_iread_shared(file, memory.bytes, memory.count, memory.type, &request));
  OK(MPI_Wait(&request, &status));
  // The order is open, so only the end of the pointer is known; with one rank the data too.
  for (int64_t i = 0; size == 1 && i < bytes; ++i)
    CHECK(*slot(&memory, view, i) == model[position(view, 0, before * view->unit + i)]);
  MPI_Barrier(comm);
  OK(MPI_File_get_position_shared(file, &now));
  CHECK(now == end);
  free_memory(&memory);
}

static void compare(const char* path) {
  MPI_Barrier(comm);
  if (rank == 0) {
    static _Thread_local unsigned char found[sizeof model + 1];
    FILE* stream = fopen(path, "rb");
    CHECK(stream != NULL);
    CHECK((int64_t)fread(found, 1, sizeof found, stream) == model_size);
    fclose(stream);
    for (int64_t i = 0; i < model_size; ++i) CHECK(found[i] == model[i]);
  }
  MPI_Barrier(comm);
}

static void run_round(const char* path) {
  memset(model, 0, sizeof model);
  model_size = 0;
  MPI_Info info;
  MPI_Info_create(&info);
  const char* modes[] = {"automatic", "enable", "disable"};
  const char* sizes[] = {"512", "4096", "1000", "16777216"};
  const char* keys[] = {"romio_cb_read", "romio_cb_write", "romio_ds_read", "romio_ds_write"};
  for (int i = 0; i < 4; ++i) MPI_Info_set(info, keys[i], modes[draw(3)]);
  MPI_Info_set(info, "cb_buffer_size", sizes[draw(4)]);
  MPI_Info_set(info, "ind_rd_buffer_size", sizes[draw(4)]);
  MPI_Info_set(info, "ind_wr_buffer_size", sizes[draw(4)]);
  if (draw(2)) MPI_Info_set(info, "striping_unit", draw(2) ? "16" : "100");
  char nodes[16];
  snprintf(nodes, sizeof nodes, "%u", 1 + draw((uint32_t)size));
  if (draw(2)) MPI_Info_set(info, "cb_nodes", nodes);
  MPI_File file;
  OK(MPI_File_open(comm, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, info, &file));
  MPI_Info_free(&info);
  const int atomic = draw(5) == 0;
  if (atomic) OK(MPI_File_set_atomicity(file, 1));
  for (int views = 0; views < 3; ++views) {
    const int shared = draw(4) == 0;
    struct View view;
    draw_view(&view, shared);
    OK(MPI_File_set_view(file, view.disp, view.etype, view.filetype, "native", MPI_INFO_NULL));
    for (int i = 0; i < 4; ++i) {
      if (shared)
        shared_step(file, &view);
      else
        step(file, &view);
    }
    MPI_Type_free(&view.etype);
    MPI_Type_free(&view.filetype);
  }
  OK(MPI_File_sync(file));
  compare(path);
  OK(MPI_File_close(&file));
  CHECK(file == MPI_FILE_NULL);
}

struct Worker {
  int index;
  MPI_Comm comm;
  char path[4200];
};

static void* work(void* argument) {
  const struct Worker* worker = argument;
  comm = worker->comm;
  const double start = MPI_Wtime();
  for (long i = 0;; ++i) {
    int end = seconds ? MPI_Wtime() - start > (double)limit : i == limit;
    MPI_Bcast(&end, 1, MPI_INT, 0, comm);
    if (end) return NULL;
    const long own = seed + i + 1000003L * worker->index;
    state = ((uint64_t)own + 1) * 0x9e3779b97f4a7c15u;
    if (getenv("TEST_VERBOSE") != NULL && rank == 0) fprintf(stderr, "seed %ld\n", own);
    run_round(worker->path);
  }
}

int main(int argc, char** argv) {
  int level;
  MPI_Init_thread(&argc, &argv, argc > 4 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK(size <= kRanks && argc >= 3);
  seconds = strcmp(argv[1], "seconds") == 0;
  limit = atol(argv[2]);
  seed = argc > 3 ? atol(argv[3]) : 1;
  const int threads = argc > 4 ? atoi(argv[4]) : 1;
  CHECK(threads >= 1 && threads <= kThreads && (threads == 1 || level == MPI_THREAD_MULTIPLE));
  static struct Worker workers[kThreads];
  pthread_t ids[kThreads];
  const char* path = make_path("oracle");
  for (int i = 0; i < threads; ++i) {
    workers[i].index = i;
    MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
    snprintf(workers[i].path, sizeof workers[i].path, "%s_%d", path, i);
    if (i > 0) CHECK(pthread_create(&ids[i], NULL, work, &workers[i]) == 0);
  }
  work(&workers[0]);
  for (int i = 0; i < threads; ++i) {
    if (i > 0) pthread_join(ids[i], NULL);
    MPI_Comm_free(&workers[i].comm);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("ok\n");
  MPI_Finalize();
  return 0;
}
