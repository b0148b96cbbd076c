// SPDX-License-Identifier: BSD-3-Clause
// cuMemMap memory: messages that span its allocations, allocations exchanged under a buffer, and memory that
// cannot be shared; no stale data, no leaked descriptors.
// Usage: device_mapped [few|sent|refused|off|long]: caches smaller than the working set; odd ranks may not
// duplicate descriptors, so peers send them; the same without a socket; mapping disabled; long.
#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mpi.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "device/mpi_main.hpp"

namespace {

using weft::test::Buffer;
using weft::test::cuda;
using Kind = Buffer::Kind;

constexpr size_t kAllocation = 2 << 20;
constexpr unsigned kGetfd = 438;  // pidfd_getfd

int rank = 0, ranks = 0, failures = 0, gpu = 0;
bool maps = true;  // this rank can map the memory of others
bool few = false;
int short_lived = 20;  // rounds

void expect(bool good, const std::string& what) {
  if (good) return;
  ++failures;
  std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
}

std::vector<char> pattern(size_t n, int of, int round) {
  return weft::test::pattern(n, static_cast<unsigned>(round * 64 + of));
}

/// Number of peers' allocations mapped here so far; counted by the emulated driver only.
unsigned long imports() { return cuda().emulated() ? cuda().calls("cuMemImportFromShareableHandle") : 0; }

size_t descriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  size_t count = 0;
  while (folder != nullptr && ::readdir(folder.get()) != nullptr) ++count;
  return count;
}

/// Around the ring, `shift` bytes into both buffers. In odd rounds the receive is posted first.
void pass(const Buffer& out, const Buffer& in, size_t shift, size_t n, int round) {
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks, count = static_cast<int>(n);
  MPI_Request request;
  if (round % 2 == 0) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Irecv(in.data() + shift, count, MPI_BYTE, left, 1, MPI_COMM_WORLD, &request);
  if (round % 2 == 1) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Send(out.data() + shift, count, MPI_BYTE, right, 1, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/// Around the ring; every receive is posted after its message was sent, so that every rank gets one.
void get_late(const Buffer& out, const Buffer& in, int n) {
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  MPI_Request request;
  MPI_Isend(out.data(), n, MPI_BYTE, right, 1, MPI_COMM_WORLD, &request);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Recv(in.data(), n, MPI_BYTE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void check(Buffer& out, const Buffer& in, size_t shift, size_t n, int round, const std::string& what) {
  out.write(pattern(n, rank, round), shift);
  pass(out, in, shift, n, round);
  expect(in.read(shift, n) == pattern(n, (rank + ranks - 1) % ranks, round),
         what + ", round " + std::to_string(round));
}

/// Small and large messages alternating, from the same address: each run of allocations is mapped once, for
/// gets and for puts.
void spans() {
  constexpr size_t kSize = 3 * kAllocation;
  constexpr unsigned long kRuns = 1 + 3 + 2 + 1;  // allocations of the four runs below
  Buffer out(Kind::mapped, kSize, gpu), in(Kind::mapped, kSize, gpu);
  const size_t edge = kAllocation - 100;
  for (int round = 0; round < 6; ++round) {
    check(out, in, 0, 1000, round, "in the first allocation");
    check(out, in, 0, kSize, round, "over three");
    check(out, in, edge, kAllocation, round, "over two");
    check(out, in, kAllocation + 100, 64 << 10, round, "in the second or the third");
  }
  get_late(out, in, 1000);
  if (!cuda().emulated()) return;
  if (!few) expect(imports() <= 4 * kRuns, "mapped " + std::to_string(imports()) + " times");
  expect((imports() != 0) == maps, maps ? "nothing was mapped" : "something was mapped");
}

/// Both buffers of an exchange reuse the addresses of earlier ones.
void replaced() {
  constexpr size_t kSize = 3 * kAllocation;
  Buffer out(Kind::mapped, kSize, gpu), in(Kind::mapped, kSize, gpu);
  for (int round = 0; round < 8; ++round) {
    check(out, in, 0, kSize, round, "exchanged allocations");
    check(out, in, kAllocation / 2, 5000, round, "exchanged allocations, small");
    Buffer& turn = round % 3 == 0 ? out : in;
    turn.replace(static_cast<size_t>(round) % 3, round % 4 != 3);
    if (round % 5 == 0) out.replace(1, true);
  }
}

void unshared() {
  constexpr size_t kSize = kAllocation + 4096;
  const unsigned long before = imports();
  Buffer out(Kind::unshared, kSize, gpu), in(Kind::unshared, kSize, gpu);
  for (int round = 0; round < 4; ++round) {
    check(out, in, 0, kSize, round, "not shareable");
    check(out, in, 0, 3000, round, "not shareable, small");
  }
  expect(imports() == before, "unshareable memory was mapped");
}

/// Buffers used for one message each.
void churn() {
  size_t early = 0;
  for (int round = 0; round < short_lived; ++round) {
    const size_t size = static_cast<size_t>(round % 3 + 1) * 700'000;
    Buffer out(round % 7 == 0 ? Kind::unshared : Kind::mapped, size, gpu), in(Kind::mapped, size, gpu);
    check(out, in, 0, size, round, "short-lived");
    if (round == 10) early = descriptors();
  }
  const size_t late = descriptors();
  expect(late <= early + 8, "descriptors: " + std::to_string(early) + ", then " + std::to_string(late));
}

/// Both sides release unmapped memory during any MPI call, without another GPU message.
void released() {
  const size_t before = descriptors();
  {
    Buffer out(Kind::mapped, 3 * kAllocation, gpu), in(Kind::mapped, 3 * kAllocation, gpu);
    check(out, in, 0, out.size(), 0, "before it is unmapped");
  }
  const double end = MPI_Wtime() + 20;
  int held = 1, any = 1;
  while (any != 0 && MPI_Wtime() < end) {
    held = descriptors() > before ? 1 : 0;
    MPI_Allreduce(&held, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  }
  expect(held == 0, "memory that was unmapped is still held");
}

void window() {
  constexpr int kWindow = 40, kEach = 50'000;
  Buffer out(Kind::mapped, size_t{kWindow} * kEach, gpu), in(Kind::mapped, size_t{kWindow} * kEach, gpu);
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  for (int round = 0; round < 4; ++round) {
    out.write(pattern(out.size(), rank, round));
    std::vector<MPI_Request> requests(2 * kWindow);
    for (int i = 0; i < kWindow; ++i) {
      MPI_Irecv(in.data() + i * kEach, kEach, MPI_BYTE, left, 2, MPI_COMM_WORLD, &requests[2 * i]);
      MPI_Isend(out.data() + i * kEach, kEach, MPI_BYTE, right, 2, MPI_COMM_WORLD, &requests[2 * i + 1]);
    }
    MPI_Waitall(2 * kWindow, requests.data(), MPI_STATUSES_IGNORE);
    expect(in.read() == pattern(in.size(), left, round), "window");
  }
}

/// A persistent pair spanning several allocations.
void persistent() {
  constexpr int kBytes = 5 << 20;
  Buffer out(Kind::mapped, kBytes, gpu), in(Kind::mapped, kBytes, gpu);
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  MPI_Request requests[2];
  MPI_Recv_init(in.data(), kBytes, MPI_BYTE, left, 4, MPI_COMM_WORLD, &requests[0]);
  MPI_Send_init(out.data(), kBytes, MPI_BYTE, right, 4, MPI_COMM_WORLD, &requests[1]);
  for (int round = 0; round < 4; ++round) {
    out.write(pattern(out.size(), rank, round));
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect(in.read() == pattern(in.size(), left, round), "persistent");
  }
  for (MPI_Request& request : requests) MPI_Request_free(&request);
}

/// Columns of a matrix spanning several allocations.
void columns() {
  constexpr int kRows = 3000, kRow = 1024, kPart = 256;
  Buffer out(Kind::mapped, size_t{kRows} * kRow, gpu), in(Kind::mapped, size_t{kRows} * kRow, gpu);
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  MPI_Datatype column;
  MPI_Type_vector(kRows, kPart, kRow, MPI_BYTE, &column);
  MPI_Type_commit(&column);
  for (int round = 0; round < 3; ++round) {
    out.write(pattern(out.size(), rank, round));
    const auto before = in.read(), theirs = pattern(in.size(), left, round);
    MPI_Sendrecv(out.data(), 1, column, right, 6, in.data(), 1, column, left, 6, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    const auto after = in.read();
    bool good = true;
    for (size_t i = 0; i + kRow - kPart < after.size(); ++i)
      good = good && after[i] == (i % kRow < kPart ? theirs[i] : before[i]);
    expect(good, "columns");
  }
  MPI_Type_free(&column);
}

/// Makes a system call fail from here on, as in a restricted container.
void forbid(unsigned call) {
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{std::size(code), code};
  const bool good = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                    ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  expect(good, "no system call filter can be set");
}

}  // namespace

int main(int argc, char** argv) {
  gpu = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  const std::string mode = argc > 1 ? argv[1] : "";
  if ((mode == "sent" || mode == "refused") && rank % 2 == 1) forbid(kGetfd);
  if (mode == "refused" && rank % 2 == 1) forbid(SYS_bind);
  few = mode == "few";
  if (mode == "long") short_lived = 1000;
  maps = mode != "off" && (mode != "refused" || rank % 2 == 0);
  spans();
  replaced();
  unshared();
  churn();
  released();
  window();
  persistent();
  columns();
  return weft::test::finish(failures);
}
