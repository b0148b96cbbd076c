// SPDX-License-Identifier: BSD-3-Clause
// The device code of examples/kernels on the emulated driver: each token comes back from its expert.
#include <cstring>
#include <random>
#include <vector>

#include "../../examples/kernels/tokens.cuh"
#include "rma/emulated_kernel.hpp"
#include "stream/stream_comm.hpp"

namespace {

using namespace weft::test::enqueued;
using weft::test::EmulatedHandle;

void exchange(int count, int width, int rounds) {
  const tokens::Layout layout{ranks, count, width};
  const size_t bytes = layout.words() * sizeof(float);
  Buffer memory(Kind::device, bytes, device);
  memory.write(std::vector<char>(bytes));
  MPI_Win win;
  void* handle = nullptr;
  MPI_Win_create(memory.data(), static_cast<MPI_Aint>(bytes), sizeof(float), MPI_INFO_NULL, MPI_COMM_WORLD,
                 &win);
  expect_class(MPIX_Win_create_notify(win, tokens::notifications), MPI_SUCCESS, "create_notify");
  expect_class(MPIX_Win_device_handle(win, &handle), MPI_SUCCESS, "device_handle");
  MPI_Barrier(MPI_COMM_WORLD);
  const EmulatedHandle emulated(handle);
  const auto* const own =
      static_cast<const float*>(EmulatedHandle::alias(reinterpret_cast<uint64_t>(memory.data()), bytes));
  std::mt19937 random(static_cast<unsigned>(rank + 1));
  for (int round = 0; round < rounds; ++round) {
    std::vector<float> data(static_cast<size_t>(count) * static_cast<size_t>(width));
    std::vector<int> experts(static_cast<size_t>(count));
    for (float& value : data) value = static_cast<float>(random() % 1000);
    for (int& expert : experts) expert = static_cast<int>(random() % static_cast<unsigned>(ranks));
    const weft::device::Window window(emulated.get());
    const auto error = tokens::round(weft::device::Thread(), window, layout, data.data(), experts.data(), 0,
                                     1, [](weft::device::Error found) { return found; });
    expect(error == weft::device::Error::none, "a round of tokens");
    bool same = true;
    for (int i = 0; i < count; ++i)
      for (int k = 0; k < width; ++k)
        same = same && own[layout.result(i) + static_cast<uint64_t>(k)] ==
                           data[static_cast<size_t>(i * width + k)] *
                               static_cast<float>(experts[static_cast<size_t>(i)] + 1);
    expect(same, "results of " + std::to_string(count) + " tokens, round " + std::to_string(round));
    MPI_Barrier(MPI_COMM_WORLD);
  }
  expect_class(MPI_Win_free(&win), MPI_SUCCESS, "free");
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  exchange(1, 1, 3);
  exchange(40, 128, 5);
  exchange(16, 2048, 3);  // a token is larger than a record
  return weft::test::finish(failures);
}
