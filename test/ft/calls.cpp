// SPDX-License-Identifier: BSD-3-Clause
// Fault tolerance without failures: agreements, shrinks, revocation of communicators, windows and files. All
// waits on a revoked communicator end with MPIX_ERR_REVOKED within milliseconds.
#include <mpi.h>
#include <unistd.h>
#include <weft.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "time_limit.hpp"

namespace {

int rank, size, failures = 0;
constexpr int kLarge = 4 << 20;   // bytes: rendezvous
constexpr double kLimit = 0.010;  // seconds from a revocation to the end of a wait elsewhere

void expect(bool good, const std::string& what) {
  if (good) return;
  ++failures;
  std::fprintf(stderr, "rank %d: wrong: %s\n", rank, what.c_str());
}

int class_of(int code) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  return error_class;
}
void expect_class(int code, int wanted, const std::string& what) {
  expect(class_of(code) == wanted, what + " returned class " + std::to_string(class_of(code)));
}
void expect_revoked(int code, const std::string& what) { expect_class(code, MPIX_ERR_REVOKED, what); }

MPI_Comm duplicate(MPI_Comm comm) {
  MPI_Comm made;
  MPI_Comm_dup(comm, &made);
  MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  return made;
}

void test_agreements(MPI_Comm comm) {
  for (int round = 0; round < 20; ++round) {
    int flag = ~(1 << (rank + round) % 31), wanted = -1;
    int members = 0;
    MPI_Comm_size(comm, &members);
    for (int other = 0; other < size; ++other) wanted &= ~(1 << (other + round) % 31);
    expect_class(MPIX_Comm_agree(comm, &flag), MPI_SUCCESS, "agree");
    expect(flag == wanted, "agreed flag");
  }
  // Several at a time; they complete in any order.
  int flags[3] = {rank == 0 ? 5 : 7, 9, rank};
  MPI_Request requests[3];
  for (int i = 0; i < 3; ++i) MPIX_Comm_iagree(comm, &flags[i], &requests[i]);
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  expect(flags[0] == (5 & 7) && flags[1] == 9 && flags[2] == 0, "agreed flags");
}

/// Agreements go on after rank 0 alone has made so many communicators that their states are not all kept.
void test_many_communicators(MPI_Comm comm) {
  int flag = 3;
  expect_class(MPIX_Comm_agree(comm, &flag), MPI_SUCCESS, "agree before");
  for (int i = 0; i < 1100 && rank == 0; ++i) {
    MPI_Comm own = duplicate(MPI_COMM_SELF);
    expect_class(MPIX_Comm_agree(own, &flag), MPI_SUCCESS, "agree alone");
    MPI_Comm_free(&own);
  }
  flag = rank == 0 ? 5 : 7;
  expect_class(MPIX_Comm_agree(comm, &flag), MPI_SUCCESS, "agree afterwards");
  expect(flag == (5 & (size > 1 ? 7 : 5)), "agreed flag afterwards");
}

void test_shrink(MPI_Comm comm) {
  MPI_Comm made[2];
  MPI_Request request;
  expect_class(MPIX_Comm_shrink(comm, &made[0]), MPI_SUCCESS, "shrink");
  expect_class(MPIX_Comm_ishrink(comm, &made[1], &request), MPI_SUCCESS, "ishrink");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (MPI_Comm& child : made) {
    int result = MPI_UNEQUAL, sum = 0, inter = 0;
    MPI_Comm_compare(comm, child, &result);
    expect(result == MPI_CONGRUENT, "group after shrink");
    MPI_Comm_test_inter(child, &inter);
    int members = 0;
    inter != 0 ? MPI_Comm_remote_size(child, &members) : MPI_Comm_size(child, &members);
    const int one = 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, child);
    expect(sum == members, "allreduce after shrink");
    MPI_Comm_free(&child);
  }
}

void test_failed_groups(MPI_Comm comm) {
  MPI_Group group;
  int acknowledged = -1, result = MPI_UNEQUAL;
  for (auto* get : {MPIX_Comm_get_failed, MPIX_Comm_failure_get_acked}) {
    expect_class(get(comm, &group), MPI_SUCCESS, "group of failed processes");
    MPI_Group_compare(group, MPI_GROUP_EMPTY, &result);
    expect(result == MPI_IDENT, "no process has failed");
    MPI_Group_free(&group);
  }
  MPIX_Comm_failure_ack(comm);
  MPIX_Comm_ack_failed(comm, size, &acknowledged);
  expect(acknowledged == 0, "nothing to acknowledge");
}

std::vector<char> in(kLarge), out(kLarge);

struct Wait {
  const char* name;
  std::function<int(MPI_Comm)> run;  // waits for rank 0, which never answers
};

/// Sends a block of `bytes` bytes to each rank.
int alltoallv(MPI_Comm comm, int bytes) {
  int ranks;
  MPI_Comm_size(comm, &ranks);
  std::vector<int> counts, places;
  for (int peer = 0; peer < ranks; ++peer) {
    counts.push_back(bytes);
    places.push_back(peer * bytes);
  }
  return MPI_Alltoallv(out.data(), counts.data(), places.data(), MPI_CHAR, in.data(), counts.data(),
                       places.data(), MPI_CHAR, comm);
}

int wait_for(int code, MPI_Request* request) {
  return code != MPI_SUCCESS ? code : MPI_Wait(request, MPI_STATUS_IGNORE);
}

const std::vector<Wait> waits = {
    {"recv",
     [](MPI_Comm comm) { return MPI_Recv(in.data(), kLarge, MPI_CHAR, 0, 1, comm, MPI_STATUS_IGNORE); }},
    {"recv from any source",
     [](MPI_Comm comm) {
       return MPI_Recv(in.data(), 8, MPI_CHAR, MPI_ANY_SOURCE, 1, comm, MPI_STATUS_IGNORE);
     }},
    {"irecv",
     [](MPI_Comm comm) {
       MPI_Request request = MPI_REQUEST_NULL;
       return wait_for(MPI_Irecv(in.data(), 8, MPI_CHAR, 0, 1, comm, &request), &request);
     }},
    {"send", [](MPI_Comm comm) { return MPI_Send(out.data(), kLarge, MPI_CHAR, 0, 1, comm); }},
    {"ssend", [](MPI_Comm comm) { return MPI_Ssend(out.data(), 1, MPI_CHAR, 0, 1, comm); }},
    {"probe", [](MPI_Comm comm) { return MPI_Probe(0, 1, comm, MPI_STATUS_IGNORE); }},
    {"mprobe",
     [](MPI_Comm comm) {
       MPI_Message message;
       return MPI_Mprobe(MPI_ANY_SOURCE, 1, comm, &message, MPI_STATUS_IGNORE);
     }},
    {"test",
     [](MPI_Comm comm) {
       MPI_Request request = MPI_REQUEST_NULL;
       int done = 0, code = MPI_Irecv(in.data(), 8, MPI_CHAR, 0, 1, comm, &request);
       while (code == MPI_SUCCESS && done == 0) code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
       return code;
     }},
    {"barrier", [](MPI_Comm comm) { return MPI_Barrier(comm); }},
    {"bcast", [](MPI_Comm comm) { return MPI_Bcast(in.data(), 100, MPI_CHAR, 0, comm); }},
    {"allreduce",
     [](MPI_Comm comm) { return MPI_Allreduce(out.data(), in.data(), 16, MPI_INT, MPI_SUM, comm); }},
    {"large allreduce",
     [](MPI_Comm comm) { return MPI_Allreduce(out.data(), in.data(), kLarge / 4, MPI_INT, MPI_SUM, comm); }},
    {"alltoall",
     [](MPI_Comm comm) { return MPI_Alltoall(out.data(), 1000, MPI_CHAR, in.data(), 1000, MPI_CHAR, comm); }},
    {"alltoallv", [](MPI_Comm comm) { return alltoallv(comm, 1000); }},
    {"large alltoallv", [](MPI_Comm comm) { return alltoallv(comm, kLarge / 16); }},
    {"iallreduce",
     [](MPI_Comm comm) {
       MPI_Request request = MPI_REQUEST_NULL;
       return wait_for(MPI_Iallreduce(out.data(), in.data(), 16, MPI_INT, MPI_SUM, comm, &request), &request);
     }},
    {"dup",
     [](MPI_Comm comm) {
       MPI_Comm made;
       return MPI_Comm_dup(comm, &made);
     }},
    {"split",
     [](MPI_Comm comm) {
       MPI_Comm made;
       return MPI_Comm_split(comm, 0, rank, &made);
     }},
};

/// Longer where ranks share the cores.
double limit() {
  const double cores = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  return weft::test::time_limit(kLimit * std::max(1.0, 4 * size / cores));
}

/// Rank 0 revokes a communicator on which the others wait for it.
void test_revocation(const Wait& wait, int warm_up) {
  MPI_Comm comm = duplicate(MPI_COMM_WORLD);
  for (int i = 0; i < warm_up; ++i) MPI_Barrier(comm);
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = 0, end = 0;
  int flag = 1;
  if (rank == 0) {
    begin = MPI_Wtime() + 0.003;
    while (MPI_Wtime() < begin) MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    begin = MPI_Wtime();
    MPIX_Comm_revoke(comm);
  } else {
    expect_revoked(wait.run(comm), wait.name);
    end = MPI_Wtime();
  }
  MPI_Bcast(&begin, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (rank != 0)
    expect(end - begin < limit(), std::string(wait.name) + " took " + std::to_string(end - begin) + " s");
  MPIX_Comm_is_revoked(comm, &flag);
  expect(flag == 1, "the communicator is revoked");
  expect_revoked(MPI_Send(nullptr, 0, MPI_CHAR, MPI_PROC_NULL, 1, comm), "send to MPI_PROC_NULL");
  expect_revoked(MPI_Send(out.data(), 8, MPI_CHAR, (rank + 1) % size, 1, comm), "send afterwards");
  expect_revoked(MPI_Recv(in.data(), 8, MPI_CHAR, 0, 1, comm, MPI_STATUS_IGNORE), "recv afterwards");
  expect_revoked(MPI_Barrier(comm), "barrier afterwards");
  flag = rank == 0 ? 3 : 1;
  expect_class(MPIX_Comm_agree(comm, &flag), MPI_SUCCESS, "agree on a revoked communicator");
  expect(flag == (size > 1 ? 1 : 3), "flag of a revoked communicator");
  MPI_Comm next;
  expect_class(MPIX_Comm_shrink(comm, &next), MPI_SUCCESS, "shrink of a revoked communicator");
  expect_class(MPI_Barrier(next), MPI_SUCCESS, "barrier after shrink");
  MPI_Comm_free(&next);
  MPI_Comm_free(&comm);
}

/// A communicator that a fast rank revokes at once, while others still make it.
void test_early_revocation() {
  for (int round = 0; round < 20; ++round) {
    MPI_Comm comm = duplicate(MPI_COMM_WORLD);
    if (rank == round % size) MPIX_Comm_revoke(comm);
    int flag = 1;
    MPIX_Comm_agree(comm, &flag);
    if (size > 1) MPI_Barrier(MPI_COMM_WORLD);
    const double end = MPI_Wtime() + 1;
    do MPIX_Comm_is_revoked(comm, &flag);
    while (flag == 0 && MPI_Wtime() < end);
    expect(flag == 1, "revoked while it was made");
    MPI_Comm_free(&comm);
  }
}

void test_windows_and_files() {
  MPI_Win win;
  int* base = nullptr;
  int flag = 0;
  MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0)
    MPIX_Win_revoke(win);
  else
    expect_revoked(MPI_Win_fence(0, win), "fence");
  MPIX_Win_is_revoked(win, &flag);
  expect(flag == 1, "the window is revoked");
  MPI_Group group;
  expect_class(MPIX_Win_get_failed(win, &group), MPI_SUCCESS, "failed processes of a window");
  MPI_Group_free(&group);
  expect_revoked(MPI_Win_free(&win), "free of the window");
  expect(win == MPI_WIN_NULL, "the window is gone");
  MPI_File file;
  char name[] = "/tmp/weft_ft_XXXXXX";
  if (rank == 0) close(mkstemp(name));
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0)
    MPIX_File_revoke(file);
  else
    expect_revoked(MPI_File_write_at_all(file, rank * 8, out.data(), 8, MPI_CHAR, MPI_STATUS_IGNORE),
                   "write");
  MPIX_File_is_revoked(file, &flag);
  expect(flag == 1, "the file is revoked");
  expect_revoked(MPI_File_close(&file), "close");
  expect(file == MPI_FILE_NULL, "the file is closed");
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) unlink(name);
}

void test_intercommunicator() {
  MPI_Comm half, inter;
  const int upper = rank >= size / 2 ? 1 : 0;
  MPI_Comm_split(MPI_COMM_WORLD, upper, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, upper != 0 ? 0 : size / 2, 1, &inter);
  MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
  test_agreements(inter);
  test_shrink(inter);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) MPIX_Comm_revoke(inter);
  if (rank != 0) expect_revoked(MPI_Barrier(inter), "barrier of an intercommunicator");
  int flag = rank;
  expect_class(MPIX_Comm_agree(inter, &flag), MPI_SUCCESS, "agree on a revoked intercommunicator");
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  // UCX 1.13 may crash when two processes make their first sockets to each other at the same time.
  MPI_Alltoall(out.data(), 8, MPI_CHAR, in.data(), 8, MPI_CHAR, MPI_COMM_WORLD);
  MPI_Comm comm = duplicate(MPI_COMM_WORLD);
  test_agreements(comm);
  test_agreements(MPI_COMM_WORLD);
  test_many_communicators(MPI_COMM_WORLD);
  test_shrink(comm);
  test_failed_groups(comm);
  MPI_Comm_free(&comm);
  for (const Wait& wait : waits) test_revocation(wait, 0);
  for (const Wait& wait : waits) test_revocation(wait, 20);
  test_early_revocation();
  if (size > 1) {
    test_windows_and_files();
    test_intercommunicator();
  }
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
