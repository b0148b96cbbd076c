// SPDX-License-Identifier: BSD-3-Clause
// Random one-sided traffic of kernels on GPUs, between fake hosts or inside one, against a serial model
// (random_traffic.hpp): by threads, warps and blocks. A rank compares its memory as a kernel has seen it once
// all notifications had arrived, and what its kernels have got. usage: device_random_hosts (rounds|seconds) N
// [SEED]
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "rma/random_traffic.hpp"
#include "stream/stream_comm.hpp"

extern "C" const unsigned char weft_fatbin_random_kernels[];

namespace {

using namespace weft::test::enqueued;
using namespace weft::test::traffic;

constexpr int kBlocks = 8;
constexpr unsigned kThreads = 128;
constexpr uint64_t kWords = 200000;
constexpr size_t kWindowBytes = kWords * sizeof(int64_t);
constexpr size_t kMostSegments = 1 << 20;

template <class T>
std::vector<char> bytes_of(const std::vector<T>& values) {
  std::vector<char> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

class Traffic {
 public:
  Traffic()
      : shape_{ranks, kBlocks, kWords, 30000},
        window_(Kind::device, kWindowBytes, device),
        snapshot_(Kind::device, kWindowBytes, device),
        buffers_(Kind::device, kWindowBytes * static_cast<size_t>(ranks), device),
        segments_(Kind::device, kMostSegments * sizeof(Segment), device),
        sums_(Kind::device, 64 * static_cast<size_t>(ranks) * sizeof(Sum), device),
        counts_(Kind::device, (kLast + 1) * sizeof(uint64_t), device),
        result_(Kind::device, 2 * sizeof(int64_t), device),
        model_(static_cast<size_t>(ranks), std::vector<int64_t>(kWords)) {
    window_.write(std::vector<char>(kWindowBytes));
    MPI_Win_create(window_.data(), kWindowBytes, sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &win_);
    expect_class(MPIX_Win_create_notify(win_, kLast + 1), MPI_SUCCESS, "create_notify");
    expect_class(MPIX_Win_device_handle(win_, &handle_), MPI_SUCCESS, "device_handle");
    void* module = nullptr;
    expect(driver().cuModuleLoadData(&module, weft_fatbin_random_kernels) == 0, "cuModuleLoadData");
    expect(driver().cuModuleGetFunction(&kernel_, module, "hosts_random") == 0, "cuModuleGetFunction");
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ~Traffic() { expect_class(MPI_Win_free(&win_), MPI_SUCCESS, "free"); }

  void run(uint64_t round) {
    const Plan plan(shape_, round);
    std::vector<Segment> segments;
    std::vector<Sum> sums;
    for (const Segment& segment : plan.segments)
      if (segment.origin == rank && segment.kind != Segment::untouched) segments.push_back(segment);
    for (const Sum& sum : plan.sums)
      if (sum.origin == rank) sums.push_back(sum);
    std::vector<int64_t> data(kWords * static_cast<size_t>(ranks));
    for (const Segment& segment : segments)
      if (segment.kind != Segment::get)
        for (uint64_t i = segment.first; i < segment.first + segment.words; ++i)
          data[static_cast<size_t>(segment.target) * kWords + i] = value(round, segment.target, i);
    expect(segments.size() <= kMostSegments && sums.size() * sizeof(Sum) <= sums_.size(), "room for a plan");
    segments_.write(bytes_of(segments));
    if (!sums.empty()) sums_.write(bytes_of(sums));
    buffers_.write(bytes_of(data));
    counts_.write(bytes_of(plan.notifications(shape_, rank)));
    result_.write(std::vector<char>(result_.size()));
    launch(static_cast<int>(segments.size()), static_cast<int>(sums.size()));
    compare(round, plan, segments);
  }

 private:
  void launch(int segment_count, int sum_count) {
    void *segments = segments_.data(), *sums = sums_.data(), *buffers = buffers_.data(),
         *counts = counts_.data(), *own = window_.data(), *snapshot = snapshot_.data(),
         *result = result_.data();
    unsigned long long words = kWords;
    void* parameters[] = {&handle_, &segments, &segment_count, &sums,     &sum_count, &buffers,
                          &words,   &counts,   &own,           &snapshot, &result};
    expect(
        driver().cuLaunchKernel(kernel_, kBlocks, 1, 1, kThreads, 1, 1, 0, nullptr, parameters, nullptr) == 0,
        "launch");
    expect(driver().cuCtxSynchronize() == 0, "cuCtxSynchronize");
  }
  void compare(uint64_t round, const Plan& plan, const std::vector<Segment>& segments) {
    const std::string in_round = ", round " + std::to_string(round);
    int64_t ended[2];
    std::memcpy(ended, result_.read().data(), sizeof ended);
    expect(ended[0] == 0 && ended[1] == kBlocks,
           "errors: " + std::to_string(ended[0]) + ", blocks ended: " + std::to_string(ended[1]) + in_round);
    const std::vector<char> got = buffers_.read(), seen = snapshot_.read();
    for (const Segment& segment : segments)
      if (segment.kind == Segment::get)
        expect(
            std::memcmp(got.data() + (static_cast<size_t>(segment.target) * kWords + segment.first) * 8,
                        &model_[static_cast<size_t>(segment.target)][segment.first], segment.words * 8) == 0,
            "got data" + in_round);
    apply(plan, round, model_);
    expect(std::memcmp(seen.data(), model_[static_cast<size_t>(rank)].data(), kWindowBytes) == 0,
           "window memory after the notifications" + in_round);
  }

  const Shape shape_;
  Buffer window_, snapshot_, buffers_, segments_, sums_, counts_, result_;
  Model model_;
  MPI_Win win_ = MPI_WIN_NULL;
  void *handle_ = nullptr, *kernel_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  weft::test::start(argc, argv, rank, ranks);
  device = rank % weft::test::cuda().devices;  // the local rank of each fake host is 0
  const bool timed = argc > 1 && std::strcmp(argv[1], "seconds") == 0;
  const double limit = argc > 2 ? std::atof(argv[2]) : 20;
  const uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  uint64_t rounds = 0;
  {
    Traffic traffic;
    const double begin = MPI_Wtime();
    for (int more = 1; more != 0; ++rounds) {
      traffic.run(seed * 1000000 + rounds);
      int good =
          failures == 0 && (timed ? MPI_Wtime() - begin < limit : static_cast<double>(rounds + 1) < limit);
      MPI_Allreduce(&good, &more, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
  }
  if (rank == 0) std::printf("%llu rounds\n", static_cast<unsigned long long>(rounds));
  return weft::test::finish(failures);
}
