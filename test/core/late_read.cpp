// SPDX-License-Identifier: BSD-3-Clause
// The sender of a large message is killed after its RTS has arrived: before the receive is posted, or while
// the receiver copies. The receive ends with an error within a second. usage: late_read late|middle SENDER
// RECEIVER; SENDER, RECEIVER: memory of their buffers, host or device. Two ranks; rank 1 sends.
#include <mpi.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>
#include <weft.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include "../device/cuda_test_support.hpp"

namespace {

using weft::test::Buffer;

constexpr int kInts = 16 << 20;  // of a message: takes some 10 ms to copy
constexpr double kLimit = 1.0;   // seconds

Buffer::Kind kind_of(const std::string& name) {
  return name == "device" ? Buffer::Kind::device : Buffer::Kind::host;
}

pid_t sender = 0;

void kill_sender(int = 0) { kill(sender, SIGKILL); }

/// Kills the sender later, in the middle of a copy.
void kill_sender_after(double seconds) {
  itimerval timer{};
  timer.it_value.tv_usec = std::max<suseconds_t>(1, static_cast<suseconds_t>(seconds * 1e6));
  signal(SIGALRM, kill_sender);
  setitimer(ITIMER_REAL, &timer, nullptr);
}

/// Sends twice. The pid, sent between the RTS of both messages, tells that the second RTS follows at once.
int send(Buffer& buffer) {
  int pid = getpid();
  MPI_Request requests[2];
  for (int message = 0; message < 2; ++message) {
    MPI_Isend(buffer.data(), kInts, MPI_INT, 0, message, MPI_COMM_WORLD, &requests[message]);
    MPI_Send(&pid, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
  }
  return MPI_Waitall(2, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS ? 1 : 2;
}

/// Receives into blocks of one int, which the kernel cannot scatter in one call, or into device memory.
int receive(Buffer& buffer, bool device, int message) {
  MPI_Datatype blocks;
  MPI_Type_vector(kInts, 1, 2, MPI_INT, &blocks);
  MPI_Type_commit(&blocks);
  const int code =
      device ? MPI_Recv(buffer.data(), kInts, MPI_INT, 1, message, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
             : MPI_Recv(buffer.data(), 1, blocks, 1, message, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Type_free(&blocks);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string when = argv[1];
  MPI_Init(&argc, &argv);
  int rank = 0, pid = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const size_t bytes = sizeof(int) * kInts;
  Buffer buffer(kind_of(argv[2 + (rank == 0)]), rank == 0 ? 2 * bytes : bytes, 0);
  buffer.write(std::vector<char>(buffer.size(), 1));
  if (rank == 1) return send(buffer);

  const bool device = std::string(argv[3]) == "device";
  MPI_Recv(&pid, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  double begin = MPI_Wtime();
  const int first = receive(buffer, device, 0);
  const double duration = MPI_Wtime() - begin;
  MPI_Recv(&pid, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  sender = pid;
  if (when == "middle") {
    kill_sender_after(duration / 4);
  } else {
    kill_sender();
    while (kill(sender, 0) == 0 || errno != ESRCH) usleep(1000);
  }
  begin = MPI_Wtime();
  const int code = receive(buffer, device, 1);
  const double took = MPI_Wtime() - begin;
  int error_class = MPI_SUCCESS;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_class(code, &error_class);
  MPI_Error_string(code, text, &length);
  const bool good = first == MPI_SUCCESS && error_class == MPIX_ERR_PROC_FAILED && took < kLimit + duration;
  std::printf("%s: %s after %.3f s (the message before: %.3f s)\n", good ? "good" : "BAD", text, took,
              duration);
  std::fflush(stdout);
  return MPI_Finalize();
}
