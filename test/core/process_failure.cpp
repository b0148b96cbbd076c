// SPDX-License-Identifier: BSD-3-Clause
// One rank is killed: every wait of the others on it ends with an error within a second, messages among the
// others still arrive, and MPI_Finalize returns. usage: process_failure OPERATION VICTIM LIFETIME_US
// [fatal]. The victim takes part in collective operations until it dies, and in no other operation.
// TEST_MEMORY=device: buffers in GPU memory.
#include <mpi.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>
#include <weft.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "stream/stream_comm.hpp"
#include "time_limit.hpp"

namespace {

using weft::test::Buffer;

constexpr int kLarge = 4 << 20, kSmall = 64, kQueueMessage = 4000;  // bytes
constexpr int kWarmUps = 20;    // collectives before the victim's life ends
constexpr double kLimit = 1.0;  // seconds from the death, or from the last success, to the error

std::unique_ptr<Buffer> in, out;
MPI_Request persistent = MPI_REQUEST_NULL;
int rank, size, victim, gpu = 0;

void die(int) { kill(getpid(), SIGKILL); }

/// Dies later, in the middle of whatever this process does.
void die_after(long microseconds) {
  itimerval life{};
  life.it_value.tv_usec = microseconds;
  signal(SIGALRM, die);
  setitimer(ITIMER_REAL, &life, nullptr);
}

int wait_for(int code, MPI_Request& request) {
  return code != MPI_SUCCESS ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/// Runs a collective once; -1: it is none.
int collective(const std::string& what, int bytes) {
  const int ints = bytes / 4, root = (victim + 1) % size;
  MPI_Comm comm = MPI_COMM_WORLD;
  MPI_Request request = MPI_REQUEST_NULL;
  if (what == "barrier") return MPI_Barrier(comm);
  if (what == "bcast") return MPI_Bcast(in->data(), bytes, MPI_CHAR, root, comm);
  if (what == "reduce") return MPI_Reduce(out->data(), in->data(), ints, MPI_INT, MPI_SUM, root, comm);
  if (what == "allreduce") return MPI_Allreduce(out->data(), in->data(), ints, MPI_INT, MPI_SUM, comm);
  if (what == "gather")
    return MPI_Gather(out->data(), ints, MPI_CHAR, in->data(), ints, MPI_CHAR, root, comm);
  if (what == "scatter")
    return MPI_Scatter(out->data(), ints, MPI_CHAR, in->data(), ints, MPI_CHAR, root, comm);
  if (what == "allgather")
    return MPI_Allgather(out->data(), ints, MPI_CHAR, in->data(), ints, MPI_CHAR, comm);
  if (what == "alltoall") return MPI_Alltoall(out->data(), ints, MPI_CHAR, in->data(), ints, MPI_CHAR, comm);
  if (what == "reduce_scatter")
    return MPI_Reduce_scatter_block(out->data(), in->data(), ints / size, MPI_INT, MPI_SUM, comm);
  if (what == "scan") return MPI_Scan(out->data(), in->data(), ints, MPI_INT, MPI_SUM, comm);
  if (what == "iallreduce")
    return wait_for(MPI_Iallreduce(out->data(), in->data(), ints, MPI_INT, MPI_SUM, comm, &request), request);
  if (what == "ialltoall")
    return wait_for(MPI_Ialltoall(out->data(), ints, MPI_CHAR, in->data(), ints, MPI_CHAR, comm, &request),
                    request);
  if (what == "persistent") {
    if (persistent == MPI_REQUEST_NULL) {
      const int made = MPI_Allreduce_init(out->data(), in->data(), ints, MPI_INT, MPI_SUM, comm,
                                          MPI_INFO_NULL, &persistent);
      if (made != MPI_SUCCESS) return made;
    }
    return wait_for(MPI_Start(&persistent), persistent);
  }
  return -1;
}

/// The victim sends to all others, which receive: it mostly dies while it writes a message.
int receive_from_victim() {
  if (rank != victim)
    return MPI_Recv(in->data(), kQueueMessage, MPI_CHAR, victim, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  int code = MPI_SUCCESS;
  for (int to = 0; to < size && code == MPI_SUCCESS; ++to)
    if (to != victim) code = MPI_Send(out->data(), kQueueMessage, MPI_CHAR, to, 1, MPI_COMM_WORLD);
  return code;
}

/// Waits for the victim, which never answers; -1: no such operation.
int point_to_point(const std::string& what) {
  MPI_Comm comm = MPI_COMM_WORLD;
  if (what == "send") return MPI_Send(out->data(), kLarge, MPI_CHAR, victim, 1, comm);
  if (what == "ssend") return MPI_Ssend(out->data(), 1, MPI_CHAR, victim, 1, comm);
  if (what == "receive") return MPI_Recv(in->data(), kLarge, MPI_CHAR, victim, 1, comm, MPI_STATUS_IGNORE);
  if (what == "any_source")
    return MPI_Recv(in->data(), kLarge, MPI_CHAR, MPI_ANY_SOURCE, 1, comm, MPI_STATUS_IGNORE);
  if (what == "probe") return MPI_Probe(victim, 1, comm, MPI_STATUS_IGNORE);
  if (what == "test") {
    MPI_Request request;
    int done = 0, code = MPI_Irecv(in->data(), kLarge, MPI_CHAR, victim, 1, comm, &request);
    while (code == MPI_SUCCESS && done == 0) code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    return code;
  }
  return -1;
}

weft::test::enqueued::StreamComm* stream = nullptr;  // never freed: a rank has failed

void create_stream() {
  weft::test::enqueued::rank = rank;
  weft::test::enqueued::ranks = size;
  weft::test::enqueued::device = gpu;
  stream = new weft::test::enqueued::StreamComm;
}

/// Enqueues an operation, then waits for the stream outside of MPI. The call after it returns the error.
int enqueued(const std::string& what) {
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS;
  if (what == "send_enqueue")
    code = MPIX_Send_enqueue(out->data(), kLarge, MPI_CHAR, victim, 1, stream->comm);
  else if (what == "recv_enqueue")
    code = MPIX_Recv_enqueue(in->data(), 8, MPI_CHAR, victim, 1, stream->comm, MPI_STATUS_IGNORE);
  else if (what == "irecv_enqueue") {
    code = MPIX_Irecv_enqueue(in->data(), kLarge, MPI_CHAR, victim, 1, stream->comm, &request);
    if (code == MPI_SUCCESS) code = MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE);
  } else if (what == "allreduce_enqueue")
    code = MPIX_Allreduce_enqueue(out->data(), in->data(), 16, MPI_INT, MPI_SUM, stream->comm);
  else
    code = MPIX_Alltoall_enqueue(out->data(), kLarge / size, MPI_CHAR, in->data(), kLarge / size, MPI_CHAR,
                                 stream->comm);
  stream->synchronize();
  return code;
}

bool is_enqueued(const std::string& what) { return what.find("enqueue") != std::string::npos; }

/// The victim never answers these.
bool is_one_sided(const std::string& what) {
  const std::string names[] = {"send", "ssend",        "receive",      "any_source",   "probe",
                               "test", "send_enqueue", "recv_enqueue", "irecv_enqueue"};
  return std::find(std::begin(names), std::end(names), what) != std::end(names);
}

/// Runs the operation once. The suffix "_large" of a collective selects large data.
int once(const std::string& what) {
  if (is_enqueued(what)) return enqueued(what);
  const size_t suffix = what.find("_large");
  int code = what == "stream" ? receive_from_victim() : point_to_point(what);
  if (code == -1) code = collective(what.substr(0, suffix), suffix == std::string::npos ? kSmall : kLarge);
  if (code != -1) return code;
  std::fprintf(stderr, "unknown operation %s\n", what.c_str());
  std::exit(2);
}

/// Returns the first error, and the time since the call before it began: a call that enqueues returns before
/// its operation ends.
int operate(const std::string& what, double& took) {
  int code = MPI_SUCCESS;
  double before = MPI_Wtime();
  for (double begin = before; code == MPI_SUCCESS;) {
    before = std::exchange(begin, MPI_Wtime());
    code = once(what);
  }
  took = MPI_Wtime() - before;
  return code;
}

/// Each survivor sends to the next one.
bool ring_of_survivors() {
  int next = (rank + 1) % size, before = (rank + size - 1) % size, number = -1;
  if (next == victim) next = (next + 1) % size;
  if (before == victim) before = (before + size - 1) % size;
  const int code = MPI_Sendrecv(&rank, 1, MPI_INT, next, 2, &number, 1, MPI_INT, before, 2, MPI_COMM_WORLD,
                                MPI_STATUS_IGNORE);
  return code == MPI_SUCCESS && number == before;
}

/// Collective kernels that the emulated GPU of this rank has run.
unsigned long kernels() {
  const char* const memory = std::getenv("TEST_MEMORY");
  if (memory == nullptr || !weft::test::cuda().emulated()) return 0;
  unsigned long timed_out = 0;
  return weft::test::cuda().collectives(&timed_out) + weft::test::cuda().direct_collectives();
}

void make_buffers() {
  const char* const memory = std::getenv("TEST_MEMORY");
  const bool on_gpu = memory != nullptr && std::string(memory) == "device";
  const auto kind = on_gpu ? Buffer::Kind::device : Buffer::Kind::host;
  if (on_gpu) gpu = weft::test::own_device();
  for (auto* buffer : {&in, &out}) {
    *buffer = std::make_unique<Buffer>(kind, kLarge, gpu);
    (*buffer)->write(std::vector<char>(kLarge));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  make_buffers();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::string what = argv[1];
  victim = std::atoi(argv[2]);
  if (argc < 5) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int i = 0; i < kWarmUps; ++i) MPI_Barrier(MPI_COMM_WORLD);
  const long lifetime = std::atol(argv[3]);
  double took = 0;
  if (is_enqueued(what)) create_stream();
  // An even life begins when the operation has all its resources, another one may end while they are made.
  for (int i = 0; lifetime % 2 == 0 && i < kWarmUps && !is_one_sided(what); ++i) once(what);
  if (rank == victim) {
    die_after(lifetime);
    if (is_one_sided(what))
      for (;;) pause();
    operate(what, took);
    return 1;
  }
  const int code = operate(what, took);
  int error_class = MPI_SUCCESS, length = 0;
  char text[MPI_MAX_ERROR_STRING];
  MPI_Error_class(code, &error_class);
  MPI_Error_string(code, text, &length);
  const bool good = error_class == MPIX_ERR_PROC_FAILED &&
                    took < weft::test::time_limit(kLimit) + static_cast<double>(lifetime) * 1e-6;
  const bool alive = ring_of_survivors();
  std::printf("%s rank %d: %s after %.3f s%s\n", good && alive ? "good" : "BAD", rank, text, took,
              alive ? "" : "; no message from the other survivors");
  if (kernels() != 0) std::printf("kernels have run\n");
  std::fflush(stdout);
  if (persistent != MPI_REQUEST_NULL) MPI_Request_free(&persistent);
  return MPI_Finalize();
}
