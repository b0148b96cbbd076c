// SPDX-License-Identifier: BSD-3-Clause
// CUDA driver for the Jacobi solver: runs its kernels on the simulated GPU, in host memory. Streams run as
// late as possible, only when something waits for them, so a missing wait gives a wrong result. Preloaded, it
// also reports CUDA support of the MPI library, since its device memory is host memory.
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "simulated_gpu.hpp"
// Must follow the simulated GPU:
#include "../../examples/jacobi/cuda_driver.hpp"
#include "../../examples/jacobi/kernels.cu"

namespace jacobi::cuda {

struct StreamTag {
  std::deque<std::function<void()>> queue;
  size_t issued = 0, done = 0;
};

struct EventTag {
  StreamTag* stream = nullptr;
  size_t position = 0;
};

struct FunctionTag {
  std::string name;
};

}  // namespace jacobi::cuda

namespace {

using namespace jacobi::cuda;

constexpr Status success = 0, invalid_value = 1;

void run(StreamTag* stream, size_t until) {
  while (stream && stream->done < until) {
    const std::function<void()> work = std::move(stream->queue.front());
    stream->queue.pop_front();
    ++stream->done;
    work();
  }
}

Status submit(StreamTag* stream, std::function<void()> work) {
  stream->queue.push_back(std::move(work));
  ++stream->issued;
  return success;
}

template <class T>
T parameter(void** parameters, int index) {
  T value;
  std::memcpy(&value, parameters[index], sizeof value);
  return value;
}

using SweepKernel = void (*)(const float*, float*, Strips, Norm);

SweepKernel sweep_kernel(const std::string& name) {
  if (name == "jacobi_sweep_4") return jacobi_sweep_4;
  if (name == "jacobi_sweep_4_norm") return jacobi_sweep_4_norm;
  if (name == "jacobi_sweep_1") return jacobi_sweep_1;
  return name == "jacobi_sweep_1_norm" ? jacobi_sweep_1_norm : nullptr;
}

void* at(Address address) { return reinterpret_cast<void*>(address); }

Status copy(void* to, const void* from, size_t bytes, StreamTag* stream) {
  return submit(stream, [=] { std::memcpy(to, from, bytes); });
}

}  // namespace

extern "C" {

int MPIX_Query_cuda_support() { return 1; }

Status cuInit(unsigned) { return success; }
Status cuGetErrorString(Status, const char** text) {
  *text = "simulated failure";
  return success;
}
Status cuDeviceGetCount(int* count) {
  *count = 1;
  return success;
}
Status cuDeviceGet(Device* device, int ordinal) {
  *device = ordinal;
  return success;
}
Status cuDeviceGetName(char* name, int length, Device) {
  std::strncpy(name, "Simulated GPU", static_cast<size_t>(length));
  return success;
}
Status cuDeviceGetUuid_v2(Uuid* uuid, Device) {
  std::memset(uuid, 7, sizeof *uuid);
  return success;
}
Status cuDeviceGetAttribute(int* value, int, Device) {
  *value = 1;
  return success;
}
Status cuDevicePrimaryCtxRetain(Context*, Device) { return success; }
Status cuDevicePrimaryCtxRelease_v2(Device) { return success; }
Status cuCtxSetCurrent(Context) { return success; }
Status cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0, *greatest = -5;
  return success;
}
Status cuModuleLoadData(Module*, const void* image) { return image ? success : invalid_value; }
Status cuModuleUnload(Module) { return success; }
Status cuModuleGetFunction(Function* function, Module, const char* name) {
  *function = new FunctionTag{name};
  return success;
}

Status cuLaunchKernel(Function function, unsigned grid_x, unsigned, unsigned, unsigned block_x, unsigned,
                      unsigned, unsigned, Stream stream, void** parameters, void**) {
  if (grid_x == 0 || block_x != threads) return invalid_value;
  if (const SweepKernel kernel = sweep_kernel(function->name)) {
    const auto* from = parameter<const float*>(parameters, 0);
    auto* to = parameter<float*>(parameters, 1);
    const auto strips = parameter<Strips>(parameters, 2);
    const auto norm = parameter<Norm>(parameters, 3);
    return submit(stream,
                  [=] { simulated::launch(grid_x, threads, [=] { kernel(from, to, strips, norm); }); });
  }
  if (function->name != "jacobi_set_columns") return invalid_value;
  auto* grid = parameter<float*>(parameters, 0);
  const int nx = parameter<int>(parameters, 1), rows = parameter<int>(parameters, 3);
  const auto* values = parameter<const float*>(parameters, 2);
  return submit(stream, [=] {
    simulated::launch(grid_x, threads, [=] { jacobi_set_columns(grid, nx, values, rows); });
  });
}

Status cuMemAlloc_v2(Address* address, size_t bytes) {
  void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!memory) return invalid_value;
  std::memset(memory, 0xFF, bytes);  // every float is NaN
  *address = reinterpret_cast<Address>(memory);
  return success;
}
Status cuMemFree_v2(Address address) {
  std::free(at(address));
  return success;
}
Status cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
  *pointer = std::malloc(bytes);
  return *pointer ? success : invalid_value;
}
Status cuMemFreeHost(void* pointer) {
  std::free(pointer);
  return success;
}
Status cuMemsetD8Async(Address address, unsigned char value, size_t bytes, Stream stream) {
  return submit(stream, [=] { std::memset(at(address), value, bytes); });
}
Status cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, Stream stream) {
  return copy(at(to), from, bytes, stream);
}
Status cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, Stream stream) {
  return copy(to, at(from), bytes, stream);
}
Status cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, Stream stream) {
  return copy(at(to), at(from), bytes, stream);
}

Status cuStreamCreateWithPriority(Stream* stream, unsigned, int) {
  *stream = new StreamTag;
  return success;
}
Status cuStreamDestroy_v2(Stream stream) {
  delete stream;
  return success;
}
Status cuStreamSynchronize(Stream stream) {
  run(stream, stream->issued);
  return success;
}
Status cuStreamWaitEvent(Stream stream, Event event, unsigned) {
  return submit(stream, [recorded = *event] { run(recorded.stream, recorded.position); });
}
Status cuEventCreate(Event* event, unsigned) {
  *event = new EventTag;
  return success;
}
Status cuEventDestroy_v2(Event event) {
  delete event;
  return success;
}
Status cuEventRecord(Event event, Stream stream) {
  *event = {stream, stream->issued};
  return success;
}
Status cuEventSynchronize(Event event) {
  run(event->stream, event->position);
  return success;
}
}
