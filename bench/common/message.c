// SPDX-License-Identifier: BSD-3-Clause
#include "common/message.h"

#include "common/harness.h"

static bool sums(const struct bench_run* run) { return run->program->defaults.data == BENCH_REDUCED; }

MPI_Datatype bench_datatype(const struct bench_run* run) {
  if (run->type == BENCH_INT) return MPI_INT;
  if (run->type == BENCH_FLOAT) return MPI_FLOAT;
  return sums(run) ? MPI_SIGNED_CHAR : MPI_CHAR;
}

const char* bench_datatype_name(const struct bench_run* run) {
  if (run->type == BENCH_INT) return "MPI_INT";
  if (run->type == BENCH_FLOAT) return "MPI_FLOAT";
  return sums(run) ? "MPI_SIGNED_CHAR" : "MPI_CHAR";
}

size_t bench_extent(const struct bench_run* run, size_t bytes) {
  return bench_layout_extent(&run->options.layout, bench_type_bytes(run->type), bytes);
}

/// Returns the datatype of one period of an indexed layout.
static MPI_Datatype make_period(const struct bench_layout* layout, MPI_Datatype type, size_t element) {
  int at[BENCH_MAX_BLOCKS], lengths[BENCH_MAX_BLOCKS];
  MPI_Datatype blocks, period;
  for (int i = 0; i < layout->block_count; ++i) {
    at[i] = layout->blocks[i].at;
    lengths[i] = layout->blocks[i].length;
  }
  MPI_Type_indexed(layout->block_count, lengths, at, type, &blocks);
  MPI_Type_create_resized(blocks, 0, (MPI_Aint)((size_t)layout->period * element), &period);
  MPI_Type_free(&blocks);
  return period;
}

static MPI_Datatype make_type(const struct bench_layout* layout, MPI_Datatype type, size_t element,
                              int periods) {
  MPI_Datatype made, period;
  if (layout->form == BENCH_CONTIGUOUS) {
    MPI_Type_contiguous(periods, type, &made);
  } else if (layout->form == BENCH_VECTOR) {
    MPI_Type_vector(periods, layout->data, layout->period, type, &made);
  } else {
    period = make_period(layout, type, element);
    MPI_Type_contiguous(periods, period, &made);
    MPI_Type_free(&period);
  }
  MPI_Type_commit(&made);
  return made;
}

void bench_message_create(struct bench_run* run, size_t bytes) {
  const struct bench_layout* layout = &run->options.layout;
  const size_t element = bench_type_bytes(run->type);
  const MPI_Datatype type = bench_datatype(run);
  const int periods = (int)(bytes / (element * (size_t)layout->data));
  bench_message_destroy(run);
  run->message = (struct bench_message){.count = periods, .type = type, .extent = bench_extent(run, bytes)};
  if (layout->form == BENCH_PLAIN) return;
  run->message.count = 1;
  run->message.type = make_type(layout, type, element, periods);
  run->message.made = true;
}

void bench_message_destroy(struct bench_run* run) {
  if (run->message.made) MPI_Type_free(&run->message.type);
  run->message.made = false;
}

void bench_message_fill(const struct bench_run* run, struct bench_buffer* buffer, size_t offset,
                        uint64_t seed) {
  bench_buffer_fill(buffer, offset, run->message.extent, seed);
}

void bench_message_poison(const struct bench_run* run, struct bench_buffer* buffer, size_t offset,
                          uint64_t seed) {
  bench_buffer_poison(buffer, offset, run->message.extent, seed);
}

void bench_message_stage(const struct bench_run* run, struct bench_buffer* buffer, size_t offset,
                         uint64_t outgoing, uint64_t incoming) {
  bench_buffer_stage(buffer, offset, run->message.extent, outgoing, incoming, &run->options.layout,
                     bench_type_bytes(run->type));
}

bool bench_message_check(const struct bench_run* run, const struct bench_buffer* buffer, size_t offset,
                         uint64_t seed) {
  return bench_buffer_check_layout(buffer, offset, run->message.extent, seed, &run->options.layout,
                                   bench_type_bytes(run->type));
}
