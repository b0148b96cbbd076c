// SPDX-License-Identifier: BSD-3-Clause
// With WEFT_CHECK=on a receive of another type than its message fails with MPI_ERR_TYPE, which names both
// types: for each form of a send, of any size, posted before or after the message has come. Types that
// programs mix are accepted.
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { kLarge = 1 << 18 };
static float floats[kLarge];
static int ints[kLarge];
static int rank, failures;

static void expect(int differs, int result, const char* what, const char* types) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int class = MPI_SUCCESS, length;
  MPI_Error_class(result, &class);
  if (result != MPI_SUCCESS) MPI_Error_string(result, text, &length);
  const int right = differs ? class == MPI_ERR_TYPE : result == MPI_SUCCESS;
  if (right) return;
  ++failures;
  printf("%s, %s: class %d, %s\n", what, types, class, text);
}

static void send(char mode, int count, MPI_Datatype type, int dest, int tag) {
  MPI_Request request;
  if (mode == 's') MPI_Send(floats, count, type, dest, tag, MPI_COMM_WORLD);
  if (mode == 'S') MPI_Ssend(floats, count, type, dest, tag, MPI_COMM_WORLD);
  if (mode != 'i') return;
  MPI_Isend(floats, count, type, dest, tag, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// Rank 0 sends, rank 1 receives before (posted) or after the message has come.
static void exchange(char mode, int count, MPI_Datatype sent, MPI_Datatype received, int posted, int differs,
                     const char* types) {
  char what[64];
  snprintf(what, sizeof what, "send %c of %d elements, %s", mode, count, posted ? "posted" : "unexpected");
  if (rank == 1) {
    MPI_Request request;
    MPI_Message message;
    if (posted) {
      MPI_Irecv(ints, count, received, 0, 3, MPI_COMM_WORLD, &request);
      MPI_Barrier(MPI_COMM_WORLD);
      expect(differs, MPI_Wait(&request, MPI_STATUS_IGNORE), what, types);
    } else {
      MPI_Barrier(MPI_COMM_WORLD);
      MPI_Mprobe(0, 3, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
      expect(differs, MPI_Mrecv(ints, count, received, &message, MPI_STATUS_IGNORE), what, types);
    }
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
    send(mode, count, sent, 1, 3);
  }
}

static void all_forms(MPI_Datatype sent, MPI_Datatype received, int differs, const char* types) {
  const int counts[] = {1, 100, kLarge};
  for (const char* mode = "sSi"; *mode != '\0'; ++mode)
    for (int i = 0; i < 3; ++i)
      for (int posted = 0; posted < 2; ++posted)
        exchange(*mode, counts[i], sent, received, posted, differs, types);
}

static void text_names_both(void) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length;
  if (rank == 0) MPI_Send(floats, 4, MPI_FLOAT, 1, 7, MPI_COMM_WORLD);
  if (rank != 1) return;
  const int result = MPI_Recv(ints, 4, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Error_string(result, text, &length);
  if (strstr(text, "rank 0 sends elements of MPI_FLOAT with tag 7, the receive takes MPI_INT") != NULL)
    return;
  ++failures;
  printf("the text does not name both: %s\n", text);
}

static void pairs_match_their_parts(void) {
  if (rank == 0) MPI_Send(floats, 1, MPI_2INT, 1, 9, MPI_COMM_WORLD);
  if (rank == 1)
    expect(0, MPI_Recv(ints, 2, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "pair",
           "MPI_2INT into two MPI_INT");
}

static void to_self(void) {
  MPI_Request request;
  MPI_Irecv(ints, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &request);
  MPI_Send(floats, 1, MPI_FLOAT, 0, 1, MPI_COMM_SELF);
  expect(1, MPI_Wait(&request, MPI_STATUS_IGNORE), "to self, posted", "MPI_FLOAT into MPI_INT");
  MPI_Send(floats, 1, MPI_FLOAT, 0, 1, MPI_COMM_SELF);
  expect(1, MPI_Recv(ints, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE), "to self",
         "MPI_FLOAT into MPI_INT");
}

int main(int argc, char** argv) {
  MPI_Datatype pair;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Type_vector(1, 1, 1, MPI_FLOAT, &pair);
  MPI_Type_commit(&pair);
  all_forms(MPI_FLOAT, MPI_INT, 1, "MPI_FLOAT into MPI_INT");
  all_forms(pair, MPI_INT, 1, "derived of MPI_FLOAT into MPI_INT");
  all_forms(MPI_INT, MPI_UNSIGNED, 0, "MPI_INT into MPI_UNSIGNED");
  all_forms(pair, MPI_FLOAT, 0, "derived of MPI_FLOAT into MPI_FLOAT");
  exchange('s', 4, MPI_BYTE, MPI_INT, 1, 0, "MPI_BYTE into MPI_INT");
  exchange('s', 4, MPI_INT, MPI_INT64_T, 1, 1, "MPI_INT into MPI_INT64_T");
  text_names_both();
  pairs_match_their_parts();
  to_self();
  MPI_Type_free(&pair);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return failures != 0;
}
