// SPDX-License-Identifier: BSD-3-Clause
// The survivors of one death. usage: survivors CASE. Cases: any_source, acknowledge, stopped,
// windows, created, fence, inter, detection, two. Rank 1 dies, in `two` also rank 2; in `stopped` rank 1
// stops and is continued.
#include <mpi.h>
#include <signal.h>
#include <unistd.h>
#include <weft.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

int rank, size, wrong = 0;
MPI_Comm comm;

void expect(bool good, const std::string& what) {
  if (good) return;
  ++wrong;
  std::fprintf(stderr, "rank %d: wrong: %s\n", rank, what.c_str());
}
int class_of(int code) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  return error_class;
}
void expect_class(int code, int wanted, const std::string& what) {
  expect(class_of(code) == wanted, what + ": class " + std::to_string(class_of(code)));
}
/// Of a window in which a process has died: another process may have freed it meanwhile, which revokes it.
void expect_lost(int code, const std::string& what) {
  expect_class(code, class_of(code) == MPIX_ERR_REVOKED ? MPIX_ERR_REVOKED : MPIX_ERR_PROC_FAILED, what);
}

void die_if(int victim) {
  if (rank == victim) kill(getpid(), SIGKILL);
}

/// A receive from any source stays active after the death of one process; after the acknowledgement another
/// one's message completes it.
void any_source() {
  int number = -1, done = 0, acknowledged = 0;
  MPI_Request request;
  MPI_Status status;
  if (rank == 0) MPI_Irecv(&number, 1, MPI_INT, MPI_ANY_SOURCE, 5, comm, &request);
  MPI_Barrier(MPI_COMM_WORLD);
  die_if(1);
  if (rank == 0) {
    expect_class(MPI_Wait(&request, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED_PENDING, "first wait");
    expect(request != MPI_REQUEST_NULL, "the request is still there");
    expect_class(MPI_Test(&request, &done, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED_PENDING, "test");
    const int blocking = MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, 6, comm, MPI_STATUS_IGNORE);
    expect_class(blocking, MPIX_ERR_PROC_FAILED, "blocking receive");
    MPI_Request both;
    MPI_Isendrecv(nullptr, 0, MPI_INT, MPI_PROC_NULL, 6, &number, 1, MPI_INT, MPI_ANY_SOURCE, 6, comm, &both);
    expect_class(MPI_Wait(&both, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED, "send and receive");
    expect(both == MPI_REQUEST_NULL, "send and receive have ended");
    MPI_Request later;
    MPI_Irecv(&number, 1, MPI_INT, MPI_ANY_SOURCE, 6, comm, &later);
    expect_class(MPI_Waitall(1, &later, &status), MPI_ERR_IN_STATUS, "waitall");
    expect_class(status.MPI_ERROR, MPIX_ERR_PROC_FAILED_PENDING, "code in the status");
    MPI_Cancel(&later);
    expect_class(MPI_Wait(&later, &status), MPI_SUCCESS, "wait for the cancelled receive");
    MPI_Test_cancelled(&status, &done);
    expect(done != 0, "the receive was cancelled");
    expect_class(MPIX_Comm_ack_failed(comm, size, &acknowledged), MPI_SUCCESS, "ack_failed");
    expect(acknowledged == 1, "one acknowledged failure");
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    expect(done == 0, "nobody has sent yet");
    MPI_Send(&rank, 1, MPI_INT, 2, 7, comm);
    expect_class(MPI_Wait(&request, &status), MPI_SUCCESS, "wait after the acknowledgement");
    expect(number == 42 && status.MPI_SOURCE == 2, "the message of rank 2");
  } else if (rank == 2) {
    MPI_Recv(&number, 1, MPI_INT, 0, 7, comm, MPI_STATUS_IGNORE);
    number = 42;
    MPI_Send(&number, 1, MPI_INT, 0, 5, comm);
  }
}

/// Agreements fail until all have acknowledged the failure.
void acknowledge() {
  die_if(1);
  int flag = rank == 0 ? 6 : 3, acknowledged = -1;
  expect_class(MPIX_Comm_agree(comm, &flag), MPIX_ERR_PROC_FAILED, "agree");
  expect(flag == (size > 2 ? 2 : 6), "agreed flag in spite of the failure");
  MPI_Group failed, group;
  MPIX_Comm_get_failed(comm, &failed);
  int members = 0, number = 0, of_comm = -1;
  MPI_Group_size(failed, &members);
  MPI_Comm_group(comm, &group);
  if (members == 1) MPI_Group_translate_ranks(failed, 1, &number, group, &of_comm);
  expect(members == 1 && of_comm == 1, "the group of failed processes");
  flag = 1;
  if (rank == 0) MPIX_Comm_ack_failed(comm, size, &acknowledged);
  if (size > 2)
    expect_class(MPIX_Comm_agree(comm, &flag), MPIX_ERR_PROC_FAILED, "agree, not acknowledged by all");
  MPIX_Comm_failure_ack(comm);
  expect_class(MPIX_Comm_agree(comm, &flag), MPI_SUCCESS, "agree, acknowledged by all");
  MPI_Group acked;
  MPIX_Comm_failure_get_acked(comm, &acked);
  int result = MPI_UNEQUAL;
  MPI_Group_compare(acked, failed, &result);
  expect(result == MPI_IDENT, "acknowledged group");
  MPI_Group_free(&acked);
  MPI_Group_free(&failed);
  MPI_Group_free(&group);
}

/// A process that is stopped for a second is not declared dead.
void stopped() {
  if (rank == 1) {
    if (fork() == 0) {
      usleep(1'000'000);
      kill(getppid(), SIGCONT);
      _exit(0);
    }
    kill(getpid(), SIGSTOP);
  }
  int flag = 1;
  expect_class(MPIX_Comm_agree(comm, &flag), MPI_SUCCESS, "agree with a stopped process");
  expect_class(MPI_Barrier(comm), MPI_SUCCESS, "barrier");
  MPI_Group failed;
  MPIX_Comm_get_failed(comm, &failed);
  int result = MPI_UNEQUAL;
  MPI_Group_compare(failed, MPI_GROUP_EMPTY, &result);
  expect(result == MPI_IDENT, "nobody has failed");
  MPI_Group_free(&failed);
}

void windows() {
  MPI_Win win;
  int* base = nullptr;
  MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &base, &win);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  MPI_Win_fence(0, win);
  die_if(1);
  expect_lost(MPI_Win_fence(0, win), "fence");
  int members = 0;
  while (members == 0) {  // the news of a revocation may come first
    MPI_Group failed;
    MPIX_Win_get_failed(win, &failed);
    MPI_Group_size(failed, &members);
    MPI_Group_free(&failed);
  }
  expect(members == 1, "failed process of a window");
  expect_lost(MPI_Win_free(&win), "free of the window");
  expect(win == MPI_WIN_NULL, "the window is gone");
}

/// A process dies while the others operate on its memory, which it alone maps, and while it polls.
void created() {
  constexpr int kDead = 1, kLarge = 1 << 18;
  MPI_Win win;
  static int memory[kLarge], data[kLarge];
  MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, comm, &win);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  MPI_Win_lock_all(0, win);
  MPI_Barrier(comm);
  const double end = MPI_Wtime() + 0.05;
  while (rank == kDead && MPI_Wtime() < end) {
    int flag = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, 1, comm, &flag, MPI_STATUS_IGNORE);
  }
  die_if(kDead);
  const int one = 1;
  int found = 0, outcome = MPI_SUCCESS;
  for (int i = 0; outcome == MPI_SUCCESS; ++i) {
    if (i % 3 == 0) outcome = MPI_Fetch_and_op(&one, &found, MPI_INT, kDead, 0, MPI_SUM, win);
    if (i % 3 == 1) outcome = MPI_Put(&one, 1, MPI_INT, kDead, 8, 1, MPI_INT, win);
    if (i % 3 == 2) outcome = MPI_Get(data, kLarge, MPI_INT, kDead, 0, kLarge, MPI_INT, win);
    const int flushed = MPI_Win_flush(kDead, win);
    if (outcome == MPI_SUCCESS) outcome = flushed;
  }
  expect_class(outcome, MPIX_ERR_PROC_FAILED, "operation on the dead process");
  expect_class(MPI_Accumulate(&one, 1, MPI_INT, 0, 4, 1, MPI_INT, MPI_SUM, win), MPI_SUCCESS, "accumulate");
  expect_class(MPI_Win_flush(0, win), MPI_SUCCESS, "flush of a living process");
  MPI_Comm living;
  MPIX_Comm_shrink(comm, &living);
  MPI_Barrier(living);
  if (rank == 0) expect(memory[1] == size - 1, "sum of the survivors");
  MPI_Comm_free(&living);
  (void)MPI_Win_unlock_all(win);
  expect_lost(MPI_Win_free(&win), "free of the window");
}

/// A get from a process that makes no progress has ended when the fence returns its error: nothing writes to
/// its buffer afterwards.
void fence() {
  constexpr int kTarget = 2, kValue = 5, kLater = 7;
  static int memory = kValue, data = 0;
  MPI_Win win;
  MPI_Win_create(&memory, sizeof memory, 1, MPI_INFO_NULL, comm, &win);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  MPI_Win_fence(0, win);
  if (rank == 0) expect_class(MPI_Get(&data, 1, MPI_INT, kTarget, 0, 1, MPI_INT, win), MPI_SUCCESS, "get");
  if (rank == 1) usleep(50'000);  // the others have left the first fence
  die_if(1);
  if (rank == kTarget) usleep(300'000);
  expect_lost(MPI_Win_fence(0, win), "fence");
  data = kLater;
  expect_lost(MPI_Win_free(&win), "free of the window");
  expect(data == kLater, "a get wrote to its buffer after the fence");
}

/// A process dies with an exclusive lock on rank 0, a shared lock on rank 2 and ones on itself; the others
/// get these locks, but not that of the dead process.
void locks() {
  MPI_Win win;
  int* base = nullptr;
  const int dead = 1;
  MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &base, &win);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  *base = 0;
  MPI_Barrier(comm);
  if (rank == dead) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Win_lock(MPI_LOCK_SHARED, 2, 0, win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, dead, 0, win);
  }
  MPI_Barrier(comm);
  if (rank == dead) usleep(50'000);  // the others wait
  die_if(dead);
  for (const int target : {0, 2}) {
    const int one = 1;
    expect_class(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win), MPI_SUCCESS, "lock");
    expect_class(MPI_Accumulate(&one, 1, MPI_INT, target, 0, 1, MPI_INT, MPI_SUM, win), MPI_SUCCESS,
                 "accumulate");
    expect_class(MPI_Win_unlock(target, win), MPI_SUCCESS, "unlock");
  }
  expect_class(MPI_Barrier(comm), MPIX_ERR_PROC_FAILED, "barrier");  // everybody knows now
  expect_class(MPI_Win_lock(MPI_LOCK_SHARED, dead, 0, win), MPIX_ERR_PROC_FAILED, "lock of the dead process");
  expect_class(MPI_Win_lock_all(0, win), MPIX_ERR_PROC_FAILED, "lock_all with a dead process");
  MPI_Comm living;
  MPIX_Comm_shrink(comm, &living);
  MPI_Barrier(living);
  MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
  if (rank == 0 || rank == 2) expect(*base == size - 1, "sum of the survivors");
  MPI_Win_unlock(rank, win);
  MPI_Comm_free(&living);
  expect_lost(MPI_Win_free(&win), "free of the window");
}

/// Both sides of an intercommunicator go on without the dead process.
void inter() {
  MPI_Comm half, both, smaller;
  const int upper = rank >= size / 2 ? 1 : 0;
  MPI_Comm_split(comm, upper, rank, &half);
  MPI_Intercomm_create(half, 0, comm, upper != 0 ? 0 : size / 2, 1, &both);
  MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN);
  die_if(1);
  int flag = 1, here = 0, there = 0, sum = 0;
  const int one = 1;
  expect_class(MPIX_Comm_agree(both, &flag), MPIX_ERR_PROC_FAILED, "agree");
  expect_class(MPIX_Comm_shrink(both, &smaller), MPI_SUCCESS, "shrink");
  MPI_Comm_size(smaller, &here);
  MPI_Comm_remote_size(smaller, &there);
  expect(here + there == size - 1, "sizes after shrink");
  expect_class(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, smaller), MPI_SUCCESS, "allreduce");
  expect(sum == there, "sum of the remote group");
  for (MPI_Comm* used : {&half, &both, &smaller}) MPI_Comm_free(used);
}

/// Blocked processes notice the death within 100 ms.
void detection() {
  double death = 0;
  int byte = 0;
  if (rank == 1) death = MPI_Wtime() + 0.1;
  MPI_Bcast(&death, 1, MPI_DOUBLE, 1, comm);
  while (rank == 1 && MPI_Wtime() < death) {
  }
  die_if(1);
  expect_class(MPI_Recv(&byte, 1, MPI_BYTE, 1, 1, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED, "receive");
  const double took = MPI_Wtime() - death;
  double load = 0;
  getloadavg(&load, 1);
  expect(took < 0.1 * (1 + load), "noticed after " + std::to_string(took) + " s");
}

void two() {
  die_if(1);
  if (rank == 2) usleep(20'000);
  die_if(2);
  MPI_Comm smaller = MPI_COMM_NULL, last;
  int members = 0;
  MPIX_Comm_shrink(comm, &smaller);
  MPI_Barrier(smaller);
  MPIX_Comm_revoke(smaller);
  MPIX_Comm_shrink(smaller, &last);
  MPI_Comm_size(last, &members);
  expect(members == size - 2, "two processes are missing");
  expect_class(MPI_Barrier(last), MPI_SUCCESS, "barrier of the last communicator");
  MPI_Comm_free(&smaller);
  MPI_Comm_free(&last);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Barrier(comm);
  const std::string what = argc > 1 ? argv[1] : "";
  const struct {
    const char* name;
    void (*run)();
  } cases[] = {{"any_source", any_source},
               {"acknowledge", acknowledge},
               {"stopped", stopped},
               {"windows", windows},
               {"inter", inter},
               {"detection", detection},
               {"two", two},
               {"locks", locks},
               {"created", created},
               {"fence", fence}};
  for (const auto& one : cases)
    if (what == one.name) one.run();
  if (wrong == 0) std::printf("good rank %d\n", rank);
  std::fflush(stdout);
  MPI_Comm_free(&comm);
  return MPI_Finalize();
}
