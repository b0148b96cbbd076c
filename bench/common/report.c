// SPDX-License-Identifier: BSD-3-Clause
#include "common/report.h"

#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

// Column widths of the Ohio State programs.
enum { SIZE_COLUMN = 10, FIELD_COLUMN = 18, ITERATIONS_COLUMN = 12 };

static const char* unit(const char* column) { return strchr(column, '('); }

// Prints the datatype, in the format of the Ohio State programs, and the layout of the data.
static void put_datatype(const struct bench_run* run) {
  const struct bench_layout* layout = &run->options.layout;
  printf("# Datatype: %s.\n", bench_datatype_name(run));
  if (layout->form == BENCH_PLAIN) return;
  printf("# Derived datatype: %s", layout->text);
  if (layout->data < layout->period)
    printf(", %d of %d elements; sizes are bytes of data", layout->data, layout->period);
  printf("\n");
}

void bench_report_header(const struct bench_run* run, struct bench_kinds kinds) {
  const struct bench_program* program = run->program;
  printf("# Weft MPI %s v%s\n", program->title, BENCH_VERSION);
  static const char* const owners[][2] = {[BENCH_TWO] = {"Rank 0 Buffers", "Rank 1 Buffers"},
                                          [BENCH_PAIRS] = {"Send Buffers", "Receive Buffers"},
                                          [BENCH_COLLECTIVE] = {"Send Buffer", "Receive Buffer"}};
  if (run->options.cuda) {
    printf("# %s on %s (%c) and %s on %s (%c)\n", owners[program->shape][0], bench_kind_name(kinds.first),
           kinds.first, owners[program->shape][1], bench_kind_name(kinds.second), kinds.second);
  }
  if (program->rate) printf("# [ pairs: %d ] [ window size: %d ]\n", run->ranks / 2, run->options.window);
  if (run->options.percentile_count)
    printf("# Percentiles over single iterations: reading the clock adds %.3f us to each\n",
           bench_clock_cost());
  if (run->options.typed) put_datatype(run);
  if (program->defaults.one_sided)
    printf("# Window creation: MPI_Win_%s%s\n# Synchronization: %s\n",
           run->options.flavor == BENCH_WIN_DYNAMIC ? "create_" : "", bench_flavor_names[run->options.flavor],
           bench_sync_names[run->options.sync]);
  char text[64];
  if (program->shape == BENCH_COLLECTIVE && !program->overlap) {
    snprintf(text, sizeof text, "Avg Latency%s", unit(program->column));
  } else {
    snprintf(text, sizeof text, "%s", program->column);
  }
  printf("# %-*s%*s", SIZE_COLUMN - 2, "Size", FIELD_COLUMN, text);
  if (program->rate) printf("%*s", FIELD_COLUMN, "Messages/s");
  if (program->overlap)
    printf("%*s%*s%*s", FIELD_COLUMN, "Compute(us)", FIELD_COLUMN, "Pure Comm.(us)", FIELD_COLUMN,
           "Overlap(%)");
  if (run->options.full) {
    printf("%*s%*s%*s", FIELD_COLUMN, program->rate ? "Min MB/s" : "Min Latency(us)", FIELD_COLUMN,
           program->rate ? "Max MB/s" : "Max Latency(us)", ITERATIONS_COLUMN, "Iterations");
  }
  for (int i = 0; i < run->options.percentile_count; ++i) {
    snprintf(text, sizeof text, "P%g Tail Lat(us)", run->options.percentiles[i]);
    printf(" %*s", FIELD_COLUMN - 1, text);
  }
  if (run->options.validate) printf("%*s", FIELD_COLUMN, "Validation");
  printf("\n");
  fflush(stdout);
}

void bench_report_row(const struct bench_run* run, const struct bench_row* row) {
  printf("%-*zu%*.2f", SIZE_COLUMN, row->size, FIELD_COLUMN, row->average);
  if (run->program->rate) printf("%*.2f", FIELD_COLUMN, row->rate);
  if (run->program->overlap)
    printf("%*.2f%*.2f%*.2f", FIELD_COLUMN, row->compute, FIELD_COLUMN, row->pure, FIELD_COLUMN,
           row->overlap);
  if (run->options.full) {
    printf("%*.2f%*.2f%*ld", FIELD_COLUMN, row->minimum, FIELD_COLUMN, row->maximum, ITERATIONS_COLUMN,
           row->iterations);
  }
  for (int i = 0; i < run->options.percentile_count; ++i) printf("%*.2f", FIELD_COLUMN, row->percentiles[i]);
  if (run->options.validate) printf("%*s", FIELD_COLUMN, row->valid ? "Pass" : "Fail");
  printf("\n");
  fflush(stdout);
}

static void put_escaped(FILE* file, const char* text) {
  for (; *text; ++text) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') {
      fprintf(file, "\\%c", c);
    } else if (c < 0x20) {
      fprintf(file, "\\u%04x", c);
    } else {
      fputc(c, file);
    }
  }
}

static void put_string(FILE* file, const char* text) {
  fputc('"', file);
  put_escaped(file, text);
  fputc('"', file);
}

static void put_library(FILE* file) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  text[strcspn(text, "\n")] = '\0';  // some libraries append their whole configuration, with host names
  put_string(file, text);
}

static void put_percentiles(FILE* file, const struct bench_run* run, const struct bench_row* row) {
  fputs(", \"percentiles_us\": {", file);
  for (int i = 0; i < run->options.percentile_count; ++i)
    fprintf(file, "%s\"%g\": %.4f", i ? ", " : "", run->options.percentiles[i], row->percentiles[i]);
  fputc('}', file);
}

static void put_row(FILE* file, const struct bench_run* run, const struct bench_row* row) {
  fprintf(file, "{\"kinds\": \"%c %c\", \"size\": %zu, \"%s\": %.4f, \"iterations\": %ld", row->kinds.first,
          row->kinds.second, row->size, run->program->field, run->program->overlap ? row->pure : row->average,
          row->iterations);
  if (run->options.typed) {
    fprintf(file, ", \"type\": \"%s", row->type);
    if (run->options.layout.text) put_escaped(file, " ");
    if (run->options.layout.text) put_escaped(file, run->options.layout.text);
    fputc('"', file);
  }
  const char* unit_of = run->program->rate ? "mb_s" : "us";
  if (run->program->shape != BENCH_TWO)
    fprintf(file, ", \"min_%s\": %.4f, \"max_%s\": %.4f", unit_of, row->minimum, unit_of, row->maximum);
  if (run->program->overlap)
    fprintf(file, ", \"compute_us\": %.4f, \"overall_us\": %.4f, \"overlap_percent\": %.2f", row->compute,
            row->average, row->overlap);
  if (run->program->rate) fprintf(file, ", \"messages_per_s\": %.1f", row->rate);
  if (run->options.percentile_count) put_percentiles(file, run, row);
  if (run->options.validate) fprintf(file, ", \"valid\": %s", row->valid ? "true" : "false");
  fputc('}', file);
}

static FILE* opened(const char* path) {
  FILE* file = fopen(path, "w");
  if (!file) fprintf(stderr, "--json %s: cannot write (%s)\n", path, strerror(errno));
  return file;
}

static bool closed(FILE* file, const char* path) {
  bool good = !ferror(file);
  if (fclose(file) != 0) good = false;
  if (!good) fprintf(stderr, "--json %s: writing failed\n", path);
  return good;
}

bool bench_report_plain(const char* path, const char* program, int ranks, const struct bench_plain_row* rows,
                        int count) {
  FILE* file = opened(path);
  if (!file) return false;
  fprintf(file, "{\n  \"program\": \"%s\",\n  \"library\": ", program);
  put_library(file);
  fprintf(file, ",\n  \"ranks\": %d,\n  \"rows\": [", ranks);
  for (int i = 0; i < count; ++i)
    fprintf(file, "%s\n    {\"size\": %zu, \"kinds\": \"%s\"%s%s}", i ? "," : "", rows[i].size, rows[i].kinds,
            *rows[i].fields ? ", " : "", rows[i].fields);
  fputs("\n  ]\n}\n", file);
  return closed(file, path);
}

bool bench_report_start_up(const char* path, const char* program, int ranks, const char* fields) {
  const struct bench_plain_row row = {0, "H H", fields};
  return bench_report_plain(path, program, ranks, &row, 1);
}

bool bench_report_json(const struct bench_run* run, int argc, char** argv, const struct bench_row* rows,
                       int count) {
  FILE* file = opened(run->options.json);
  if (!file) return false;
  fprintf(file, "{\n  \"program\": \"%s\",\n  \"version\": \"%s\",\n  \"options\": [", run->program->name,
          BENCH_VERSION);
  for (int i = 1; i < argc; ++i) {
    if (i > 1) fputs(", ", file);
    put_string(file, argv[i]);
  }
  fputs("],\n  \"library\": ", file);
  put_library(file);
  if (run->options.cuda) {
    fputs(",\n  \"device\": ", file);
    put_string(file, run->device.name);
    fprintf(file, ",\n  \"devices\": %d,\n  \"driver\": \"%d.%d\"", run->device.count,
            run->device.driver / 1000, run->device.driver % 1000 / 10);
  }
  if (run->options.percentile_count) fprintf(file, ",\n  \"clock_cost_us\": %.4f", bench_clock_cost());
  fprintf(file, ",\n  \"ranks\": %d,\n  \"kinds\": [", run->ranks);
  for (int i = 0; i < run->options.kind_count; ++i)
    fprintf(file, "%s\"%c %c\"", i ? ", " : "", run->options.kinds[i].first, run->options.kinds[i].second);
  fputs("],\n  \"rows\": [", file);
  for (int i = 0; i < count; ++i) {
    fputs(i ? ",\n    " : "\n    ", file);
    put_row(file, run, &rows[i]);
  }
  fputs("\n  ]\n}\n", file);
  return closed(file, run->options.json);
}
