// SPDX-License-Identifier: BSD-3-Clause
// Fake libnccl.so.2 for the emulated driver: the functions that coll.nccl uses, through shared memory,
// complete on return. Counts its reductions for the tests.
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>

#define WEFT_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr size_t kRanks = 16, kVectorBytes = size_t{40} << 20;  // capacity of one rank's vector
constexpr int kFailed = 3;                                      // ncclInternalError

struct Id {
  char name[128];
};
struct Shared {
  std::atomic<uint32_t> arrived, generation;
};
struct Comm {
  int rank, size;
  Shared* shared;
  char* vectors;
};

std::atomic<unsigned long> reductions{0};

int (*to_host)(void*, uint64_t, size_t);
int (*to_device)(uint64_t, const void*, size_t);

bool find_driver() {
  const char* path = std::getenv("WEFT_CUDA_DRIVER");
  void* const driver = ::dlopen(path != nullptr ? path : "libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return false;
  const auto find = [&](const char* name, auto& function) {
    void* const symbol = ::dlsym(driver, name);
    std::memcpy(&function, &symbol, sizeof symbol);
    return symbol != nullptr;
  };
  return find("cuMemcpyDtoH_v2", to_host) && find("cuMemcpyHtoD_v2", to_device);
}

void barrier(const Comm& comm) {
  const uint32_t now = comm.shared->generation.load();
  if (comm.shared->arrived.fetch_add(1) + 1 == static_cast<uint32_t>(comm.size)) {
    comm.shared->arrived = 0;
    comm.shared->generation = now + 1;
    return;
  }
  while (comm.shared->generation.load() == now) ::sched_yield();
}

/// Integers wrap around, as in NCCL.
template <class T>
void combine(T& mine, T theirs, int op) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::make_unsigned_t<decltype(T{} + T{})>;
    if (op == 0) mine = static_cast<T>(static_cast<Wide>(mine) + static_cast<Wide>(theirs));
    if (op == 1) mine = static_cast<T>(static_cast<Wide>(mine) * static_cast<Wide>(theirs));
  } else {
    if (op == 0) mine = static_cast<T>(mine + theirs);
    if (op == 1) mine = static_cast<T>(mine * theirs);
  }
  if (op == 2) mine = theirs > mine ? theirs : mine;
  if (op == 3) mine = theirs < mine ? theirs : mine;
}

/// Combines elements [first, first + count) of all ranks in rank order; writes the result to device memory.
template <class T>
int fold(const Comm& comm, void* out, size_t first, size_t count, int op) {
  const auto vector = [&](int rank) {
    return reinterpret_cast<const T*>(comm.vectors + static_cast<size_t>(rank) * kVectorBytes) + first;
  };
  std::string bytes(count * sizeof(T), '\0');
  T* const result = reinterpret_cast<T*>(bytes.data());
  std::memcpy(bytes.data(), vector(0), bytes.size());
  for (int rank = 1; rank < comm.size; ++rank)
    for (size_t i = 0; i < count; ++i) combine(result[i], vector(rank)[i], op);
  return to_device(reinterpret_cast<uint64_t>(out), bytes.data(), bytes.size());
}

int fold_of(int type, const Comm& comm, void* out, size_t first, size_t count, int op) {
  switch (type) {
    case 0:
      return fold<int8_t>(comm, out, first, count, op);
    case 1:
      return fold<uint8_t>(comm, out, first, count, op);
    case 2:
      return fold<int32_t>(comm, out, first, count, op);
    case 3:
      return fold<uint32_t>(comm, out, first, count, op);
    case 4:
      return fold<int64_t>(comm, out, first, count, op);
    case 5:
      return fold<uint64_t>(comm, out, first, count, op);
    case 7:
      return fold<float>(comm, out, first, count, op);
    case 8:
      return fold<double>(comm, out, first, count, op);
    default:
      return 1;
  }
}

/// Reduces `count` elements of each rank; this rank receives `results` elements from `first` on.
int reduce(const void* in, void* out, size_t count, size_t first, size_t results, int type, int op,
           void* handle) {
  constexpr size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  const Comm& comm = *static_cast<Comm*>(handle);
  const size_t bytes = count * kSizes[type];
  if (bytes > kVectorBytes) return kFailed;
  ++reductions;
  int code = to_host(comm.vectors + static_cast<size_t>(comm.rank) * kVectorBytes,
                     reinterpret_cast<uint64_t>(in), bytes);
  barrier(comm);
  if (code == 0 && results != 0) code = fold_of(type, comm, out, first, results, op);
  barrier(comm);
  return code == 0 ? 0 : kFailed;
}

}  // namespace

WEFT_EXPORT unsigned long fake_nccl_reductions() { return reductions; }

WEFT_EXPORT const char* ncclGetErrorString(int) { return "the fake failed"; }

WEFT_EXPORT int ncclGetUniqueId(Id* id) {
  static int made = 0;
  std::snprintf(id->name, sizeof id->name, "/fake-nccl-%d-%d", static_cast<int>(::getpid()), ++made);
  return 0;
}

WEFT_EXPORT int ncclCommInitRank(void** handle, int size, Id id, int rank) {
  const int file = ::shm_open(id.name, O_RDWR | O_CREAT, 0600);
  const size_t bytes = 4096 + kRanks * kVectorBytes;
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0 || !find_driver()) return kFailed;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) return kFailed;
  auto* comm = new Comm{rank, size, static_cast<Shared*>(memory), static_cast<char*>(memory) + 4096};
  barrier(*comm);
  if (rank == 0) ::shm_unlink(id.name);
  *handle = comm;
  return 0;
}

WEFT_EXPORT int ncclCommDestroy(void* handle) {
  auto* comm = static_cast<Comm*>(handle);
  ::munmap(comm->shared, 4096 + kRanks * kVectorBytes);
  delete comm;
  return 0;
}

WEFT_EXPORT int ncclAllReduce(const void* in, void* out, size_t count, int type, int op, void* comm, void*) {
  return reduce(in, out, count, 0, count, type, op, comm);
}

WEFT_EXPORT int ncclReduce(const void* in, void* out, size_t count, int type, int op, int root, void* comm,
                           void*) {
  return reduce(in, out, count, 0, static_cast<Comm*>(comm)->rank == root ? count : 0, type, op, comm);
}

WEFT_EXPORT int ncclReduceScatter(const void* in, void* out, size_t count, int type, int op, void* handle,
                                  void*) {
  const Comm& comm = *static_cast<Comm*>(handle);
  return reduce(in, out, count * static_cast<size_t>(comm.size), static_cast<size_t>(comm.rank) * count,
                count, type, op, handle);
}
