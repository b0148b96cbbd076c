// SPDX-License-Identifier: BSD-3-Clause
// A record of a wait table that its rank updates while it is read from outside: a wait that is shown is one
// wait, never a mixture of two.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "mpiexec/waits.hpp"

namespace weft::mpiexec {
namespace {

using wait_table::PrivateTable;
using wait_table::Record;

/// Stores wait number n, as core/waits does.
void update(Record& record, int n) {
  const uint32_t version = record.version.load(std::memory_order_relaxed);
  record.version.store(version + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  record.what = wait_table::What::receive;
  record.peer = record.tag = n;
  record.count = static_cast<uint64_t>(n);
  std::snprintf(record.call, sizeof record.call, "MPI_Recv %d", n);
  std::snprintf(record.operation, sizeof record.operation, "%d", n);
  record.since.store(1, std::memory_order_relaxed);
  record.version.store(version + 2, std::memory_order_release);
  record.seen.store(monotonic_ns(), std::memory_order_release);
}

TEST(WaitRecords, AreNotMixed) {
  const int fd = ::memfd_create("wait_records", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::ftruncate(fd, sizeof(PrivateTable)), 0);
  void* const base = ::mmap(nullptr, sizeof(PrivateTable), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(base, MAP_FAILED);
  auto& memory = *static_cast<PrivateTable*>(base);
  wait_table::describe(memory.directory, 1, 0, sizeof memory, offsetof(PrivateTable, table));
  memory.table.size = 1;
  memory.table.pid.store(::getpid());
  update(memory.table.records[1], 1);

  std::atomic<bool> end{false};
  std::thread rank([&] {
    for (int n = 2; !end.load(); ++n) {
      update(memory.table.records[1], n);
      for (const uint64_t until = monotonic_ns() + 10'000; monotonic_ns() < until;) continue;
    }
  });
  Memory opened;
  opened.fd = ::dup(fd);
  opened.size = sizeof(PrivateTable);
  const WatchedJob job(std::move(opened));
  int shown = 0, mixed = 0;
  for (const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(700);
       std::chrono::steady_clock::now() < until;) {
    for (const RankState& state : job.read().ranks)
      for (const Wait& wait : state.waits) {
        ++shown;
        const std::string n = std::to_string(wait.peer);
        if (wait.tag != wait.peer || wait.count != static_cast<uint64_t>(wait.peer) ||
            wait.call != "MPI_Recv " + n || wait.operation != n)
          ++mixed;
      }
  }
  end.store(true);
  rank.join();
  EXPECT_GT(shown, 100);
  EXPECT_EQ(mixed, 0);
  ::munmap(base, sizeof(PrivateTable));
  ::close(fd);
}

}  // namespace
}  // namespace weft::mpiexec
