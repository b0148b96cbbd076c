// SPDX-License-Identifier: BSD-3-Clause
// Messages above 2 GiB: one in bytes with a `_c` call, one with a small count of a large type; by single copy
// and staged.
#include <stdint.h>
#include <stdlib.h>

#include "../core/expect.h"

int main(int argc, char** argv) {
  int rank = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const MPI_Count words = ((MPI_Count)5 << 26) + 3;  // 2.5 GiB of 8-byte words
  uint64_t* data = malloc((size_t)words * sizeof *data);
  if (data == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Datatype half;
  CALL(MPI_Type_contiguous((int)(words / 2), MPI_UINT64_T, &half));
  CALL(MPI_Type_commit(&half));
  for (int round = 0; round < 2; ++round) {
    const MPI_Count sent = round == 0 ? words : words / 2 * 2;
    if (rank == 0) {
      for (MPI_Count i = 0; i < words; ++i) data[i] = (uint64_t)i * 3 + (uint64_t)round;
      if (round == 0) CALL(MPI_Send_c(data, words, MPI_UINT64_T, 1, 0, MPI_COMM_WORLD));
      if (round == 1) CALL(MPI_Send(data, 2, half, 1, 0, MPI_COMM_WORLD));
    } else {
      memset(data, 0xff, (size_t)words * sizeof *data);
      MPI_Status status;
      MPI_Count count = -1;
      int narrow = 0;
      CALL(MPI_Recv_c(data, words, MPI_UINT64_T, 0, 0, MPI_COMM_WORLD, &status));
      CALL(MPI_Get_count_c(&status, MPI_UINT64_T, &count));
      EXPECT_EQ(count, sent);
      CALL(MPI_Get_count(&status, MPI_BYTE, &narrow));
      EXPECT_EQ(narrow, MPI_UNDEFINED);
      MPI_Count wrong = 0;
      for (MPI_Count i = 0; i < sent; ++i) wrong += data[i] != (uint64_t)i * 3 + (uint64_t)round;
      EXPECT_EQ(wrong, 0);
    }
  }
  CALL(MPI_Type_free(&half));
  free(data);
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return all != 0;
}
