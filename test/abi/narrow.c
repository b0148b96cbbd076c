/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts: a function and its large-count variant agree; a value that does not fit an int becomes
 * MPI_UNDEFINED. */
#include "expect.h"

int main(int argc, char** argv) {
  MPI_Status status = {0, 0, 0, {0, 0, 0, 0, 0}};
  MPI_Datatype big, small;
  MPI_Count wide = -1;
  int narrow = -1, combiner, integers, addresses, types;
  const MPI_Count gigabytes = 5000000000;
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Type_contiguous_c(gigabytes, MPI_BYTE, &big);
  MPI_Type_contiguous(1000, MPI_BYTE, &small);
  MPI_Type_commit(&big);
  MPI_Type_commit(&small);

  EXPECT(MPI_Type_size_c(big, &wide) == MPI_SUCCESS && wide == gigabytes);
  EXPECT(MPI_Type_size(big, &narrow) == MPI_SUCCESS && narrow == MPI_UNDEFINED);
  EXPECT(MPI_Type_size(small, &narrow) == MPI_SUCCESS && narrow == 1000);
  EXPECT(MPI_Status_set_elements_c(&status, MPI_BYTE, gigabytes) == MPI_SUCCESS);
  EXPECT(MPI_Get_count_c(&status, MPI_BYTE, &wide) == MPI_SUCCESS && wide == gigabytes);
  EXPECT(MPI_Get_count(&status, MPI_BYTE, &narrow) == MPI_SUCCESS && narrow == MPI_UNDEFINED);
  EXPECT(MPI_Get_count(&status, small, &narrow) == MPI_SUCCESS && narrow == 5000000);
  EXPECT(MPI_Get_elements(&status, MPI_BYTE, &narrow) == MPI_SUCCESS && narrow == MPI_UNDEFINED);
  EXPECT(MPI_Pack_size(3, big, MPI_COMM_SELF, &narrow) == MPI_SUCCESS && narrow == MPI_UNDEFINED);
  EXPECT(MPI_Pack_size_c(3, big, MPI_COMM_SELF, &wide) == MPI_SUCCESS && wide == 3 * gigabytes);
  EXPECT(MPI_Type_get_envelope(small, &integers, &addresses, &types, &combiner) == MPI_SUCCESS &&
         combiner == MPI_COMBINER_CONTIGUOUS && integers == 1 && addresses == 0 && types == 1);

  /* Count arrays of both widths. */
  int sum = 7, result = 0;
  const int one[1] = {1}, zero[1] = {0};
  const MPI_Count wide_one[1] = {1};
  const MPI_Aint wide_zero[1] = {0};
  EXPECT(MPI_Allgatherv(&sum, 1, MPI_INT, &result, one, zero, MPI_INT, MPI_COMM_SELF) == MPI_SUCCESS &&
         result == 7);
  result = 0;
  EXPECT(MPI_Allgatherv_c(&sum, 1, MPI_INT, &result, wide_one, wide_zero, MPI_INT, MPI_COMM_SELF) ==
             MPI_SUCCESS &&
         result == 7);

  /* Addresses and integer handles. */
  char text[10];
  MPI_Aint start, end;
  MPI_Get_address(text, &start);
  MPI_Get_address(text + 9, &end);
  EXPECT(MPI_Aint_diff(end, start) == 9 && MPI_Aint_add(start, 9) == end);
  EXPECT(MPI_Type_toint(MPI_INT) == 0x209 && MPI_Type_fromint(0x209) == MPI_INT);
  const int number = MPI_Type_toint(big);
  EXPECT(number >= 0x1000 && MPI_Type_toint(big) == number && MPI_Type_fromint(number) == big);
  EXPECT(MPI_Type_toint(small) != number);
  EXPECT(MPI_Type_fromint(0x7fffff00) == (MPI_Datatype)0);
  MPI_Type_free(&big);
  MPI_Type_free(&small);
  MPI_Finalize();
  return finish();
}
