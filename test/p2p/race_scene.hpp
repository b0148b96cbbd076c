// SPDX-License-Identifier: BSD-3-Clause
// The GPU work of the tests of WEFT_CHECK=gpu: kernels, streams and memory of the variants, expectations.
#pragma once
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "../../bench/common/kernel_texts.h"
#include "device/mpi_main.hpp"

namespace weft::test::race {

inline constexpr unsigned kNonBlocking = 1;
inline constexpr int kCount = 3000;  // doubles
inline constexpr size_t kBytes = kCount * sizeof(double);
inline int rank = 0, ranks = 0, failures = 0, device = 0;
inline void *delay_kernel = nullptr, *copy_kernel = nullptr, *spin_kernel = nullptr;

inline void expect(bool right, const std::string& what) {
  if (!right && ++failures < 20) std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
}

inline void succeed(int code, const char* what) {
  if (code == 0) return;
  std::fprintf(stderr, "rank %d: %s: error %d\n", rank, what, code);
  std::exit(1);
}

inline void make_current() { cuda().cuCtxSetCurrent(cuda().primary[static_cast<size_t>(device)]); }

inline void load(const char* text, const char* name, void** kernel) {
  void* module = nullptr;
  succeed(cuda().cuModuleLoadData(&module, text), "cuModuleLoadData");
  succeed(cuda().cuModuleGetFunction(kernel, module, name), name);
}

inline void launch(void* kernel, unsigned blocks, unsigned threads, Stream stream, void** parameters) {
  make_current();
  succeed(cuda().cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr),
          "launch");
}

inline void delay(Stream stream, unsigned blocks = 1, unsigned threads = 1, uint64_t ns = 1) {
  void* parameters[] = {&ns};
  launch(delay_kernel, blocks, threads, stream, parameters);
}

/// A kernel that copies `count` doubles.
inline void copy(Stream stream, const char* to, const char* from, uint64_t count = kCount,
                 uint64_t stride = 1) {
  auto destination = reinterpret_cast<Address>(to), source = reinterpret_cast<Address>(from);
  void* parameters[] = {&destination, &stride, &source, &stride, &count};
  launch(copy_kernel, 16, 128, stream, parameters);
}

inline unsigned full_gpu() {
  int processors = 1;
  if (!cuda().emulated()) (void)cuda().cuDeviceGetAttribute(&processors, 16, device);
  return static_cast<unsigned>(processors) * 4;
}

/// Memory, and a way to queue work that writes it later than gpu.default_stream_wait_ns.
struct Variant {
  const char* name;
  Buffer::Kind kind;
  enum How { stream, legacy, per_thread, full, by_copy } how;
};
inline constexpr Variant kVariants[] = {{"nonblocking", Buffer::Kind::device, Variant::stream},
                                        {"full", Buffer::Kind::device, Variant::full},
                                        {"legacy", Buffer::Kind::device, Variant::legacy},
                                        {"per_thread", Buffer::Kind::device, Variant::per_thread},
                                        {"copy", Buffer::Kind::device, Variant::by_copy},
                                        {"pool", Buffer::Kind::pool, Variant::stream},
                                        {"mapped", Buffer::Kind::mapped, Variant::stream},
                                        {"pool_legacy", Buffer::Kind::pool, Variant::legacy},
                                        {"managed", Buffer::Kind::managed, Variant::stream}};

/// Buffers, and a stream of the program.
class Scene {
 public:
  explicit Scene(const Variant& chosen)
      : variant(chosen),
        buffer(chosen.kind, 2 * kBytes, device),
        source(Buffer::Kind::device, kBytes, device) {
    make_current();
    if (variant.how == Variant::legacy) stream = reinterpret_cast<Stream>(1);
    if (variant.how == Variant::per_thread) stream = reinterpret_cast<Stream>(2);
    if (stream == nullptr) succeed(cuda().cuStreamCreate(&own, kNonBlocking), "cuStreamCreate"), stream = own;
    source.write(pattern(kBytes, 99));
    reset();
  }
  ~Scene() {
    release();
    wait();
    if (own != nullptr) cuda().cuStreamDestroy_v2(own);
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;
  void reset() {
    buffer.write(pattern(2 * kBytes, 1));
    make_current();
  }
  /// Queues work that takes `ms` milliseconds: with the emulated driver, whose kernels have a clock of their
  /// own, until a thread of this process ends it.
  void hold(int ms = 60) {
    constexpr uint64_t kNsPerMs = 1'000'000;
    const bool full = variant.how == Variant::full;
    if (!cuda().emulated())
      return delay(stream, full ? full_gpu() : 1, full ? 1024 : 1, static_cast<uint64_t>(ms) * kNsPerMs);
    release();
    auto* const word = reinterpret_cast<uint32_t*>(flag.data());
    __atomic_store_n(word, 0u, __ATOMIC_RELEASE);
    auto address = reinterpret_cast<Address>(word);
    uint32_t value = 1;
    void* parameters[] = {&address, &value};
    launch(spin_kernel, 1, 1, stream, parameters);
    if (full) cuda().kernels(1);
    releasing = std::thread([word, ms] {
      std::this_thread::sleep_for(std::chrono::milliseconds(ms));
      __atomic_store_n(word, 1u, __ATOMIC_RELEASE);
    });
  }
  void release() {
    if (releasing.joinable()) releasing.join();
  }
  /// Queues work that writes kCount doubles at `to` after `ms` milliseconds.
  void write(char* to, int ms = 60) {
    hold(ms);
    if (variant.how == Variant::by_copy)
      succeed(cuda().cuMemcpyDtoDAsync_v2(reinterpret_cast<Address>(to),
                                          reinterpret_cast<Address>(source.data()), kBytes, stream),
              "cuMemcpyDtoDAsync");
    else
      copy(stream, to, source.data());
  }
  void wait() const {
    make_current();
    succeed(cuda().cuCtxSynchronize(), "cuCtxSynchronize");
    if (cuda().emulated()) cuda().kernels(128);
  }
  [[nodiscard]] char* data() const { return buffer.data(); }
  [[nodiscard]] char* second() const { return buffer.data() + kBytes; }

  const Variant& variant;
  Buffer buffer, source, flag{Buffer::Kind::pinned, sizeof(uint32_t)};
  std::thread releasing;
  Stream stream = nullptr, own = nullptr;
};

/// Checks that an error reports a race of `call` of this rank at `buffer`.
inline void expect_race(int code, const std::string& call, const void* buffer, const std::string& what) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0, error_class = 0;
  MPI_Error_class(code, &error_class);
  MPI_Error_string(code, text, &length);
  char at[64];
  std::snprintf(at, sizeof at, "at %p on GPU", buffer);
  const bool right = error_class == MPI_ERR_BUFFER && std::strstr(text, ("before " + call + " ").c_str()) &&
                     std::strstr(text, ("rank " + std::to_string(rank)).c_str()) && std::strstr(text, at) &&
                     std::strstr(text, "cudaStreamSynchronize");
  expect(right, what + ": no report of " + call + ": " + text);
}
inline void expect_none(int code, const std::string& what) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (code != MPI_SUCCESS) MPI_Error_string(code, text, &length);
  expect(code == MPI_SUCCESS, what + ": a report without a race: " + text);
}

}  // namespace weft::test::race
