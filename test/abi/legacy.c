/* SPDX-License-Identifier: BSD-3-Clause */
/* The names beyond the ABI in mpi.h: handles as Fortran integers, and what MPI 3.0 removed; and the error
   handler of calls without a communicator in programs that set MPI_COMM_WORLD's only. */
#include <stddef.h>

#include "expect.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static MPI_Comm seen_comm;
static int calls;

static void handler(MPI_Comm* comm, int* code, ...) {
  seen_comm = *comm;
  calls += *code != MPI_SUCCESS;
}

struct particle {
  double position[3];
  int id;
};

static void test_removed_names(void) {
  struct particle sent = {{1, 2, 3}, 7}, received = {{0, 0, 0}, 0};
  int lengths[2] = {3, 1}, size;
  MPI_Aint places[2], base, lb, ub, extent;
  MPI_Datatype types[2] = {MPI_DOUBLE, MPI_INT}, type, pair, row;
  EXPECT(MPI_Address(&sent, &base) == MPI_SUCCESS);
  EXPECT(MPI_Address(&sent.position, &places[0]) == MPI_SUCCESS &&
         MPI_Address(&sent.id, &places[1]) == MPI_SUCCESS);
  places[0] -= base;
  places[1] -= base;
  EXPECT(places[1] == (MPI_Aint)offsetof(struct particle, id));
  EXPECT(MPI_Type_struct(2, lengths, places, types, &type) == MPI_SUCCESS &&
         MPI_Type_commit(&type) == MPI_SUCCESS);
  EXPECT(MPI_Type_extent(type, &extent) == MPI_SUCCESS && extent == (MPI_Aint)sizeof sent);
  EXPECT(MPI_Type_lb(type, &lb) == MPI_SUCCESS && MPI_Type_ub(type, &ub) == MPI_SUCCESS && ub - lb == extent);
  EXPECT(MPI_Sendrecv(&sent, 1, type, 0, 0, &received, 1, type, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE) ==
         MPI_SUCCESS);
  EXPECT(received.position[2] == 3 && received.id == 7);
  EXPECT(MPI_Type_hvector(2, 1, 64, MPI_INT, &pair) == MPI_SUCCESS);
  EXPECT(MPI_Type_size(pair, &size) == MPI_SUCCESS && size == 8);
  EXPECT(MPI_Type_extent(pair, &extent) == MPI_SUCCESS && extent == 68);
  EXPECT(MPI_Type_hindexed(2, lengths, places, MPI_INT, &row) == MPI_SUCCESS);
  EXPECT(MPI_Type_size(row, &size) == MPI_SUCCESS && size == 16);
  MPI_Type_free(&type);
  MPI_Type_free(&pair);
  MPI_Type_free(&row);
}

static void test_fortran_integers(void) {
  MPI_Request request;
  MPI_Status status, back;
  MPI_Fint integers[MPI_F_STATUS_SIZE];
  int value = 5, received = 0, count;
  EXPECT(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
  EXPECT(MPI_Type_f2c(MPI_Type_c2f(MPI_DOUBLE)) == MPI_DOUBLE && MPI_Op_f2c(MPI_Op_c2f(MPI_SUM)) == MPI_SUM);
  EXPECT(MPI_Group_f2c(MPI_Group_c2f(MPI_GROUP_EMPTY)) == MPI_GROUP_EMPTY);
  EXPECT(MPI_Info_f2c(MPI_Info_c2f(MPI_INFO_ENV)) == MPI_INFO_ENV);
  EXPECT(MPI_Irecv(&received, 1, MPI_INT, 0, 3, MPI_COMM_SELF, &request) == MPI_SUCCESS);
  EXPECT(MPI_Request_f2c(MPI_Request_c2f(request)) == request);
  EXPECT(MPI_Send(&value, 1, MPI_INT, 0, 3, MPI_COMM_SELF) == MPI_SUCCESS);
  EXPECT(MPI_Wait(&request, &status) == MPI_SUCCESS && received == 5);
  EXPECT(MPI_Status_c2f(&status, integers) == MPI_SUCCESS);
  EXPECT(integers[MPI_F_SOURCE] == 0 && integers[MPI_F_TAG] == 3);
  EXPECT(MPI_Status_f2c(integers, &back) == MPI_SUCCESS && back.MPI_TAG == 3);
  EXPECT(MPI_Get_count(&back, MPI_INT, &count) == MPI_SUCCESS && count == 1);

  MPI_F08_status f08, copy;
  int again[MPI_F_STATUS_SIZE];
  EXPECT(MPI_Status_c2f08(&status, &f08) == MPI_SUCCESS && f08.MPI_SOURCE == 0 && f08.MPI_TAG == 3);
  EXPECT(MPI_Status_f082c(&f08, &back) == MPI_SUCCESS && back.MPI_TAG == 3);
  EXPECT(MPI_Status_f082f(&f08, again) == MPI_SUCCESS && again[MPI_F_TAG] == 3);
  EXPECT(MPI_Status_f2f08(again, &copy) == MPI_SUCCESS && copy.MPI_TAG == 3);
  EXPECT(MPI_Get_count(&copy, MPI_INT, &count) == MPI_SUCCESS && count == 1);
}

static void test_handler_of_the_world(void) {
  MPI_Errhandler mine, got;
  int size;
  EXPECT(MPI_Errhandler_create(handler, &mine) == MPI_SUCCESS);
  EXPECT(MPI_Errhandler_set(MPI_COMM_WORLD, mine) == MPI_SUCCESS);
  EXPECT(MPI_Errhandler_get(MPI_COMM_WORLD, &got) == MPI_SUCCESS && got == mine);
  MPI_Errhandler_free(&got);
  /* MPI_COMM_SELF has its initial handler, which is fatal: MPI_COMM_WORLD's serves. */
  EXPECT(class_of(MPI_Group_size(MPI_GROUP_NULL, &size)) == MPI_ERR_GROUP && calls == 1 &&
         seen_comm == MPI_COMM_WORLD);
  EXPECT(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN) == MPI_SUCCESS);
  EXPECT(class_of(MPI_Group_size(MPI_GROUP_NULL, &size)) == MPI_ERR_GROUP && calls == 1);
  MPI_Errhandler_free(&mine);
}

/// Whether a combiner has byte displacements: PnetCDF has old and new names in one switch.
static int in_bytes(int combiner) {
  switch (combiner) {
    case MPI_COMBINER_HVECTOR:
    case MPI_COMBINER_HVECTOR_INTEGER:
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_HINDEXED_INTEGER:
    case MPI_COMBINER_STRUCT:
    case MPI_COMBINER_STRUCT_INTEGER:
      return 1;
    default:
      return 0;
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  test_removed_names();
  EXPECT(in_bytes(MPI_COMBINER_STRUCT) && !in_bytes(MPI_COMBINER_VECTOR));
  test_fortran_integers();
  test_handler_of_the_world();
  MPI_Finalize();
  return finish();
}
