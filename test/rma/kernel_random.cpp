// SPDX-License-Identifier: BSD-3-Clause
// Random one-sided traffic of kernels on the emulated driver against a serial model (random_traffic.hpp).
// A rank compares its memory as soon as all notifications have arrived, without a flush.
// usage: kernel_random (rounds|seconds) N [SEED]
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "rma/emulated_kernel.hpp"
#include "rma/random_traffic.hpp"
#include "stream/stream_comm.hpp"

namespace {

using namespace weft::test::enqueued;
using weft::device::Error;
using weft::device::Target;
using weft::device::Thread;
using weft::test::EmulatedHandle;
using KernelWindow = weft::device::Window;

constexpr int kThreads = 2;
constexpr size_t kWords = 60000;

using namespace weft::test::traffic;

/// The operations of one thread.
void execute(KernelWindow window, int thread, uint64_t round, const Plan& plan, const Model& before) {
  for (const Segment& segment : plan.segments) {
    if (segment.origin != rank || segment.by != thread || segment.kind == Segment::untouched) continue;
    std::vector<int64_t> data(segment.words);
    const size_t bytes = segment.words * sizeof(int64_t);
    const Target target = window.target(segment.target);
    if (segment.kind == Segment::get) {
      expect(target.get(Thread(), segment.first, data.data(), bytes) == Error::none, "get");
      expect(
          std::memcmp(data.data(), &before[static_cast<size_t>(segment.target)][segment.first], bytes) == 0,
          "got data, round " + std::to_string(round));
      continue;
    }
    for (size_t i = 0; i < segment.words; ++i) data[i] = value(round, segment.target, segment.first + i);
    const Error error = segment.kind == Segment::put ? target.put(Thread(), segment.first, data.data(), bytes)
                                                     : target.put_notify(Thread(), segment.first, data.data(),
                                                                         bytes, segment.notification);
    expect(error == Error::none, "put");
    std::memset(data.data(), 0xee, bytes);  // the put has ended: the memory may be reused
  }
  for (const Sum& sum : plan.sums)
    if (sum.origin == rank && sum.by == thread)
      window.target(sum.target).atomic_add<int64_t>(static_cast<uint64_t>(sum.index), sum.value);
  for (int to = 0; to < ranks; ++to) expect(window.notify(Thread(), to, kLast) == Error::none, "notify");
}

void one_round(const EmulatedHandle& handle, const int64_t* own, uint64_t round, Model& model) {
  const Shape shape{ranks, kThreads, kWords, 24000};  // more than two stages of the queue
  const Plan plan(shape, round);
  const Model before = model;
  apply(plan, round, model);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] { execute(KernelWindow(handle.get()), i, round, plan, before); });
  for (std::thread& thread : threads) thread.join();
  const KernelWindow window(handle.get());
  const std::vector<uint64_t> counts = plan.notifications(shape, rank);
  for (uint32_t i = 0; i < counts.size(); ++i)
    expect(window.wait_notify(Thread(), i, counts[i]) == Error::none, "wait_notify");
  expect(std::memcmp(own, model[static_cast<size_t>(rank)].data(), kWords * sizeof(int64_t)) == 0,
         "window memory after the notifications, round " + std::to_string(round));
  expect(window.barrier(Thread()) == Error::none, "barrier");
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  const bool timed = argc > 1 && std::strcmp(argv[1], "seconds") == 0;
  const double limit = argc > 2 ? std::atof(argv[2]) : 20;
  const uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  Buffer memory(Kind::device, kWords * sizeof(int64_t), device);
  memory.write(std::vector<char>(kWords * sizeof(int64_t)));
  MPI_Win win;
  void* handle = nullptr;
  MPI_Win_create(memory.data(), kWords * sizeof(int64_t), sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD,
                 &win);
  expect_class(MPIX_Win_create_notify(win, 4), MPI_SUCCESS, "create_notify");
  expect_class(MPIX_Win_device_handle(win, &handle), MPI_SUCCESS, "device_handle");
  MPI_Barrier(MPI_COMM_WORLD);
  uint64_t rounds = 0;
  {
    const EmulatedHandle emulated(handle);
    const auto* const own = static_cast<const int64_t*>(
        EmulatedHandle::alias(reinterpret_cast<uint64_t>(memory.data()), kWords * sizeof(int64_t)));
    Model model(static_cast<size_t>(ranks), std::vector<int64_t>(kWords));
    const double begin = MPI_Wtime();
    for (int more = 1; more != 0; ++rounds) {
      one_round(emulated, own, seed * 1000000 + rounds, model);
      int good =
          failures == 0 && (timed ? MPI_Wtime() - begin < limit : static_cast<double>(rounds + 1) < limit);
      MPI_Allreduce(&good, &more, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
  }
  if (rank == 0) std::printf("%llu rounds\n", static_cast<unsigned long long>(rounds));
  expect_class(MPI_Win_free(&win), MPI_SUCCESS, "free");
  return weft::test::finish(failures);
}
