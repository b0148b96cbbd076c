// SPDX-License-Identifier: BSD-3-Clause
// Memory kinds: MPI_Win_allocate and MPI_Alloc_mem with mpi_memory_alloc_kinds allocate memory of the first
// kind that is possible, which works like memory of the program, and free it.
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "../device/cuda_test_support.hpp"

namespace {

using weft::device::MemoryKind;
constexpr int kWords = 1000;
constexpr MPI_Aint kBytes = kWords * sizeof(int64_t);
int rank = 0, size = 0, failures = 0;

void expect(bool right, const std::string& what) {
  if (right) return;
  ++failures;
  std::fprintf(stderr, "rank %d: %s is wrong\n", rank, what.c_str());
}

struct Hint {
  explicit Hint(const char* kinds) {
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_memory_alloc_kinds", kinds);
  }
  ~Hint() { MPI_Info_free(&info); }
  Hint(const Hint&) = delete;
  Hint& operator=(const Hint&) = delete;
  MPI_Info info = MPI_INFO_NULL;
};

void copy(void* to, const void* from, size_t bytes, MemoryKind kind, bool out) {
  auto& cuda = weft::test::cuda();
  if (kind != MemoryKind::cuda_device)
    std::memcpy(to, from, bytes);
  else if (out)
    (void)cuda.cuMemcpyDtoH_v2(to, reinterpret_cast<weft::test::Address>(from), bytes);
  else {
    (void)cuda.cuMemcpyHtoD_v2(reinterpret_cast<weft::test::Address>(to), from, bytes);
    (void)cuda.cuCtxSynchronize();  // up to 64 KiB the copy from pageable memory returns before it is done
  }
}

/// Puts to the next rank, and adds to a word of it.
void use(MPI_Win win, void* base, MemoryKind kind, const char* list) {
  std::vector<int64_t> values(kWords, 0), found(kWords);
  copy(base, values.data(), kBytes, kind, false);
  for (int i = 0; i < kWords; ++i) values[static_cast<size_t>(i)] = rank * 100000 + i;
  MPI_Barrier(MPI_COMM_WORLD);
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  const int64_t add = 1'000'000;
  MPI_Win_fence(0, win);
  MPI_Put(values.data(), kWords, MPI_INT64_T, to, 0, kWords, MPI_INT64_T, win);
  MPI_Win_fence(0, win);
  MPI_Accumulate(&add, 1, MPI_INT64_T, to, 7 * sizeof(int64_t), 1, MPI_INT64_T, MPI_SUM, win);
  MPI_Win_fence(0, win);
  copy(found.data(), base, kBytes, kind, true);
  for (int i = 0; i < kWords; ++i) values[static_cast<size_t>(i)] = from * 100000 + i;
  values[7] += add;
  expect(found == values, std::string("window of ") + list);
}

void window(const char* list, const char* chosen, MemoryKind kind) {
  const Hint hint(list);
  void* base = nullptr;
  MPI_Win win = MPI_WIN_NULL;
  if (MPI_Win_allocate(kBytes, 1, hint.info, MPI_COMM_WORLD, &base, &win) != MPI_SUCCESS)
    return expect(false, std::string("creation with ") + list);
  expect(weft::device::classify(base).kind == kind, std::string("kind of ") + list);
  MPI_Info used = MPI_INFO_NULL;
  MPI_Win_get_info(win, &used);
  char text[64] = "";
  int length = sizeof text, found = 0;
  MPI_Info_get_string(used, "mpi_memory_alloc_kinds", &length, text, &found);
  expect(found != 0 && std::string(text) == chosen, std::string("info of ") + list + " (" + text + ")");
  MPI_Info_free(&used);
  use(win, base, kind, list);
  MPI_Win_free(&win);
}

/// Every rank gets an error if one rank finds no kind.
void refused(const char* list) {
  const Hint hint(list);
  void* base = nullptr;
  MPI_Win win = MPI_WIN_NULL;
  const MPI_Info info = rank == size - 1 ? hint.info : MPI_INFO_NULL;
  const int code = MPI_Win_allocate(kBytes, 1, info, MPI_COMM_WORLD, &base, &win);
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  expect(error_class == MPI_ERR_NO_MEM, std::string("outcome of ") + list);
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  expect(std::strstr(text, rank == size - 1 ? list : "rank") != nullptr, text);
}

void alloc_mem(const char* list, MemoryKind kind, MPI_Aint bytes) {
  const Hint hint(list);
  void* base = nullptr;
  if (MPI_Alloc_mem(bytes, hint.info, &base) != MPI_SUCCESS)
    return expect(false, std::string("MPI_Alloc_mem with ") + list);
  expect(weft::device::classify(base).kind == kind, std::string("MPI_Alloc_mem's kind of ") + list);
  if (bytes == kBytes) {
    MPI_Win win = MPI_WIN_NULL;
    MPI_Win_create(base, kBytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    use(win, base, kind, list);
    MPI_Win_free(&win);
  }
  MPI_Free_mem(base);
}

void all() {
  window("cuda:device", "cuda:device", MemoryKind::cuda_device);
  window("cuda", "cuda", MemoryKind::cuda_device);
  window("cuda:host,system", "cuda:host", MemoryKind::host_pinned);
  window("cuda:managed", "cuda:managed", MemoryKind::cuda_managed);
  window("system", "system", MemoryKind::host);
  window("mpi:win_allocate,cuda:device", "mpi:win_allocate", MemoryKind::host);
  window("rocm:device,cuda:device", "cuda:device", MemoryKind::cuda_device);
  window(rank == 0 ? "cuda:device" : "system", rank == 0 ? "cuda:device" : "system",
         rank == 0 ? MemoryKind::cuda_device : MemoryKind::host);
  refused("rocm:device,cuda:unheard-of");
  alloc_mem("cuda:device", MemoryKind::cuda_device, kBytes);
  alloc_mem("cuda:device", MemoryKind::cuda_device, 0);
  alloc_mem("cuda:host", MemoryKind::host_pinned, kBytes);
  alloc_mem("cuda:managed", MemoryKind::cuda_managed, kBytes);
  alloc_mem("mpi,cuda:device", MemoryKind::host, kBytes);
}

/// A driver call that fails, and a thread without a context: the next kind of the list is taken.
void with_faults(weft::test::Cuda& cuda) {
  if (cuda.emulated()) {
    static constexpr const char* kFaults[][2] = {{"cuMemAlloc:1:2", "cuda:device,system"},
                                                 {"cuMemHostRegister:1:1", "cuda:host,system"},
                                                 {"cuMemAllocManaged:1:2", "cuda:managed,system"}};
    for (const auto& [fault, list] : kFaults) {
      expect(cuda.fail(fault) == 0, fault);
      window(list, "system", MemoryKind::host);
      cuda.fail("");
    }
  }
  weft::device::cuda::Context context = nullptr;
  (void)cuda.cuCtxGetCurrent(&context);
  (void)cuda.cuCtxSetCurrent(nullptr);
  refused("cuda:device,cuda:host,cuda:managed");
  window("cuda:device,system", "system", MemoryKind::host);
  (void)cuda.cuCtxSetCurrent(context);
}

}  // namespace

int main(int argc, char** argv) {
  (void)weft::test::own_device();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  (void)weft::test::settings_loaded();  // an error for settings of layers that this test is not linked with
  expect(weft::device::open().ok(), "the device layer of the test");
  auto& cuda = weft::test::cuda();
  all();
  with_faults(cuda);
  if (cuda.emulated()) {
    const unsigned long live = cuda.live();
    all();
    expect(cuda.live() == live, "number of allocations after all windows were freed");
  }
  weft::device::close();
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
