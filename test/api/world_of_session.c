// SPDX-License-Identifier: BSD-3-Clause
// MPI_COMM_WORLD and MPI_COMM_SELF of programs that call MPI_Session_init but not MPI_Init, an extension.
// usage: world_of_session only|init
#include "../core/expect.h"

static MPI_Session open_session(void) {
  MPI_Session session = MPI_SESSION_NULL;
  CALL(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
  return session;
}

static void use(MPI_Comm comm) {
  int rank = -1, size = -1, sum = -1, from = -1, one = 1;
  CALL(MPI_Comm_rank(comm, &rank));
  CALL(MPI_Comm_size(comm, &size));
  CALL(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
  EXPECT_EQ(sum, size);
  CALL(MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 3, &from, 1, MPI_INT, (rank + size - 1) % size, 3,
                    comm, MPI_STATUS_IGNORE));
  EXPECT_EQ(from, (rank + size - 1) % size);
  CALL(MPI_Barrier(comm));
}

int main(int argc, char** argv) {
  const int with_init = strcmp(argv[1], "init") == 0;
  int flag = 1, size;
  for (int n = 0; n < 2; ++n) {
    MPI_Session session = open_session();
    use(MPI_COMM_SELF);
    use(MPI_COMM_WORLD);
    use(MPI_COMM_SELF);
    CALL(MPI_Session_finalize(&session));
  }
  MPI_Initialized(&flag);
  EXPECT_EQ(flag, 0);
  MPI_Session outer = open_session();
  use(MPI_COMM_WORLD);
  if (with_init) {
    CALL(MPI_Init(&argc, &argv));
    use(MPI_COMM_WORLD);
    CALL(MPI_Finalize());
    EXPECT_ERROR(MPI_ERR_COMM, MPI_Comm_size(MPI_COMM_WORLD, &size));
  }
  CALL(MPI_Session_finalize(&outer));
  return failures != 0;
}
